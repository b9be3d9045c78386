//! A process that the C library does not know of is made while another one is being forked.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use limic_shm::segment::Arena;

static ARMED: AtomicBool = AtomicBool::new(false);
static CHILD: AtomicI32 = AtomicI32::new(0);

/// Runs when limic has done what it does before a fork, since it was registered earlier.
extern "C" fn clones() {
    if !ARMED.swap(false, Ordering::Relaxed) {
        return;
    }
    // SAFETY: as `fork`, and the child makes nothing but system calls.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if child == 0 {
        // SAFETY: it waits for its end, which comes in any case.
        unsafe {
            libc::alarm(100);
            loop {
                libc::pause();
            }
        }
    }
    CHILD.store(child as i32, Ordering::Relaxed);
}

/// Forks, and waits for the child.
fn fork() {
    // SAFETY: the child ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child without what the harness has to do at its end.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: a child of this process.
    let ended = unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };
    assert_eq!(ended, child);
}

#[test]
fn a_fork_does_not_wait_for_a_child_of_another_kind() {
    // SAFETY: a function for the whole life of the process.
    assert_eq!(unsafe { libc::pthread_atfork(Some(clones), None, None) }, 0);
    let _copied = Arena::create_lazy(1 << 20).expect("memory");
    ARMED.store(true, Ordering::Relaxed);
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        fork();
        let _ = done.send(());
    });
    let outcome = is_done.recv_timeout(Duration::from_secs(50));
    let child = CHILD.load(Ordering::Relaxed);
    assert!(child > 0, "the other child was made");
    // SAFETY: a child of this process, which nobody has waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, core::ptr::null_mut(), 0);
    }
    outcome.expect("the fork waits");
}
