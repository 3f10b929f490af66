//! One program for all targets; `TRAINYARD_FUZZ` says which. Run by `cargo xtask fuzz`.
#![no_main]

mod targets;

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

struct Fuzz {
    runtime: Runtime,
    world: targets::World,
    target: String,
}

impl Fuzz {
    /// Asked for `?`, tells which targets there are.
    fn new() -> Self {
        let target = std::env::var("TRAINYARD_FUZZ").expect("TRAINYARD_FUZZ names a target");
        if target == "?" {
            targets::names().iter().for_each(|name| println!("target {name}"));
            std::process::exit(0);
        }
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let world = runtime.block_on(targets::World::new());
        Self { runtime, world, target }
    }
}

/// Writes what to begin with to where the search begins.
fn seed() {
    let Some(folder) = std::env::var_os("TRAINYARD_FUZZ_SEEDS") else { return };
    let target = std::env::var("TRAINYARD_FUZZ").unwrap_or_default();
    for (number, seed) in targets::seeds(&target).iter().enumerate() {
        let path = std::path::Path::new(&folder).join(format!("seed-{number}"));
        std::fs::write(path, seed).expect("a corpus that can be written");
    }
}

thread_local! {
    static FUZZ: OnceCell<Fuzz> = const { OnceCell::new() };
}

fuzz_target!(init: seed(), |bytes: &[u8]| {
    FUZZ.with(|cell| {
        let fuzz = cell.get_or_init(Fuzz::new);
        fuzz.runtime.block_on(fuzz.world.feed(&fuzz.target, bytes));
    });
});
