//! From what can be seen to the reason of a refusal.
//!
//! The decision repeats the kernel's own in its order (`__ptrace_may_access` in
//! `kernel/ptrace.c`, called by `process_vm_readv` with `PTRACE_MODE_ATTACH_REALCREDS`; then
//! `cap_ptrace_access_check` in `security/commoncap.c` and `yama_ptrace_access_check`), because
//! the kernel tells EPERM and no more.

use crate::RefusalReason;
use crate::procfs::{self, CAP_SYS_PTRACE, Status};
use crate::transfer::{Direction, Kernel, VmSyscall};

/// What was found about a refused access.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    pub(crate) errno: i32,
    pub(crate) pid: i32,
    /// The same system calls on this process's own memory, which no permission forbids.
    pub(crate) on_self: Result<(), i32>,
    pub(crate) ours: Option<Status>,
    pub(crate) theirs: Option<Status>,
    pub(crate) yama: Option<u8>,
    /// Inodes of this process's and the peer's user namespace.
    pub(crate) namespaces: (Option<u64>, Option<u64>),
    /// Whether the uid maps differ.
    pub(crate) maps_differ: bool,
    /// Owner of the peer's files in /proc.
    pub(crate) owner: Option<u32>,
    pub(crate) modules: String,
}

impl Evidence {
    /// Looks at process `pid`, access to which failed with `errno`. A handful of small files.
    pub(crate) fn collect(errno: i32, pid: i32) -> Self {
        let peer = pid.to_string();
        let maps = (procfs::uid_map("self"), procfs::uid_map(&peer));
        Self {
            errno,
            pid,
            on_self: call_on_self(),
            ours: Status::of_self(),
            theirs: Status::of(pid),
            yama: procfs::yama_scope(),
            namespaces: (
                procfs::user_namespace("self"),
                procfs::user_namespace(&peer),
            ),
            maps_differ: matches!(maps, (Some(ours), Some(theirs)) if ours != theirs),
            owner: procfs::owner(pid),
            modules: procfs::security_modules(),
        }
    }

    /// The reason that explains it.
    pub(crate) fn reason(&self) -> RefusalReason {
        let pid = self.pid;
        if pid <= 0 {
            return RefusalReason::InvalidPid { pid };
        }
        match self.errno {
            libc::ENOSYS | libc::EPERM | libc::EACCES => {}
            libc::ESRCH => return RefusalReason::NotVisible { pid },
            // The probe reads where the peer said that its word is.
            libc::EFAULT => return RefusalReason::WrongProcess { pid },
            _ => return RefusalReason::Errno,
        }
        if let Some(reason) = without_peer(self.on_self, self.ours) {
            return reason;
        }
        if self.errno == libc::ENOSYS {
            return RefusalReason::NoKernelSupport;
        }
        self.permission()
    }

    /// Why the kernel says EPERM although the calls work on this process itself.
    fn permission(&self) -> RefusalReason {
        let pid = self.pid;
        let (Some(ours), Some(theirs)) = (self.ours, self.theirs) else {
            return RefusalReason::Hidden { pid };
        };
        if theirs.ended {
            return RefusalReason::NotVisible { pid };
        }
        // Before the ids: they are compared across namespaces only as far as they are mapped, and
        // capabilities of this namespace do not count in another.
        let (mine, others) = self.namespaces;
        let known_apart = matches!((mine, others), (Some(mine), Some(others)) if mine != others);
        if known_apart || (others.is_none() && self.maps_differ) {
            return RefusalReason::UserNamespace {
                ours: mine,
                theirs: others,
            };
        }
        let may_ptrace = ours.effective & CAP_SYS_PTRACE != 0;
        if !may_ptrace {
            let uid = ours.uids[0];
            if let Some(&other) = theirs.uids.iter().find(|&&other| other != uid) {
                return RefusalReason::User {
                    ours: uid,
                    theirs: other,
                };
            }
            let gid = ours.gids[0];
            if let Some(&other) = theirs.gids.iter().find(|&&other| other != gid) {
                return RefusalReason::Group {
                    ours: gid,
                    theirs: other,
                };
            }
            if self.owner.is_some_and(|owner| owner != theirs.uids[1]) {
                return RefusalReason::NotDumpable { pid };
            }
            let missing = theirs.permitted & !ours.permitted;
            if missing != 0 {
                return RefusalReason::Capabilities { missing };
            }
        }
        // Looking at a namespace asks for the same right as reading memory does, but Yama has no
        // say in it, and CAP_SYS_PTRACE gives it within one user namespace.
        if others.is_none() {
            // Root owns its files in /proc in any case: a root process that is not dumpable shows
            // only here.
            return if !may_ptrace && theirs.uids[1] == 0 {
                RefusalReason::NotDumpable { pid }
            } else {
                RefusalReason::UserNamespace {
                    ours: mine,
                    theirs: None,
                }
            };
        }
        match self.yama {
            Some(scope @ 1..=2) if !may_ptrace => RefusalReason::Yama { scope },
            Some(scope @ 3..) => RefusalReason::Yama { scope },
            _ => RefusalReason::SecurityModule {
                modules: self.modules.clone(),
            },
        }
    }
}

/// The reason for which the calls fail on this very process, if they do.
pub(crate) fn without_peer(
    on_self: Result<(), i32>,
    ours: Option<Status>,
) -> Option<RefusalReason> {
    let errno = on_self.err()?;
    let filtered = ours.is_some_and(|status| status.seccomp != 0);
    Some(match errno {
        // A container's filter says ENOSYS or EPERM, as it likes.
        libc::ENOSYS | libc::EPERM | libc::EACCES if filtered => RefusalReason::Seccomp,
        libc::ENOSYS => RefusalReason::NoKernelSupport,
        libc::EPERM | libc::EACCES => RefusalReason::SecurityModule {
            modules: procfs::security_modules(),
        },
        _ => RefusalReason::Errno,
    })
}

/// Reads and writes one word of this process through the system calls. The kernel asks for no
/// permission there, so a failure is due to the kernel's build or to a filter.
pub(crate) fn call_on_self() -> Result<(), i32> {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let (source, mut target) = (0x6c69_6d69_635f_636d_u64, 0_u64);
    let size = size_of::<u64>();
    let pointer = (&raw const source).cast_mut().cast();
    let source_entry = [libc::iovec {
        iov_base: pointer,
        iov_len: size,
    }];
    let target_entry = [libc::iovec {
        iov_base: (&raw mut target).cast(),
        iov_len: size,
    }];
    // SAFETY: reads `source` (as remote) and writes `target`, both words of this frame.
    unsafe { Kernel.call(Direction::Read, pid, &target_entry, &source_entry) }?;
    // SAFETY: reads `source` (as local) and writes `target` (as remote), as above.
    unsafe { Kernel.call(Direction::Write, pid, &source_entry, &target_entry) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32) -> Status {
        Status {
            uids: [uid; 3],
            gids: [uid; 3],
            permitted: 0,
            effective: 0,
            seccomp: 0,
            ended: false,
        }
    }

    /// Two processes of one user that nothing keeps apart.
    fn friends() -> Evidence {
        Evidence {
            errno: libc::EPERM,
            pid: 42,
            on_self: Ok(()),
            ours: Some(user(1000)),
            theirs: Some(user(1000)),
            yama: None,
            namespaces: (Some(7), Some(7)),
            maps_differ: false,
            owner: Some(1000),
            modules: "lockdown,apparmor".to_owned(),
        }
    }

    fn reason(change: impl FnOnce(&mut Evidence)) -> RefusalReason {
        let mut evidence = friends();
        change(&mut evidence);
        evidence.reason()
    }

    #[test]
    fn every_cause_has_its_reason() {
        use RefusalReason as R;
        let module = R::SecurityModule {
            modules: "lockdown,apparmor".to_owned(),
        };
        assert_eq!(reason(|_| ()), module);
        assert_eq!(reason(|e| e.yama = Some(0)), module);
        assert_eq!(reason(|e| e.yama = Some(1)), R::Yama { scope: 1 });
        assert_eq!(reason(|e| e.yama = Some(2)), R::Yama { scope: 2 });
        assert_eq!(reason(|e| e.pid = 0), R::InvalidPid { pid: 0 });
        assert_eq!(reason(|e| e.errno = libc::ESRCH), R::NotVisible { pid: 42 });
        assert_eq!(
            reason(|e| e.errno = libc::EFAULT),
            R::WrongProcess { pid: 42 }
        );
        assert_eq!(reason(|e| e.errno = libc::ENOMEM), R::Errno);
        assert_eq!(reason(|e| e.theirs = None), R::Hidden { pid: 42 });
        assert_eq!(reason(|e| e.owner = Some(0)), R::NotDumpable { pid: 42 });
        assert_eq!(
            reason(|e| e.theirs = Some(user(1001))),
            R::User {
                ours: 1000,
                theirs: 1001
            }
        );
        assert_eq!(
            reason(|e| e.theirs = Some(Status {
                gids: [1000, 5, 5],
                ..user(1000)
            })),
            R::Group {
                ours: 1000,
                theirs: 5
            }
        );
        assert_eq!(
            reason(|e| e.theirs = Some(Status {
                permitted: 6,
                ..user(1000)
            })),
            R::Capabilities { missing: 6 }
        );
        assert_eq!(
            reason(|e| e.theirs = Some(Status {
                ended: true,
                ..user(1000)
            })),
            R::NotVisible { pid: 42 }
        );
        assert_eq!(
            reason(|e| e.namespaces = (Some(7), Some(8))),
            R::UserNamespace {
                ours: Some(7),
                theirs: Some(8)
            }
        );
        assert_eq!(
            reason(|e| (e.namespaces, e.maps_differ) = ((Some(7), None), true)),
            R::UserNamespace {
                ours: Some(7),
                theirs: None
            }
        );
    }

    #[test]
    fn a_failure_on_oneself_is_seccomp_or_the_kernel() {
        use RefusalReason as R;
        let filtered = Some(Status {
            seccomp: 2,
            ..user(1000)
        });
        for errno in [libc::EPERM, libc::ENOSYS] {
            let found = reason(|e| (e.errno, e.on_self, e.ours) = (errno, Err(errno), filtered));
            assert_eq!(found, R::Seccomp);
        }
        let found = reason(|e| (e.errno, e.on_self) = (libc::ENOSYS, Err(libc::ENOSYS)));
        assert_eq!(found, R::NoKernelSupport);
    }

    #[test]
    fn cap_sys_ptrace_opens_all_but_the_strictest_yama() {
        use RefusalReason as R;
        let able = Some(Status {
            effective: CAP_SYS_PTRACE,
            ..user(0)
        });
        let found = reason(|e| (e.ours, e.yama) = (able, Some(3)));
        assert_eq!(found, R::Yama { scope: 3 });
        let found = reason(|e| (e.ours, e.yama) = (able, Some(2)));
        assert!(matches!(found, R::SecurityModule { .. }));
    }
}
