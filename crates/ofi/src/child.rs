//! Forked children, for tests.

/// Whether `body` says so in a forked child. `false` also if it panics, or does not end.
pub(crate) fn holds_in_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs on in this thread alone, and ends without a destructor.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        // SAFETY: it ends, whatever happens.
        unsafe { libc::alarm(50) };
        let well = std::panic::catch_unwind(core::panic::AssertUnwindSafe(body));
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(i32::from(!well.unwrap_or(false))) };
    }
    let mut status = 0;
    // SAFETY: a child of this process, and a place for what it ends with.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    (ended, status) == (child, 0)
}

/// Runs `body` while another thread is in `inside`, which calls what it gets when it is there.
pub(crate) fn beside<R>(inside: impl FnOnce(&dyn Fn()) + Send, body: impl FnOnce() -> R) -> R {
    let (there, is_there) = std::sync::mpsc::channel();
    let (leave, may_leave) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            inside(&|| {
                there.send(()).expect("it is waited for");
                // It ends when the body has.
                let _ = may_leave.recv();
            });
        });
        is_there.recv().expect("it gets there");
        let result = body();
        drop(leave);
        result
    })
}
