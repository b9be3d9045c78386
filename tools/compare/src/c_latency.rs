//! The cost of the interface for C: a ping-pong from C beside the same one from Rust, in turn.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use limic_runner::folders::{root, target};
use limic_runner::{Failure, Job, console, timeout};
use serde::Deserialize;

use crate::compare::{Spread, changed, choose_cpus, limic, line_latency};

/// The program, which is an example for users too.
const PROGRAM: &str = "crates/capi/examples/latency.c";
const SIZES: [u64; 2] = [8, 1024];
/// For one run of either.
const LIMIT: Duration = Duration::from_secs(20);

/// The length of the measurement.
#[derive(Debug, clap::Args)]
pub struct CLatency {
    /// Rounds, each of which measures both.
    #[arg(long, default_value = "9", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seconds for each length, in each round and each language.
    #[arg(long, default_value = "0.1")]
    seconds_per_point: f64,
}

/// Microseconds one way, by size.
type Times = Vec<f64>;

pub(crate) fn run(args: &CLatency) -> Result<(), Failure> {
    let programs = Programs::build(args)?;
    let (mut rounds, mut readings) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        let (limic, cpus) = (limic(), &programs.cpus);
        let before = line_latency(&limic, cpus);
        // The two languages take turns to be the first.
        let times = if round % 2 == 0 {
            let c = programs.c()?;
            (c, programs.rust()?)
        } else {
            let rust = programs.rust()?;
            (programs.c()?, rust)
        };
        let after = line_latency(&limic, cpus);
        readings.extend(before.into_iter().chain(after));
        if let (Some(before), Some(after)) = (before, after)
            && changed(before, after)
        {
            console::detail(&format_args!(
                "round {}: the CPUs' distance has changed meanwhile; it does not count",
                round + 1
            ));
            continue;
        }
        rounds.push(times);
    }
    if rounds.is_empty() {
        return Err(Failure::Wrong(
            "the CPUs did not keep their distance in any round; once more".to_owned(),
        ));
    }
    print!("{}", table(&rounds));
    if let Some(us) = Spread::of(readings) {
        println!(
            "medians of {} rounds, one way; the line latency is {:.3} to {:.3} us",
            rounds.len(),
            us.least,
            us.most
        );
    }
    Ok(())
}

/// Medians over the rounds, each of which has the times from C and from Rust.
fn table(rounds: &[(Times, Times)]) -> String {
    let mut text = format!(
        "{:>6}  {:>8}  {:>8}  {:>10}\n",
        "bytes", "C", "Rust", "difference"
    );
    for (at, bytes) in SIZES.iter().enumerate() {
        let ns = |pick: fn(f64, f64) -> f64| {
            let all = rounds.iter().map(|(c, rust)| 1e3 * pick(c[at], rust[at]));
            Spread::of(all).map_or(f64::NAN, |ns| ns.median)
        };
        let (c, rust) = (ns(|c, _| c), ns(|_, rust| rust));
        let difference = ns(|c, rust| c - rust);
        text += &format!("{bytes:>6}  {c:>5.1} ns  {rust:>5.1} ns  {difference:>+7.1} ns\n");
    }
    text
}

/// The two programs, and the CPUs on which they run.
struct Programs {
    c: PathBuf,
    /// The folder of the library for C.
    library: PathBuf,
    cpus: Vec<usize>,
    seconds: String,
}

impl Programs {
    /// Builds both, and installs the library for C into the target folder.
    fn build(args: &CLatency) -> Result<Self, Failure> {
        Job::cargo(&["build", "--release", "--package", "limic-cli"], 20).run()?;
        let folder = target().join("c-latency");
        let prefix = folder.join("prefix");
        Job::tool("xtask", 20)
            .args(["install", "--prefix"])
            .arg(&prefix)
            .env("DESTDIR", "")
            .run()?;
        let (c, library) = (folder.join("latency"), prefix.join("lib"));
        Job::new("cc", 2)
            .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-o"])
            .arg(&c)
            .arg(root().join(PROGRAM))
            .arg("-I")
            .arg(prefix.join("include"))
            .arg("-L")
            .arg(&library)
            .arg("-llimic")
            .run()?;
        Ok(Self {
            c,
            library,
            cpus: choose_cpus(None)?,
            seconds: args.seconds_per_point.to_string(),
        })
    }

    fn c(&self) -> Result<Times, Failure> {
        let mut command = Command::new(limic());
        command
            .args(["run", "-n", "2"])
            .arg(&self.c)
            .arg(&self.seconds)
            .args(SIZES.map(|bytes| bytes.to_string()))
            .env("LD_LIBRARY_PATH", &self.library);
        self.times(command, "the program in C", parse)
    }

    fn rust(&self) -> Result<Times, Failure> {
        let mut command = Command::new(limic());
        command.args(["perf", "latency", "--rounds", "1", "--json", "-"]);
        command.args(["--seconds-per-point", &self.seconds, "--sizes"]);
        command.arg(SIZES.map(|bytes| bytes.to_string()).join(","));
        self.times(command, "limic perf latency", parse_json)
    }

    /// Runs a program that prints a time for each size.
    fn times(
        &self,
        command: Command,
        name: &str,
        parse: fn(&str) -> Vec<(u64, f64)>,
    ) -> Result<Times, Failure> {
        let ended = timeout::run(command, &self.cpus, LIMIT);
        if let Some(why) = ended.explain() {
            return Err(Failure::Wrong(why));
        }
        let found = parse(&ended.out);
        let time = |size: &u64| {
            let mut times = found.iter();
            times.find(|(bytes, _)| bytes == size).map(|(_, us)| *us)
        };
        let times: Option<Times> = SIZES.iter().map(time).collect();
        times.ok_or_else(|| Failure::Wrong(format!("{name} printed: {}", ended.out)))
    }
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

fn parse_json(out: &str) -> Vec<(u64, f64)> {
    let rows = serde_json::from_str(out).map_or(Vec::new(), |report: Report| report.rows);
    rows.iter().map(|row| (row.bytes, row.time_us)).collect()
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
    fn the_json_of_limic_is_understood() {
        let json = r#"{"rows": [{"bytes": 8, "time_us": 0.07}]}"#;
        assert_eq!(parse_json(json), [(8, 0.07)]);
        assert!(parse_json("noise").is_empty());
    }

    #[test]
    fn differences_are_taken_within_rounds() {
        let rounds = [
            (vec![0.08, 0.3], vec![0.07, 0.2]),
            (vec![0.18, 0.3], vec![0.16, 0.2]),
            (vec![0.09, 0.3], vec![0.08, 0.2]),
        ];
        let text = table(&rounds);
        let row = text.lines().nth(1).expect("a row for 8 bytes");
        assert_eq!(row, "     8   90.0 ns   80.0 ns    +10.0 ns");
    }
}
