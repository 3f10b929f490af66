//! The shim alone, for the tests: what `trainyard shim` is in the product.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    trainyard_node::shim::main(&args)
}
