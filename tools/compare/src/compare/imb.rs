//! Intel MPI by its makers' own benchmark, IMB, beside the same MPI by benches/mpi/patterns.c: a
//! check of our own patterns, not a peer.

use std::fmt::Write;
use std::path::PathBuf;

use limic_peers::{Mpi, Placement};
use limic_runner::folders::target;
use limic_runner::timeout::{self, Ended};

use super::outcome::Outcome;
use super::pattern::{Pattern, Plan, Portion, WINDOW};
use super::ratio::Ratio;
use super::report::{Report, Row};
use super::subject::LIMIC;
use super::table::{bytes, significant, times};

/// Two results of one MPI that are farther apart than this say that a pattern measures something
/// else.
const APART: f64 = 0.05;

/// The program, if this MPI has it.
pub(super) fn program(mpi: &Mpi) -> Option<PathBuf> {
    let program = mpi.root().join("bin/IMB-MPI1");
    program.is_file().then_some(program)
}

/// IMB's name for a pattern.
fn benchmark(pattern: Pattern) -> Option<&'static str> {
    match pattern {
        Pattern::Latency => Some("PingPong"),
        Pattern::Bandwidth => Some("Uniband"),
        Pattern::Bibandwidth => Some("Biband"),
        _ => None,
    }
}

pub(super) fn can(pattern: Pattern) -> bool {
    benchmark(pattern).is_some()
}

/// Runs a pattern over the sizes of a portion.
pub(super) fn measure(mpi: &Mpi, portion: &Portion, plan: &Plan, cpus: &[usize]) -> Outcome {
    let pattern = portion.pattern;
    let (Some(program), Some(name)) = (program(mpi), benchmark(pattern)) else {
        return Outcome::default();
    };
    let lines: String = portion.sizes.iter().fold(String::new(), |mut text, size| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{size}");
        text
    });
    let list = target().join("compare/imb-sizes");
    if let Err(why) = std::fs::write(&list, lines) {
        return Outcome {
            failure: Some(format!("{}: {why}", list.display())),
            ..Outcome::default()
        };
    }
    let (repetitions, mib) = bounds(pattern, plan.seconds);
    let mut command = mpi.mpiexec(2, Placement::OneEach(cpus));
    // The wheel's program does not name the folder of its library.
    command.env("LD_LIBRARY_PATH", mpi.root().join("lib"));
    command.arg(program).arg("-msglen").arg(list);
    command.args(["-npmin", "2", "-iter", &format!("{repetitions},{mib}")]);
    command.args(["-window_size", &WINDOW.to_string(), name]);
    let ended = timeout::run(command, cpus, plan.patience(portion));
    read(&ended, portion)
}

/// The most repetitions of a length, and the most MiB of one message in all of them, that take
/// about `seconds`. Its option `-time` bounds the whole list, with the trials of up to a second
/// for each length, so that a short time leaves out the last lengths.
fn bounds(pattern: Pattern, seconds: f64) -> (u64, u64) {
    // What this MPI usually takes for a message, and moves in a second.
    let (overhead, per_second) = (0.3e-6, 10e9);
    // There and back, or a window.
    let messages = match pattern {
        Pattern::Latency => 2.0,
        _ => f64::from(WINDOW),
    };
    let each = seconds / messages;
    let mib = each * per_second / f64::from(1 << 20);
    ((each / overhead) as u64, mib.ceil() as u64)
}

/// `bytes repetitions us MB/s` of a ping-pong, `bytes repetitions MB/s messages/s` of the others.
fn read(ended: &Ended, portion: &Portion) -> Outcome {
    let mut outcome = Outcome::of(ended);
    for line in ended.out.lines() {
        let numbers: Option<Vec<f64>> = line.split_whitespace().map(|n| n.parse().ok()).collect();
        let Some([size, _, third, fourth]) = numbers.as_deref().and_then(|n| n.first_chunk())
        else {
            continue;
        };
        let seconds = match portion.pattern {
            Pattern::Latency => third / 1e6,
            // It counts the messages of both directions.
            Pattern::Bibandwidth => 2.0 / fourth,
            _ => 1.0 / fourth,
        };
        if seconds.is_finite() && seconds > 0.0 {
            outcome.times.push((*size as u64, seconds));
        }
    }
    outcome.expect(&portion.sizes);
    outcome
}

/// The section of the page.
pub(super) fn section(report: &Report) -> String {
    let checked: Vec<(&Row, &Ratio)> = report
        .rows
        .iter()
        .filter(|row| row.subject == LIMIC)
        .filter_map(|row| Some((row, row.over_imb.as_ref()?)))
        .collect();
    let mut text = String::new();
    if checked.is_empty() {
        return text;
    }
    let apart = checked
        .iter()
        .filter(|(_, ratio)| (ratio.median - 1.0).abs() > APART)
        .count();
    let _ = writeln!(
        text,
        "\n## Cross-check: Intel MPI by patterns.c over Intel MPI by IMB\n\n\
         PingPong, Uniband and Biband. {apart} of {} rows are more than {:.0} % apart.\n\n\
         | pattern | bytes | IMB | unit | ratio | in rounds | rounds |\n|---|---|---|---|---|---|---|",
        checked.len(),
        APART * 100.0
    );
    for (row, ratio) in checked {
        let distance = row
            .distance
            .map_or_else(String::new, |one| format!("{} ", one.name()));
        let _ = writeln!(
            text,
            "| {distance}{} | {} | {} | {} | {} | {}..{} | {} |",
            row.pattern.name(),
            bytes(row.bytes),
            row.imb
                .map_or_else(|| "-".to_owned(), |shown| significant(shown.median)),
            row.unit,
            times(ratio.median),
            times(ratio.least),
            times(ratio.most),
            ratio.rounds
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(out: &str) -> Ended {
        Ended {
            out: out.to_owned(),
            err: String::new(),
            failure: None,
            code: None,
            hung: false,
        }
    }

    #[test]
    fn tables_are_read_by_the_columns_of_their_benchmark() {
        let out = "# PingPong\n #bytes #repetitions t[usec] Mbytes/sec\n 0 1000 0.25 0.00\n\
                   8 1000 0.50 16.00\n";
        let of = |pattern| Portion {
            pattern,
            sizes: vec![0, 8],
        };
        let (latency, bandwidth) = (of(Pattern::Latency), of(Pattern::Bandwidth));
        let outcome = read(&ended(out), &latency);
        assert_eq!(outcome.times, [(0, 0.25e-6), (8, 0.5e-6)]);
        assert_eq!(outcome.failure, None);
        let out =
            "#bytes #repetitions Mbytes/sec Msg/sec\n 0 1000 0.00 4000000\n 8 10 16 2000000\n";
        assert_eq!(read(&ended(out), &bandwidth).times[1], (8, 0.5e-6));
        let both = of(Pattern::Bibandwidth);
        assert_eq!(read(&ended(out), &both).times[1], (8, 1e-6));
    }

    #[test]
    fn a_length_without_a_row_is_a_failure() {
        let portion = Portion {
            pattern: Pattern::Bandwidth,
            sizes: vec![64 << 10, 128 << 10, 256 << 10],
        };
        let out = " 65536 10 16 2000000\n 131072 time-out.; Time limit is over\n";
        let outcome = read(&ended(out), &portion);
        assert_eq!(outcome.times.len(), 1);
        let why = outcome.failure.expect("two lengths are missing");
        assert!(
            why.ends_with("without a result of 128K, 256K bytes"),
            "{why}"
        );
    }

    #[test]
    fn repetitions_are_bounded_for_short_and_for_long_messages() {
        for (pattern, messages) in [
            (Pattern::Latency, 2),
            (Pattern::Bandwidth, u64::from(WINDOW)),
        ] {
            let (repetitions, mib) = bounds(pattern, 0.06);
            let long = mib / 4;
            assert!(
                long >= 1 && long * messages * (4 << 20) < 1 << 30,
                "{pattern:?}"
            );
            assert!(
                (50_000..500_000).contains(&(repetitions * messages)),
                "{pattern:?}"
            );
        }
    }
}
