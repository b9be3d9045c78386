//! What one run of one contestant gave.

use super::pattern::Pattern;
use crate::bounded::Ended;

#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Seconds of one message, or operation, by its bytes.
    pub(super) times: Vec<(u64, f64)>,
    /// The same of patterns that were measured with it.
    pub(super) also: Vec<(Pattern, u64, f64)>,
    /// The same of what it is compared with, where no peer has the like.
    pub(super) references: Vec<(Pattern, u64, f64)>,
    /// Why there is nothing, or not everything.
    pub(super) failure: Option<String>,
    /// Whether it had to be killed: it is not tried again.
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

    /// Adds what a second run gave.
    pub(super) fn add(&mut self, more: Self) {
        self.times.extend(more.times);
        self.also.extend(more.also);
        self.references.extend(more.references);
        self.failure = self.failure.take().or(more.failure);
        self.hung |= more.hung;
        self.machine = self.machine.take().or(more.machine);
    }
}
