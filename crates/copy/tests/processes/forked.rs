//! A peer as a fork of this process. The child calls only what is safe to call after a fork of a
//! process with threads: system calls, no allocation.

use std::fs::File;
use std::io::Read;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe};

/// A forked child; killed and reaped on drop.
#[derive(Debug)]
pub(crate) struct Forked {
    pid: Pid,
}

/// What a [`Forked::target`] makes of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    /// Uid and gid to take; `None` to stay who it is.
    pub(crate) user: Option<libc::uid_t>,
    pub(crate) dumpable: bool,
}

impl Forked {
    /// Forks; the child runs `work` and exits with what it returns. `work` must do system calls
    /// only.
    pub(crate) fn run(work: impl FnOnce() -> i32) -> Self {
        // SAFETY: the child calls `alarm`, `work` (system calls only, by the contract of this
        // function, which only tests use) and `_exit`.
        match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => Self { pid: child },
            ForkResult::Child => {
                // SAFETY: system calls without memory; `_exit` does not return.
                unsafe {
                    libc::alarm(60);
                    libc::_exit(work());
                }
            }
        }
    }

    /// Forks a child that takes on `identity` and then waits to be killed.
    pub(crate) fn target(identity: Identity) -> Result<Self, &'static str> {
        let (reader, writer) = pipe().unwrap();
        let target = Self::run(|| {
            let done = take(identity);
            let _ = nix::unistd::write(&writer, &[u8::from(done)]);
            loop {
                // SAFETY: waits for a signal; touches no memory.
                unsafe { libc::pause() };
            }
        });
        drop(writer);
        let mut answer = [0];
        File::from(reader).read_exact(&mut answer).unwrap();
        if answer[0] == 1 {
            Ok(target)
        } else {
            Err("the kernel forbids that identity")
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Waits for its end (SIGALRM bounds it); returns how it ended.
    pub(crate) fn wait(self) -> nix::sys::wait::WaitStatus {
        let status = waitpid(self.pid, None).unwrap();
        std::mem::forget(self);
        status
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

/// System calls only.
fn take(identity: Identity) -> bool {
    if let Some(uid) = identity.user {
        become_user(uid);
    }
    // SAFETY: a system call that touches no memory of this process.
    unsafe {
        libc::prctl(
            libc::PR_SET_DUMPABLE,
            libc::c_ulong::from(identity.dumpable),
        ) == 0
    }
}

/// Gives up root for `uid` (and the gid of the same number) in this thread, for good.
pub(crate) fn become_user(uid: libc::uid_t) {
    // SAFETY: system calls that touch no memory. Not through libc, which would ask the other
    // threads: after a fork they do not exist.
    let ok = unsafe {
        libc::syscall(libc::SYS_setresgid, uid, uid, uid) == 0
            && libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0
    };
    if !ok {
        std::process::abort();
    }
}
