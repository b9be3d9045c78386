//! Forked processes, and lines to talk to them.

use std::ffi::c_int;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// One end of a line between two processes.
#[derive(Debug)]
pub struct Line(UnixStream);

impl Line {
    /// Says a number.
    pub fn say(&mut self, number: u64) {
        self.0
            .write_all(&number.to_ne_bytes())
            .expect("the other process listens");
    }

    /// Waits for a number.
    pub fn hear(&mut self) -> u64 {
        self.try_hear().expect("the other process speaks")
    }

    /// Waits for a number; an error if the other process is gone.
    ///
    /// # Errors
    /// It is gone, or said nothing for a minute.
    pub fn try_hear(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// A forked process. It is killed when dropped, so that a test that fails leaves none behind.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    /// The line to it.
    pub line: Line,
    reaped: bool,
}

impl Child {
    /// Forks; the child runs `body` and exits, with 1 if it panics.
    #[must_use]
    pub fn fork(body: impl FnOnce(&mut Line)) -> Self {
        let (here, there) = UnixStream::pair().expect("a pair of sockets");
        for end in [&here, &there] {
            end.set_read_timeout(Some(Duration::from_secs(60)))
                .expect("a socket takes a limit");
        }
        // SAFETY: the child goes on in this thread alone and leaves by `_exit`. glibc keeps its
        // allocator usable there.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", io::Error::last_os_error());
        if pid == 0 {
            drop(here);
            // SAFETY: the child must not outlive a test that is killed.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let ran = catch_unwind(AssertUnwindSafe(|| body(&mut Line(there))));
            let _ = io::stdout().flush();
            // SAFETY: ends the child without running what the parent will run at its own exit.
            unsafe { libc::_exit(c_int::from(ran.is_err())) }
        }
        Self {
            pid,
            line: Line(here),
            reaped: false,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// Whether it has ended by itself. It stays to be waited for.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        // SAFETY: plain data, filled in by the call.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            let looked = libc::waitid(libc::P_PID, self.pid as libc::id_t, &mut info, flags);
            looked == 0 && info.si_pid() == self.pid
        }
    }

    /// Kills it and waits until it is gone.
    pub fn kill(mut self) {
        signal(self.pid, libc::SIGKILL);
        self.reap();
    }

    /// Waits for its end, which must be a good one.
    pub fn join(mut self) {
        let status = self.reap();
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "the child ended badly: wait status {status:#x}"
        );
    }

    fn reap(&mut self) -> c_int {
        let mut status = 0;
        // SAFETY: waits for an own child, once.
        let found = unsafe { libc::waitpid(self.pid, &mut status, 0) };
        assert_eq!(found, self.pid, "waitpid: {}", io::Error::last_os_error());
        self.reaped = true;
        status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            signal(self.pid, libc::SIGKILL);
            // SAFETY: an own child that nobody has waited for.
            unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
        }
    }
}

/// Sends a signal.
pub fn signal(pid: libc::pid_t, number: c_int) {
    // SAFETY: to a process of this test, which has not been waited for.
    unsafe { libc::kill(pid, number) };
}

/// Waits until a condition holds, looking again and again.
///
/// # Panics
/// If it does not within 30 s; `what` says what was waited for.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(std::time::Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a process, or a thread by its number, sleeps in an ioctl.
pub fn sleeps_in_ioctl(pid: libc::pid_t) {
    wait_for("a sleep in an ioctl", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let asleep = stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" S"));
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall"));
        // Without /proc/PID/syscall in the kernel, being asleep has to do.
        asleep && call.map_or(true, |call| call.starts_with("16 "))
    });
}
