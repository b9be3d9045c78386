//! Control calls that may touch every object of a domain.

use std::sync::Arc;

use crate::turns::{ControlTurn, Turns};

/// The turns of all objects of a domain: of a control call that may touch any of them.
#[must_use]
pub(crate) struct Alone<'a> {
    taken: Vec<Arc<Turns>>,
    _domain: ControlTurn<'a>,
}

impl<'a> Alone<'a> {
    /// Takes these, one after the other, with a turn of the domain that keeps all others who do so
    /// out.
    pub(crate) fn new(domain: ControlTurn<'a>, objects: impl Iterator<Item = Arc<Turns>>) -> Self {
        let mut alone = Self {
            taken: Vec::new(),
            _domain: domain,
        };
        for turns in objects.filter(|turns| !turns.are_joined()) {
            turns.take(Turns::locked);
            alone.taken.push(turns);
        }
        alone
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        for turns in &self.taken {
            // SAFETY: `new` has taken it, in this thread, with which the domain's turn stays.
            unsafe { turns.release() };
        }
    }
}
