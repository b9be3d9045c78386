//! Remembering that an engine no longer serves a pair of ranks.

use std::fmt;

use crate::CopyError;
use crate::error::errno_name;

/// Whether an engine is used between this process and one peer.
///
/// It starts as [`Available`](Self::Available) after a successful probe, or as demoted after a
/// refused one, and never comes back: what failed once (a limit, a namespace, memory that cannot be
/// pinned) fails again, and trying costs every message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PairState {
    /// The engine works, as far as is known.
    #[default]
    Available,
    /// It does not; another path takes its messages.
    Demoted(Demotion),
}

/// Why an engine does not serve a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demotion {
    /// What happened.
    pub cause: CopyError,
}

impl PairState {
    /// Whether to use the engine. One comparison, for the hot path.
    #[must_use]
    pub fn is_available(&self) -> bool {
        matches!(self, Self::Available)
    }

    /// The reason if it is not used.
    #[must_use]
    pub fn demotion(&self) -> Option<&Demotion> {
        match self {
            Self::Available => None,
            Self::Demoted(demotion) => Some(demotion),
        }
    }

    /// Takes the engine out of use for this pair, and logs the one line about it at level `warn`:
    /// "CMA to rank 3: EPERM, kernel.yama.ptrace_scope=2; using pipeline".
    ///
    /// `engine` is [`CopyEngine::name`](crate::CopyEngine::name), `rank` the peer and `instead` the
    /// path that goes on with the message. Returns whether this call did it: later ones change and
    /// log nothing, nor does an error for which [`CopyError::demotes`] says no.
    #[cold]
    pub fn demote(&mut self, cause: CopyError, engine: &str, rank: u32, instead: &str) -> bool {
        if !self.is_available() || !cause.demotes() {
            return false;
        }
        let demotion = Demotion { cause };
        tracing::warn!("{}", demotion.line(engine, rank, instead));
        *self = Self::Demoted(demotion);
        true
    }
}

impl Demotion {
    /// The line for the log.
    #[must_use]
    pub fn line(&self, engine: &str, rank: u32, instead: &str) -> impl fmt::Display + use<> {
        format!("{engine} to rank {rank}: {self}; using {instead}")
    }
}

impl fmt::Display for Demotion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(errno) = self.cause.errno() {
            write!(f, "{}, ", errno_name(errno))?;
        }
        f.write_str(&self.cause.cause())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RefusalReason, Refused};

    fn yama() -> CopyError {
        let reason = RefusalReason::Yama { scope: 2 };
        CopyError::Refused(Refused {
            errno: Some(libc::EPERM),
            reason,
        })
    }

    #[test]
    fn the_line_is_the_design_s() {
        let mut state = PairState::default();
        assert!(state.demote(yama(), "CMA", 3, "pipeline"));
        assert_eq!(
            state
                .demotion()
                .unwrap()
                .line("CMA", 3, "pipeline")
                .to_string(),
            "CMA to rank 3: EPERM, kernel.yama.ptrace_scope=2; using pipeline"
        );
    }

    #[test]
    fn the_first_cause_stays_and_misuse_demotes_nobody() {
        let mut state = PairState::default();
        assert!(!state.demote(
            CopyError::SkipTooLong { skip: 2, total: 1 },
            "CMA",
            1,
            "pipeline"
        ));
        assert!(state.is_available());
        assert!(state.demote(CopyError::BadAddress { copied: 9 }, "CMA", 1, "pipeline"));
        assert!(!state.demote(yama(), "CMA", 1, "pipeline"));
        assert_eq!(
            state.demotion().unwrap().to_string(),
            "EFAULT, memory not mapped after 9 bytes"
        );
    }
}
