//! What this machine's settings mean for cross-memory attach, without a peer.

use std::fmt;

use crate::evidence::{call_on_self, without_peer};
use crate::procfs::{self, CAP_SYS_PTRACE, Status};
use crate::{RefusalReason, Refused};

/// The settings that decide, and what follows from them. `Display` gives one line for an info
/// command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// `kernel.yama.ptrace_scope`; `None` if the kernel has no Yama, which is as good as 0.
    pub yama: Option<u8>,
    /// Whether a seccomp filter is on this thread. It need not forbid anything.
    pub seccomp: bool,
    /// Whether this process has `CAP_SYS_PTRACE`.
    pub cap_sys_ptrace: bool,
    /// Whether ranks of one user in one set of namespaces can reach each other; else why not.
    pub available: Result<(), Refused>,
}

impl Explanation {
    /// Whether a process must call [`allow_peers`](crate::allow_peers) before its peers reach it.
    #[must_use]
    pub fn needs_allow_peers(&self) -> bool {
        self.yama == Some(1) && !self.cap_sys_ptrace
    }

    fn conclude(yama: Option<u8>, ours: Option<Status>, on_self: Result<(), i32>) -> Self {
        let cap_sys_ptrace = ours.is_some_and(|status| status.effective & CAP_SYS_PTRACE != 0);
        let available = match (without_peer(on_self, ours), yama) {
            (Some(reason), _) => Err(Refused {
                errno: on_self.err(),
                reason,
            }),
            (None, Some(scope)) if scope >= 3 || (scope == 2 && !cap_sys_ptrace) => {
                let reason = RefusalReason::Yama { scope };
                Err(Refused {
                    errno: Some(libc::EPERM),
                    reason,
                })
            }
            _ => Ok(()),
        };
        let seccomp = ours.is_some_and(|status| status.seccomp != 0);
        Self {
            yama,
            seccomp,
            cap_sys_ptrace,
            available,
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.available {
            Err(refused) => return write!(f, "off: {refused}"),
            Ok(()) => write!(f, "available (")?,
        }
        match self.yama {
            None => write!(f, "no Yama")?,
            Some(scope) => write!(f, "kernel.yama.ptrace_scope={scope}")?,
        }
        if self.needs_allow_peers() {
            write!(f, ", each rank allows its peers by prctl PR_SET_PTRACER")?;
        }
        if self.cap_sys_ptrace {
            write!(f, ", CAP_SYS_PTRACE")?;
        }
        if self.seccomp {
            write!(f, ", seccomp filter lets it pass")?;
        }
        write!(f, ")")
    }
}

/// Finds out what this machine and this process's sandbox mean for cross-memory attach. Reads two
/// small files and calls `process_vm_readv` and `process_vm_writev` on this process.
#[must_use]
pub fn explain() -> Explanation {
    Explanation::conclude(procfs::yama_scope(), Status::of_self(), call_on_self())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(effective: u64, seccomp: u8) -> Option<Status> {
        let (uids, gids) = ([1; 3], [1; 3]);
        Some(Status {
            uids,
            gids,
            permitted: effective,
            effective,
            seccomp,
            ended: false,
        })
    }

    #[test]
    fn settings_are_explained() {
        let text = |yama, ours, on_self| Explanation::conclude(yama, ours, on_self).to_string();
        assert_eq!(text(None, status(0, 0), Ok(())), "available (no Yama)");
        assert_eq!(
            text(Some(1), status(0, 0), Ok(())),
            "available (kernel.yama.ptrace_scope=1, each rank allows its peers by prctl \
             PR_SET_PTRACER)"
        );
        assert!(
            text(Some(2), status(0, 0), Ok(()))
                .starts_with("off: EPERM, kernel.yama.ptrace_scope=2: set sysctl")
        );
        assert!(
            Explanation::conclude(Some(2), status(CAP_SYS_PTRACE, 0), Ok(()))
                .available
                .is_ok()
        );
        assert!(text(Some(3), status(CAP_SYS_PTRACE, 0), Ok(())).contains("restart the machine"));
        assert!(
            text(None, status(0, 2), Err(libc::EPERM)).starts_with("off: EPERM, a seccomp filter")
        );
        assert!(text(None, status(0, 0), Err(libc::ENOSYS)).contains("CONFIG_CROSS_MEMORY_ATTACH"));
    }
}
