//! The results of one run of one subject.

use limic_runner::timeout::Ended;

use super::pattern::Pattern;
use super::table::bytes;

/// Results are seconds of one message, or of one operation, with its bytes.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Results of the pattern itself.
    pub(super) times: Vec<(u64, f64)>,
    /// The paths that limic took, where it says so.
    pub(super) paths: Vec<(u64, String)>,
    /// Results of patterns that were measured with it.
    pub(super) also: Vec<(Pattern, u64, f64)>,
    /// Results that limic is compared with where no peer has the like.
    pub(super) references: Vec<(Pattern, u64, f64)>,
    /// Why results are missing.
    pub(super) failure: Option<String>,
    /// Whether it had to be killed. It is not tried again then.
    pub(super) hung: bool,
    /// limic's description of the machine.
    pub(super) machine: Option<serde_json::Value>,
}

impl Outcome {
    pub(super) fn of(ended: &Ended) -> Self {
        Self {
            failure: ended.explain(),
            hung: ended.hung,
            ..Self::default()
        }
    }

    pub(super) fn refer(&mut self, pattern: Pattern, bytes: u64, seconds: f64) {
        self.references.push((pattern, bytes, seconds));
    }

    /// Names the sizes without a result, where no failure is known yet.
    pub(super) fn expect(&mut self, sizes: &[u64]) {
        let has = |size: &u64| self.times.iter().any(|(bytes, _)| bytes == size);
        let missing = sizes.iter().copied().filter(|size| !has(size));
        let missing: Vec<String> = missing.map(bytes).collect();
        if self.failure.is_none() && !missing.is_empty() {
            let sizes = missing.join(", ");
            self.failure = Some(format!(
                "it ended well, but without a result of {sizes} bytes"
            ));
        }
    }

    /// Adds the results of a further run.
    pub(super) fn add(&mut self, more: Self) {
        self.times.extend(more.times);
        self.paths.extend(more.paths);
        self.also.extend(more.also);
        self.references.extend(more.references);
        self.failure = self.failure.take().or(more.failure);
        self.hung |= more.hung;
        self.machine = self.machine.take().or(more.machine);
    }
}
