//! What the interface for C costs: a ping-pong from C beside the same one from Rust, in turn.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use crate::bounded;
use crate::compare::{choose_cpus, handover};
use crate::console;
use crate::failure::Failure;
use crate::install;
use crate::job::{Job, root, target};

/// The program, which is an example for users too.
const PROGRAM: &str = "crates/capi/examples/latency.c";
const SIZES: [u64; 2] = [8, 1024];
/// Between two readings of the machine; beyond this factor a round counts for nothing.
const CHANGED: f64 = 1.3;
/// For one run of either.
const LIMIT: Duration = Duration::from_secs(20);

/// What the C interface costs: a ping-pong from C beside that of `limic perf`, in turn.
#[derive(Debug, Args)]
pub(crate) struct CLatency {
    /// How often both are measured.
    #[arg(long, default_value = "9", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// For each length, in each round and each language.
    #[arg(long, default_value = "0.1")]
    seconds_per_point: f64,
}

/// Of one round: microseconds one way, by size.
struct Round {
    c: Vec<f64>,
    rust: Vec<f64>,
}

pub(crate) fn run(args: &CLatency) -> Result<(), Failure> {
    let (program, library) = build()?;
    let limic = target().join("release/limic");
    let cpus = choose_cpus(&[])?;
    let seconds = args.seconds_per_point.to_string();
    let mut rounds = Vec::new();
    let mut readings = Vec::new();
    for round in 0..args.rounds {
        let before = handover(&limic, &cpus);
        // Whoever comes first in one round comes last in the next.
        let c_first = round % 2 == 0;
        let first = c_first.then(|| from_c(&limic, &program, &library, &cpus, &seconds));
        let rust = from_rust(&limic, &cpus, &seconds)?;
        let c = match first {
            Some(first) => first?,
            None => from_c(&limic, &program, &library, &cpus, &seconds)?,
        };
        let after = handover(&limic, &cpus);
        if let (Some(before), Some(after)) = (before, after) {
            readings.extend([before, after]);
            if before.max(after) > CHANGED * before.min(after) {
                console::detail(&format_args!(
                    "round {}: the CPUs' distance has changed meanwhile; it does not count",
                    round + 1
                ));
                continue;
            }
        }
        rounds.push(Round { c, rust });
    }
    if rounds.is_empty() {
        return Err(Failure::Wrong(
            "the CPUs did not keep their distance in any round; once more".to_owned(),
        ));
    }
    println!(
        "{:>6}  {:>8}  {:>8}  {:>10}",
        "bytes", "C", "Rust", "difference"
    );
    for (at, bytes) in SIZES.iter().enumerate() {
        let ns = |pick: &dyn Fn(&Round) -> f64| median(rounds.iter().map(|r| 1e3 * pick(r)));
        println!(
            "{bytes:>6}  {:>5.1} ns  {:>5.1} ns  {:>+7.1} ns",
            ns(&|round| round.c[at]),
            ns(&|round| round.rust[at]),
            ns(&|round| round.c[at] - round.rust[at]),
        );
    }
    let spread = |pick: fn(f64, f64) -> f64| readings.iter().copied().reduce(pick);
    if let (Some(least), Some(most)) = (spread(f64::min), spread(f64::max)) {
        println!(
            "medians of {} rounds, one way; a cache line changes hands in {least:.3} to {most:.3} us",
            rounds.len()
        );
    }
    Ok(())
}

/// Builds both, and installs the library for C aside.
fn build() -> Result<(PathBuf, PathBuf), Failure> {
    Job::cargo(&["build", "--release", "--package", "limic-cli"], 20).run()?;
    let folder = target().join("c-latency");
    let prefix = folder.join("prefix");
    install::lay_out(&prefix, &prefix, false)?;
    let (program, library) = (folder.join("latency"), prefix.join("lib"));
    Job::new("cc", 2)
        .args(&["-std=c11", "-O2", "-Wall", "-Wextra", "-o"])
        .arg(&program)
        .arg(&root().join(PROGRAM))
        .args(&["-I"])
        .arg(&prefix.join("include"))
        .args(&["-L"])
        .arg(&library)
        .args(&["-llimic"])
        .run()?;
    Ok((program, library))
}

fn from_c(
    limic: &Path,
    program: &Path,
    library: &Path,
    cpus: &[usize; 2],
    seconds: &str,
) -> Result<Vec<f64>, Failure> {
    let mut command = Command::new(limic);
    command
        .args(["run", "-n", "2"])
        .arg(program)
        .arg(seconds)
        .args(SIZES.map(|bytes| bytes.to_string()))
        .env("LD_LIBRARY_PATH", library);
    let out = ended(command, cpus)?;
    let times = parse(&out);
    SIZES
        .iter()
        .map(|bytes| {
            times
                .iter()
                .find(|(size, _)| size == bytes)
                .map(|(_, us)| *us)
        })
        .collect::<Option<_>>()
        .ok_or_else(|| Failure::Wrong(format!("the program in C printed: {out}")))
}

/// `8 0.0612`
fn parse(out: &str) -> Vec<(u64, f64)> {
    out.lines()
        .filter_map(|line| {
            let (bytes, us) = line.split_once(' ')?;
            Some((bytes.parse().ok()?, us.trim().parse().ok()?))
        })
        .collect()
}

#[derive(Deserialize)]
struct Report {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    bytes: u64,
    time_us: f64,
}

fn from_rust(limic: &Path, cpus: &[usize; 2], seconds: &str) -> Result<Vec<f64>, Failure> {
    let mut command = Command::new(limic);
    command.args(["perf", "latency", "--rounds", "1", "--json", "-"]);
    command.args(["--seconds-per-point", seconds, "--sizes"]);
    command.arg(SIZES.map(|bytes| bytes.to_string()).join(","));
    let out = ended(command, cpus)?;
    let rows = serde_json::from_str(&out).map_or(Vec::new(), |report: Report| report.rows);
    SIZES
        .iter()
        .map(|bytes| {
            rows.iter()
                .find(|row| row.bytes == *bytes)
                .map(|row| row.time_us)
        })
        .collect::<Option<_>>()
        .ok_or_else(|| Failure::Wrong(format!("limic perf latency printed: {out}")))
}

fn ended(command: Command, cpus: &[usize]) -> Result<String, Failure> {
    let ended = bounded::run(command, cpus, LIMIT);
    match ended.explain() {
        Some(why) => Err(Failure::Wrong(why)),
        None => Ok(ended.out),
    }
}

/// Of at least one number.
fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = numbers.collect();
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    if all.len().is_multiple_of(2) {
        (all[middle - 1] + all[middle]) / 2.0
    } else {
        all[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_in_c_is_understood() {
        assert_eq!(
            parse("8 0.0612\n1024 0.2\nnoise\n"),
            [(8, 0.0612), (1024, 0.2)]
        );
    }

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < 1e-9);
        assert!((median([4.0, 1.0].into_iter()) - 2.5).abs() < 1e-9);
    }
}
