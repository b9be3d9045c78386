//! The facts about a run that every report shows.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

use super::cpus::names;
use super::floor;
use super::load::Load;
use super::machine_state::{self, Pass};
use super::pattern::{Comparison, Plan};
use super::ratio::Score;
use super::state::State;
use super::subject::{self, Subject};
use super::table::bytes;

#[derive(Debug, Serialize)]
pub(super) struct Run {
    /// The titles of all subjects.
    pub(super) versions: Vec<String>,
    /// As `limic perf` describes it.
    pub(super) machine: Value,
    pub(super) cpus: Vec<usize>,
    /// As they were asked for, if they were.
    #[serde(skip)]
    pub(super) asked_cpus: Option<String>,
    #[serde(skip)]
    pub(super) comparison: Comparison,
    pub(super) quick: bool,
    /// The rounds of the pattern that was measured most often.
    pub(super) rounds: u32,
    pub(super) seconds_per_point: f64,
    pub(super) load: Load,
    /// Passes in the order in which they were made.
    pub(super) passes: Vec<Pass>,
    /// Layers that cannot be had, and why.
    pub(super) missing: Vec<String>,
    /// Runs that failed, and why.
    pub(super) failures: Vec<String>,
    /// Reasons to doubt the figures.
    pub(super) warnings: Vec<String>,
    /// Variables that steer limic.
    pub(super) settings: Vec<String>,
}

/// Variables that steer limic, in order.
pub(super) fn settings() -> Vec<String> {
    let all = std::env::vars().filter(|(name, _)| name.starts_with("LIMIC_"));
    let mut lines: Vec<String> = all.map(|(name, value)| format!("{name}={value}")).collect();
    lines.sort();
    lines
}

/// Results may be put together only where these are equal: the processor, and what limic is told by
/// variables and by its profile.
pub(super) fn conditions(machine: &Value) -> Vec<String> {
    let profile = machine["profile"].as_str().map(str::to_owned);
    let processor = ["cpu", "caches"].map(|key| machine[key].to_string());
    settings()
        .into_iter()
        .chain(profile)
        .chain(processor)
        .collect()
}

impl Run {
    pub(super) fn new(
        plan: &Plan,
        subjects: &[Subject],
        cpus: &[usize],
        state: &State,
        load: Load,
        short: &[String],
    ) -> Self {
        let mut warnings = load.warnings();
        warnings.extend(machine_state::warnings(&state.passes));
        if !short.is_empty() {
            warnings.push(format!(
                "the machine gave fewer than {} steady rounds in the time: {}",
                plan.rounds,
                short.join("; ")
            ));
        }
        let machine = state.samples.machine().cloned();
        let machine = machine.or_else(|| floor::machine(&subject::program(), cpus));
        Self {
            versions: subjects.iter().map(|one| one.title().to_owned()).collect(),
            machine: machine.unwrap_or(Value::Null),
            cpus: cpus.to_vec(),
            asked_cpus: None,
            comparison: plan.comparison,
            quick: plan.quick,
            rounds: state
                .passes
                .iter()
                .map(|pass| pass.round)
                .max()
                .unwrap_or(0),
            seconds_per_point: plan.seconds,
            warnings,
            load,
            missing: Vec::new(),
            passes: state.passes.clone(),
            failures: state.samples.failures(),
            settings: settings(),
        }
    }

    /// The command, as a user types it.
    pub(super) fn command(&self) -> String {
        let mut command = "cargo xtask compare".to_owned();
        if self.comparison != Comparison::Peers {
            command.push_str(" --");
            command.push_str(self.comparison.name());
        }
        if self.quick {
            command.push_str(" --quick");
        }
        if let Some(cpus) = &self.asked_cpus {
            command.push_str(" --cpus ");
            command.push_str(cpus);
        }
        command
    }

    /// The title of a pattern's section, in which `{ranks}` stands for their number.
    pub(super) fn title(&self, title: &str, ranks: u32) -> String {
        let cpus = self.cpus.len();
        if title.contains("{ranks}") {
            title.replace("{ranks}", &format!("{ranks} ranks on {cpus} CPUs"))
        } else if ranks > 2 {
            format!("{title}; {} pairs of ranks at once", ranks / 2)
        } else {
            title.to_owned()
        }
    }

    /// What limic is compared with that is no peer, in words.
    pub(super) fn floor(&self) -> &'static str {
        match self.comparison {
            Comparison::Tcp => "a bare socket that is polled",
            _ => "a bare loop of two copies",
        }
    }

    /// A text out of the machine's description.
    pub(super) fn of_machine(&self, key: &str) -> String {
        match &self.machine[key] {
            Value::String(text) => text.clone(),
            Value::Null => "unknown".to_owned(),
            other => other.to_string(),
        }
    }

    /// The load in one sentence.
    fn load(&self) -> String {
        let load = &self.load;
        let line_latency = machine_state::spread(&self.passes).map_or_else(String::new, |us| {
            format!(
                " The line latency was {:.3} us ({:.3} to {:.3}).",
                us.median, us.least, us.most
            )
        });
        format!(
            "Load {:.2} before and {:.2} after, {} CPUs; meanwhile other programs took {:.1} % of \
             the measured CPUs, other guests {:.1} %.{line_latency}",
            load.before.load,
            load.after.load,
            load.before.cpus,
            100.0 * load.others,
            100.0 * load.stolen
        )
    }

    /// The lines below a table in the terminal.
    pub(super) fn closing(&self, score: &Score) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} of {} targets reached, measured in {:.0} s. {}",
            score.reached,
            score.judged,
            self.load.seconds,
            self.load()
        );
        for (kind, lines) in [
            ("missed", &score.missed),
            ("warning", &self.warnings),
            ("failed", &self.failures),
            ("could not be had", &self.missing),
            ("setting", &self.settings),
        ] {
            for line in lines {
                let _ = writeln!(text, "{kind}: {line}");
            }
        }
        text
    }

    /// Machine, load and doubts for a page.
    pub(super) fn page_head(&self, score: &Score) -> String {
        let mut text = String::new();
        self.describe(&mut text);
        for (kind, lines) in [
            ("Doubtful", &self.warnings),
            ("Failed", &self.failures),
            ("Could not be had", &self.missing),
        ] {
            for line in lines {
                let _ = writeln!(text, "- {kind}: {line}");
            }
        }
        if !score.missed.is_empty() {
            text.push_str("\nTargets that are missed, the farthest first:\n\n");
            for line in &score.missed {
                let _ = writeln!(text, "1. {line}");
            }
        }
        text
    }

    fn describe(&self, text: &mut String) {
        let caches = self.machine["caches"].as_array();
        let cache = |cache: &Value| {
            let size = bytes(cache["bytes"].as_u64().unwrap_or(0));
            let cpus = cache["cpus"].as_str().unwrap_or("?");
            let kind = cache["kind"].as_str().unwrap_or("");
            format!("L{} {kind} {size} (CPUs {cpus})", cache["level"])
        };
        let caches: Vec<String> = caches.into_iter().flatten().map(cache).collect();
        let topology = &self.machine["topology"];
        let mut line = |name: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- {name}: {value}");
        };
        line("Date", self.of_machine("date"));
        let (cores, cpus) = (&topology["cores"], &topology["cpus"]);
        line(
            "CPU",
            format!("{}, {cores} cores, {cpus} CPUs", self.of_machine("cpu")),
        );
        line("Caches", caches.join(", "));
        let hypervisor = self.of_machine("hypervisor");
        line(
            "Kernel",
            format!("{}, hypervisor: {hypervisor}", self.of_machine("kernel")),
        );
        line("Measured on", format!("CPUs {}", names(&self.cpus)));
        line("Versions", self.versions.join(", "));
        line("Load", self.load());
        if let Value::String(profile) = &self.machine["profile"] {
            line("Profile", profile.clone());
        }
        if !self.settings.is_empty() {
            line("Settings", self.settings.join(" "));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_processor_or_profile_is_another_condition_and_another_time_is_not() {
        let machine = |cpu: &str, bytes: u64, profile: &str| {
            let caches = json!([{"level": 3, "bytes": bytes}]);
            json!({"cpu": cpu, "caches": caches, "profile": profile})
        };
        let before = machine("A", 32, "read then");
        let mut later = before.clone();
        later["date"] = "later".into();
        assert_eq!(conditions(&before), conditions(&later));
        for other in [
            machine("B", 32, "read then"),
            machine("A", 64, "read then"),
            machine("A", 32, "read since"),
        ] {
            assert_ne!(conditions(&before), conditions(&other), "{other}");
        }
    }
}
