//! The fuzz targets, briefly: what they begin with and changes of it. `cargo xtask fuzz` searches on, led by coverage.

#[path = "../../../../fuzz/src/targets.rs"]
mod targets;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// Tries for each target.
const TRIES: usize = 400;

/// Changes a few bytes: other values, gone, doubled, or put together from two places.
fn mutate(random: &mut StdRng, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.random_range(1..6) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..5) {
            0 if at < bytes.len() => bytes[at] = random.random(),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => {
                bytes.insert(at, *b"{}[]\"\\:,.-0e\n\0\xff~/$%".get(random.random_range(0..19)).unwrap_or(&0))
            }
            _ => {
                let (from, to) = (random.random_range(0..=at), at);
                let piece = bytes[from..to].to_vec();
                bytes.splice(at..at, piece);
            }
        }
        bytes.truncate(1 << 14);
    }
    bytes
}

#[tokio::test]
async fn no_decoder_breaks() {
    let world = targets::World::new().await;
    for target in targets::names() {
        let mut random = StdRng::seed_from_u64(7);
        for seed in targets::seeds(target) {
            world.feed(target, &seed).await;
            for _ in 0..TRIES {
                world.feed(target, &mutate(&mut random, &seed)).await;
            }
        }
        world.feed(target, b"").await;
    }
}
