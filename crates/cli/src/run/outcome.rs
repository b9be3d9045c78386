//! How ranks end, and the job's exit code that follows from it.

use rustix::process::WaitStatus;
use serde::{Deserialize, Serialize};

/// How a rank ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

impl Ending {
    /// Reads a status of wait(2); `None` for a process that merely stopped or went on.
    pub(super) fn of(status: WaitStatus) -> Option<Self> {
        let exited = status.exit_status().map(Self::Exited);
        exited.or_else(|| status.terminating_signal().map(Self::Killed))
    }

    /// The code that a shell would show; 0 is success.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Exited(code) => exit_code(code),
            Self::Killed(signal) => u8::try_from(128 + signal).unwrap_or(255),
        }
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Killed(signal) => {
                let known = nix::sys::signal::Signal::try_from(*signal);
                let name = known.map_or("a real-time signal", |signal| signal.as_str());
                write!(f, "was killed by signal {signal} ({name})")
            }
        }
    }
}

/// The exit code for a code that a program named: 8 bits are all there is, and a failure must not
/// look like success.
pub(super) fn exit_code(code: i32) -> u8 {
    match code {
        0 => 0,
        code => u8::try_from(code & 0xff)
            .ok()
            .filter(|&low| low != 0)
            .unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(Ending::Exited(0).code(), 0);
        assert_eq!(Ending::Exited(3).code(), 3);
        assert_eq!(Ending::Killed(9).code(), 137);
        assert_eq!(exit_code(256), 1);
        assert_eq!(exit_code(-1), 255);
    }

    #[test]
    fn signals_have_names() {
        let text = Ending::Killed(11).to_string();
        assert_eq!(text, "was killed by signal 11 (SIGSEGV)");
        assert!(Ending::Killed(40).to_string().contains("40"));
    }
}
