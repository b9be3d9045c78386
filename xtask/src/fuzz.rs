//! The fuzzer: decoders of what other processes write, under libFuzzer and AddressSanitizer.

use std::path::PathBuf;
use std::{env, fs};

use limic_runner::{Failure, Job, Summary, console, folders};

use crate::optional;

/// Where the targets lie, one a file.
const TARGETS: &str = "fuzz/targets";

/// Seconds that CI gives to each. It begins with the same inputs each time, so that a change is to
/// blame for what they find.
const SECONDS: u64 = 3;

/// What cargo-fuzz asks of rustc: code that reports which edges it takes and what it compares, and
/// finds bytes that lie outside of their allocation.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Zsanitizer=address";

/// Which targets run, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Fuzz {
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,

    /// Targets in fuzz/targets; without a name, all
    targets: Vec<String>,
}

/// `cargo xtask fuzz`: what a target finds interesting is kept, and its next run begins with it.
pub(crate) fn run(wanted: &Fuzz, summary: &mut Summary) -> Result<(), Failure> {
    let all = names()?;
    if let Some(unknown) = wanted.targets.iter().find(|name| !all.contains(name)) {
        return Err(Failure::Missing(format!(
            "there is no target {unknown}: {TARGETS} has {}",
            all.join(", ")
        )));
    }
    let picked = match wanted.targets.is_empty() {
        true => &all,
        false => &wanted.targets,
    };
    each(picked, wanted.seconds, summary, |name| {
        let corpus = folders::root().join("target/fuzz/corpus").join(name);
        folders::make(&corpus)?;
        Ok(vec![corpus.display().to_string()])
    })
}

/// A few seconds of each target.
pub(crate) fn check(summary: &mut Summary) -> Result<(), Failure> {
    each(&names()?, SECONDS, summary, |_| {
        Ok(vec!["-seed=1".to_owned()])
    })
}

fn names() -> Result<Vec<String>, Failure> {
    let path = folders::root().join(TARGETS);
    let files = fs::read_dir(&path).map_err(|source| Failure::File {
        verb: "read",
        path,
        source,
    })?;
    let stem = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    let names = files.flatten().filter_map(|file| stem(file.path()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// Builds the targets and runs each with these further arguments.
fn each(
    names: &[String],
    seconds: u64,
    summary: &mut Summary,
    further: impl Fn(&str) -> Result<Vec<String>, Failure>,
) -> Result<(), Failure> {
    if let Err(why) = optional::toolchain("nightly") {
        summary.skip_check(&format!("the fuzzer: nightly Rust: {why}"));
        return Ok(());
    }
    let folder = folders::root().join("fuzz");
    let cargo = |words: &[&str], minutes| {
        let nightly = Job::new("rustup", minutes).args(["run", "nightly", "cargo"]);
        nightly.args(words).within(&folder)
    };
    let lock = folder.join("Cargo.lock");
    let before = fs::read(&lock).ok();
    if !cargo(&["fetch"], 5).succeeds() {
        summary.skip_check("the fuzzer: the packages of fuzz/Cargo.lock cannot be had");
        return Ok(());
    }
    // With --locked it would look as if the packages could not be had.
    if fs::read(&lock).ok() != before {
        return Err(Failure::Wrong(format!(
            "{} did not fit the crates any more and is written anew: commit it",
            lock.display()
        )));
    }
    let host = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    cargo(&["build", "--quiet", "--release", "--locked"], 15)
        .args(["--target", &host])
        .env("RUSTFLAGS", FLAGS)
        .env("CARGO_TARGET_DIR", folders::root().join("target/fuzz"))
        .run()?;
    let found = folders::root().join("target/fuzz/found");
    folders::make(&found)?;
    for name in names {
        let program = folders::root().join("target/fuzz").join(&host);
        let mut lines = Vec::new();
        let job = Job::new(program.join("release").join(name), 2 + seconds / 60)
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/{name}-", found.display()))
            .args(["-print_final_stats=1", "-timeout=10"])
            .args(further(name)?);
        let ended = job.run_lines(|line| lines.push(line.to_owned()));
        if let Err(failure) = ended {
            lines.iter().for_each(|line| console::detail(line));
            return Err(Failure::Wrong(format!("{failure}{}", reason(&lines))));
        }
        let runs = lines
            .iter()
            .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        println!("    {name}: {} inputs", runs.unwrap_or("?").trim());
        summary.pass();
    }
    Ok(())
}

/// What a target says that it found, and the input with which it found it.
fn reason(lines: &[String]) -> String {
    let says = |line: &&String| line.contains("panicked at") || line.contains("ERROR:");
    let found = lines.iter().skip_while(|line| !says(line)).take(12);
    let input = lines.iter().filter(|line| line.starts_with("Base64:"));
    found.chain(input).map(|line| format!("\n{line}")).collect()
}
