//! `trainyard wait-for-host`: what an init container does until a master's name is known.

use std::net::ToSocketAddrs as _;
use std::process::ExitCode;
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The name.
    host: String,
    /// How often to look.
    #[arg(long, default_value_t = 100)]
    tries: u32,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    for again in (0..args.tries).rev() {
        match (args.host.as_str(), 0).to_socket_addrs().map(|mut addresses| addresses.next()) {
            Ok(Some(_)) => return Ok(ExitCode::SUCCESS),
            Ok(None) => crate::complain(&format!("waiting for {}: it has no address", args.host)),
            Err(error) => crate::complain(&format!("waiting for {}: {error}", args.host)),
        }
        if again > 0 {
            std::thread::sleep(PAUSE);
        }
    }
    anyhow::bail!("{} is still not known after {} tries", args.host, args.tries)
}
