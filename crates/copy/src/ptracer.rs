//! Letting peers in where Yama restricts ptrace to ancestors.

use rustix::process::{PTracer, set_ptracer};

use crate::RefusalReason;
use crate::procfs;

/// What came of asking to let peers in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerAccess {
    /// Nothing to do: this machine has no Yama, or `kernel.yama.ptrace_scope` is 0.
    Unrestricted,
    /// Yama now lets in who was named. The other checks (user, dumpable, namespaces) stay.
    Granted,
    /// No use: `kernel.yama.ptrace_scope` is 2 or 3, where a process cannot let others in, or
    /// the kernel did not take the request.
    Useless(RefusalReason),
}

/// Lets every process that passes the kernel's other checks attach to this one, where
/// `kernel.yama.ptrace_scope` is 1 (`prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)`).
///
/// **What this opens:** every process of the same user, in the same user namespace, can from now on
/// read and write this process's memory and attach a debugger to it, until it ends; a child by
/// `fork` does not inherit it. That is what Linux without Yama always allows.
///
/// It does nothing where the scope is not 1.
pub fn allow_peers() -> PeerAccess {
    match procfs::yama_scope() {
        None | Some(0) => PeerAccess::Unrestricted,
        Some(1) => match set_ptracer(PTracer::Any) {
            Ok(()) => PeerAccess::Granted,
            Err(error) => {
                tracing::debug!(%error, "prctl PR_SET_PTRACER");
                PeerAccess::Useless(RefusalReason::Yama { scope: 1 })
            }
        },
        Some(scope) => PeerAccess::Useless(RefusalReason::Yama { scope }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_follows_the_scope() {
        let access = allow_peers();
        match procfs::yama_scope() {
            None | Some(0) => assert_eq!(access, PeerAccess::Unrestricted),
            Some(1) => assert_eq!(access, PeerAccess::Granted),
            Some(scope) => {
                assert_eq!(access, PeerAccess::Useless(RefusalReason::Yama { scope }));
            }
        }
    }
}
