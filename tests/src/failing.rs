//! System calls of one thread that fail when a test wants it, by the notifications of seccomp(2).
//! The library under test is as it is shipped.

use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use libc::{c_int, c_long, sock_filter};

/// Which call is to fail next. All orderings are SeqCst: two threads, and nothing is fast here.
#[derive(Debug, Default)]
struct Plan {
    call: AtomicI64,
    left: AtomicU64,
    errno: AtomicI64,
    failed: AtomicBool,
}

/// The calling thread's system calls, as far as they are named.
#[derive(Debug)]
pub struct FailingCalls(Arc<Plan>);

impl FailingCalls {
    /// From now on another thread decides on these calls of this one. Of `mmap`, only shared
    /// mappings count: the allocator makes others.
    ///
    /// # Errors
    /// What the kernel says if it has no such notifications.
    pub fn of_this_thread(calls: &[c_long]) -> Result<Self, Error> {
        let plan = Arc::new(Plan::default());
        let (send, receive) = mpsc::channel::<OwnedFd>();
        let known = Arc::clone(&plan);
        // Before the filter, which threads inherit.
        std::thread::spawn(move || {
            if let Ok(listener) = receive.recv() {
                decide(&known, &listener);
            }
        });
        let listener = install(&program(calls))?;
        send.send(listener).expect("the thread waits for it");
        Ok(Self(plan))
    }

    /// The `nth` such call from now on fails with this error, the first one being number 1.
    pub fn fail(&self, call: c_long, nth: u64, errno: c_int) {
        self.0.failed.store(false, Ordering::SeqCst);
        self.0.call.store(call, Ordering::SeqCst);
        self.0.errno.store(errno.into(), Ordering::SeqCst);
        self.0.left.store(nth, Ordering::SeqCst);
    }

    /// No call fails any more. Whether the one that was to fail has come.
    #[must_use]
    pub fn end(&self) -> bool {
        self.0.call.store(-1, Ordering::SeqCst);
        self.0.failed.load(Ordering::SeqCst)
    }
}

/// Asks about the calls that are named, and allows all others.
fn program(calls: &[c_long]) -> Vec<sock_filter> {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let any_bit = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    let give = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| sock_filter { code, jt, jf, k };
    let number = core::mem::offset_of!(libc::seccomp_data, nr) as u32;
    // The lower half of the fourth argument, on a little-endian machine.
    let flags = core::mem::offset_of!(libc::seccomp_data, args) as u32 + 3 * 8;
    let mut all = vec![step(load, number, 0, 0)];
    for call in calls {
        all.push(step(equal, *call as u32, 0, 1));
        all.push(step(give, libc::SECCOMP_RET_USER_NOTIF, 0, 0));
    }
    all.push(step(equal, libc::SYS_mmap as u32, 0, 3));
    all.push(step(load, flags, 0, 0));
    all.push(step(any_bit, libc::MAP_SHARED as u32, 0, 1));
    all.push(step(give, libc::SECCOMP_RET_USER_NOTIF, 0, 0));
    all.push(step(give, libc::SECCOMP_RET_ALLOW, 0, 0));
    all
}

fn install(program: &[sock_filter]) -> Result<OwnedFd, Error> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: a flag of this thread, and a program that the kernel copies during the call.
    let fd = unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(Error::last_os_error());
        }
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// The test reads from a socket, the library from files that the kernel makes.
fn is_read_of_test(asked: &libc::seccomp_data) -> bool {
    if asked.nr != libc::SYS_read as c_int {
        return false;
    }
    let file = std::fs::read_link(format!("/proc/self/fd/{}", asked.args[0])).unwrap_or_default();
    !(file.starts_with("/proc") || file.starts_with("/sys"))
}

/// Lets each call go on, but for the one that is to fail.
fn decide(plan: &Plan, listener: &OwnedFd) {
    loop {
        // SAFETY: the structure is plain numbers, for which nought is a value.
        let mut asked: libc::seccomp_notif = unsafe { core::mem::zeroed() };
        // SAFETY: a listener, and room for one question.
        let got = unsafe {
            let request = libc::SECCOMP_IOCTL_NOTIF_RECV;
            libc::ioctl(listener.as_raw_fd(), request, &raw mut asked)
        };
        if got != 0 {
            match Error::last_os_error().raw_os_error() {
                // The thread is gone, or a signal came to it.
                Some(libc::EINTR | libc::ENOENT) => continue,
                _ => return,
            }
        }
        // Whether a descriptor is memory the kernel always knows.
        let is_known = asked.data.nr == libc::SYS_fcntl as c_int
            && asked.data.args[1] == libc::F_GET_SEALS as u64;
        let is_meant = i64::from(asked.data.nr) == plan.call.load(Ordering::SeqCst)
            && !is_known
            && !is_read_of_test(&asked.data);
        let fails = is_meant && plan.left.fetch_sub(1, Ordering::SeqCst) == 1;
        if fails {
            plan.call.store(-1, Ordering::SeqCst);
            plan.failed.store(true, Ordering::SeqCst);
        }
        let mut answer = libc::seccomp_notif_resp {
            id: asked.id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        };
        if fails {
            answer.error = -(plan.errno.load(Ordering::SeqCst) as i32);
            answer.flags = 0;
        }
        // SAFETY: a listener, and an answer to what it has just asked. If the thread is gone, it is
        // an error that does not matter.
        unsafe {
            let request = libc::SECCOMP_IOCTL_NOTIF_SEND;
            libc::ioctl(listener.as_raw_fd(), request, &raw mut answer);
        }
    }
}
