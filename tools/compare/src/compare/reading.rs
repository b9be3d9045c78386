//! Reads what `limic perf` and benches/mpi/patterns.c print.

use limic_runner::timeout::Ended;
use serde::Deserialize;

use super::outcome::Outcome;
use super::pattern::Pattern;

#[derive(Deserialize)]
struct LimicReport {
    machine: serde_json::Value,
    rows: Vec<LimicRow>,
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Deserialize)]
struct LimicRow {
    bytes: u64,
    time_us: f64,
    path: String,
    wanted: String,
    skew: Option<Skew>,
}

#[derive(Deserialize)]
struct Skew {
    phase: String,
}

/// Reads what `limic perf --json -` printed.
pub(super) fn limic(ended: &Ended, pattern: Pattern) -> Outcome {
    let mut outcome = Outcome::of(ended);
    if outcome.failure.is_some() {
        return outcome;
    }
    match serde_json::from_str::<LimicReport>(&ended.out) {
        Ok(report) => {
            enter(&mut outcome, pattern, &report);
            outcome.machine = Some(report.machine);
        }
        Err(why) => outcome.failure = Some(format!("printed something unreadable: {why}")),
    }
    outcome
}

fn enter(outcome: &mut Outcome, pattern: Pattern, report: &LimicReport) {
    let rows = || report.rows.iter().map(|row| (row, row.time_us / 1e6));
    let because = || {
        let last = report.notes.last();
        last.map_or_else(String::new, |note| format!(": {note}"))
    };
    match pattern {
        Pattern::Loan => {
            let small = rows().find(|(row, _)| row.wanted == "hybrid" && row.bytes == 8);
            let loans = rows().filter(|(row, _)| row.wanted == "loan");
            outcome.times = loans.map(|(row, seconds)| (row.bytes, seconds)).collect();
            match small {
                Some((_, reference)) => {
                    for (bytes, _) in outcome.times.clone() {
                        outcome.refer(pattern, bytes, reference);
                    }
                }
                None => outcome.failure = Some("no message of 8 bytes was measured".to_owned()),
            }
            if outcome.times.is_empty() {
                outcome.failure = Some(format!("no loan was measured{}", because()));
            }
        }
        Pattern::Skew => {
            let of = |phase: &'static str| {
                rows().filter(move |(row, _)| row.skew.as_ref().is_some_and(|s| s.phase == phase))
            };
            for (row, seconds) in of("skewed") {
                match row.wanted.as_str() {
                    "aware" => outcome.times.push((row.bytes, seconds)),
                    "eager" => outcome.refer(pattern, row.bytes, seconds),
                    _ => {}
                }
            }
            for (row, seconds) in of("after").filter(|(row, _)| row.wanted == "aware") {
                outcome.also.push((Pattern::AfterSkew, row.bytes, seconds));
                // The better single copy, if the machine allows any.
                let single = of("after").filter(|(other, _)| {
                    other.bytes == row.bytes
                        && matches!(other.wanted.as_str(), "cma" | "split-copy")
                });
                if let Some(best) = single.map(|(_, seconds)| seconds).min_by(f64::total_cmp) {
                    outcome.refer(Pattern::AfterSkew, row.bytes, best);
                }
            }
            if outcome.times.is_empty() {
                outcome.failure = Some(format!("no skew was measured{}", because()));
            }
        }
        _ => {
            outcome.times = rows().map(|(row, seconds)| (row.bytes, seconds)).collect();
            outcome.paths = rows()
                .map(|(row, _)| (row.bytes, row.path.clone()))
                .collect();
        }
    }
}

/// Reads what benches/mpi/patterns.c printed. Rank i has to be on the i-th CPU of `placed`.
pub(super) fn patterns(ended: &Ended, sizes: usize, placed: Option<&[usize]>) -> Outcome {
    let mut outcome = Outcome::of(ended);
    let mut places = Vec::new();
    for line in ended.out.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["rank", _, "cpus", list] => places.push(list.to_owned()),
            ["row", bytes, seconds, steps] => {
                let row = (bytes.parse(), seconds.parse::<f64>(), steps.parse::<f64>());
                if let (Ok(bytes), Ok(seconds), Ok(steps)) = row
                    && seconds > 0.0
                    && steps >= 1.0
                {
                    outcome.times.push((bytes, seconds / steps));
                }
            }
            // Launchers print lines of their own.
            _ => {}
        }
    }
    let expected = placed.map(|cpus| cpus.iter().map(usize::to_string));
    if let Some(expected) = expected
        && !places.is_empty()
        && !expected.eq(places.iter().cloned())
    {
        outcome.times.clear();
        let found = places.join(" and ");
        outcome.failure = Some(format!(
            "its ranks ran on CPUs {found}, not on those that were asked for"
        ));
    } else if outcome.failure.is_none() && outcome.times.len() < sizes {
        outcome.failure = Some("it ended well, but results are missing".to_owned());
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(out: &str, failure: Option<&str>) -> Ended {
        Ended {
            out: out.to_owned(),
            err: String::new(),
            failure: failure.map(str::to_owned),
            code: None,
            hung: false,
        }
    }

    #[test]
    fn the_mpi_programs_lines_are_read() {
        let out = "rank 0 cpus 0\nrank 1 cpus 1\nsome warning\nrow 8 0.5 1000000\nrow 64 1 4\n";
        let outcome = patterns(&ended(out, None), 2, Some(&[0, 1]));
        assert_eq!(outcome.times, [(8, 0.5e-6), (64, 0.25)]);
        assert_eq!(outcome.failure, None);
        let missing = patterns(&ended(out, None), 3, Some(&[0, 1]));
        assert!(missing.failure.is_some() && missing.times.len() == 2);
    }

    #[test]
    fn results_before_a_failure_count() {
        let out = "rank 0 cpus 0\nrank 1 cpus 1\nrow 8 0.5 1000000\nrow 64 ";
        let outcome = patterns(&ended(out, Some("hung")), 2, Some(&[0, 1]));
        assert_eq!(outcome.times.len(), 1);
        assert!(outcome.failure.is_some_and(|why| why.starts_with("hung")));
    }

    #[test]
    fn ranks_in_the_wrong_place_are_not_compared() {
        for places in [
            "rank 0 cpus 0,1\nrank 1 cpus 0,1\n",
            "rank 0 cpus 0\nrank 1 cpus 0\n",
        ] {
            let out = format!("{places}row 8 1 1\n");
            let outcome = patterns(&ended(&out, None), 1, Some(&[0, 1]));
            assert!(outcome.times.is_empty() && outcome.failure.is_some());
            assert_eq!(patterns(&ended(&out, None), 1, None).times.len(), 1);
        }
    }

    #[test]
    fn limics_json_is_read() {
        let out = r#"{"machine": {"cpu": "x"},
            "rows": [{"bytes": 8, "time_us": 2.0, "path": "inline", "wanted": "hybrid"}]}"#;
        let outcome = limic(&ended(out, None), Pattern::Latency);
        assert_eq!(outcome.times, [(8, 2e-6)]);
        assert_eq!(outcome.paths, [(8, "inline".to_owned())]);
        assert_eq!(outcome.machine.map(|m| m["cpu"].clone()), Some("x".into()));
        assert!(
            limic(&ended("oops", None), Pattern::Latency)
                .failure
                .is_some()
        );
    }

    #[test]
    fn loans_and_skew_bring_their_references() {
        let loans = r#"{"machine": {}, "rows": [
            {"bytes": 8, "time_us": 1.0, "path": "eager", "wanted": "hybrid"},
            {"bytes": 1024, "time_us": 9.0, "path": "eager", "wanted": "hybrid"},
            {"bytes": 1024, "time_us": 2.0, "path": "eager", "wanted": "loan"}]}"#;
        let outcome = limic(&ended(loans, None), Pattern::Loan);
        assert_eq!(outcome.times, [(1024, 2e-6)]);
        assert_eq!(outcome.references, [(Pattern::Loan, 1024, 1e-6)]);
        let skew = r#"{"machine": {}, "rows": [
            {"bytes": 16, "time_us": 4.0, "path": "eager", "wanted": "eager", "skew": {"phase": "skewed"}},
            {"bytes": 16, "time_us": 5.0, "path": "eager", "wanted": "aware", "skew": {"phase": "skewed"}},
            {"bytes": 16, "time_us": 1.0, "path": "eager", "wanted": "aware", "skew": {"phase": "after"}},
            {"bytes": 16, "time_us": 3.0, "path": "eager", "wanted": "cma", "skew": {"phase": "after"}},
            {"bytes": 16, "time_us": 2.0, "path": "eager", "wanted": "split-copy", "skew": {"phase": "after"}}]}"#;
        let outcome = limic(&ended(skew, None), Pattern::Skew);
        assert_eq!(outcome.times, [(16, 5e-6)]);
        assert_eq!(outcome.also, [(Pattern::AfterSkew, 16, 1e-6)]);
        assert_eq!(
            outcome.references,
            [(Pattern::Skew, 16, 4e-6), (Pattern::AfterSkew, 16, 2e-6)]
        );
        let without = r#"{"machine": {}, "rows": [], "notes": ["why"]}"#;
        let outcome = limic(&ended(without, None), Pattern::Skew);
        assert!(outcome.failure.is_some_and(|text| text.ends_with("why")));
    }
}
