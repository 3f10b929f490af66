//! `cargo xtask fuzz`: builds the fuzz targets with coverage instrumentation, on the stable compiler, and runs them in
//! turn for a share of the time each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// What libFuzzer needs to be led by: a counter at every branch, and comparisons.
const INSTRUMENT: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";
/// In all, unless the command says otherwise.
const SECONDS: u64 = 60;
/// The largest input that is tried.
const LONGEST: usize = 1 << 15;
/// One input may take this long and so much memory: far more than any needs.
const LIMITS: [&str; 2] = ["-timeout=60", "-rss_limit_mb=3072"];

pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    let (seconds, targets) = match words {
        ["--seconds", number, rest @ ..] => (number.parse().context("--seconds takes a number")?, rest),
        rest => (SECONDS, rest),
    };
    let program = build(root)?;
    let known = known(&program)?;
    let targets: Vec<&str> =
        if targets.is_empty() { known.iter().map(String::as_str).collect() } else { targets.to_vec() };
    if let Some(unknown) = targets.iter().find(|target| !known.iter().any(|name| name == *target)) {
        bail!("there is no target {unknown}: there are {}", known.join(", "));
    }
    let each = (seconds / targets.len().max(1) as u64).max(1);
    for target in &targets {
        println!("fuzzing {target} for {each} s");
        fuzz(root, &program, target, each)?;
    }
    println!("{} targets, {seconds} s in all: nothing broke", targets.len());
    Ok(())
}

fn folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("fuzz")
}

fn build(root: &Path) -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    // With a target named, build scripts and macros are not instrumented.
    let status = Command::new("cargo")
        .args(["build", "--release", "--quiet", "--target", &target, "--manifest-path"])
        .arg(root.join("fuzz/Cargo.toml"))
        .arg("--target-dir")
        .arg(folder(root))
        .env("RUSTFLAGS", INSTRUMENT)
        .status()?;
    if !status.success() {
        bail!("the fuzz targets do not build");
    }
    Ok(folder(root).join(target).join("release/trainyard-fuzz"))
}

/// The targets there are: the program writes their first inputs, one folder each.
fn known(program: &Path) -> Result<Vec<String>> {
    let output = Command::new(program).env("TRAINYARD_FUZZ", "?").arg("-runs=0").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix("target ")).map(str::to_owned).collect();
    if names.is_empty() {
        bail!("{} names no targets: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(names)
}

fn fuzz(root: &Path, program: &Path, target: &str, seconds: u64) -> Result<()> {
    let corpus = folder(root).join("corpus").join(target);
    let found = folder(root).join("found").join(target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&found)?;
    let output = Command::new(program)
        .arg(&corpus)
        .args(LIMITS)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={LONGEST}"))
        .arg("-print_final_stats=1")
        .arg(format!("-artifact_prefix={}/", found.display()))
        .env("TRAINYARD_FUZZ", target)
        .env("TRAINYARD_FUZZ_SEEDS", &corpus)
        .output()?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let lines: Vec<&str> = log.lines().collect();
        let end = lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n");
        bail!("{target} broke; what broke it is in {}\n{end}", found.display());
    }
    for line in log.lines().filter(|line| line.contains("number_of_executed_units")) {
        println!("  {line}");
    }
    Ok(())
}
