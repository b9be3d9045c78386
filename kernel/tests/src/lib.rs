//! What the tests of the kernel module are written with. They run in the lab's guest
//! (`cargo xtask lab test`), as root, each in a process of its own; elsewhere they skip themselves.
//!
//! - [`abi`] is the interface as `kernel/limic_rs/uapi/limic.h` has it, [`Session`] an open
//!   `/dev/limic`: every call is there in a raw form too, since half of the tests say what must be
//!   refused.
//! - [`Memory`] is mapped memory of any kind, [`changes`] are ways to change it, [`Latches`] those
//!   of a session, [`Fault`] holds a page back, [`Child`] is a forked process to talk to.
//! - [`Ledger`] compares the kernel's pin counters and the module's own before and after a test.

pub mod abi;
pub mod changes;
mod child;
mod fault;
mod latches;
mod ledger;
mod memory;
mod pattern;
mod requests;
mod session;

pub use child::{Child, Line, signal, sleeps_in_ioctl, wait_for};
pub use fault::Fault;
pub use latches::Latches;
pub use ledger::{Ledger, gauge};
pub use memory::{Memory, PAGE, lock_at_most};
pub use pattern::{Random, check, fill};
pub use requests::{Slot, cookie};
pub use session::{Errno, Session, To};

/// Whether this is a guest of the lab that has the module; says `SKIPPED` if it is not.
#[must_use]
pub fn in_guest() -> bool {
    let words = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let here = words.split_whitespace().any(|word| word == "lab.on=1");
    if here {
        assert!(
            std::path::Path::new(abi::DEVICE).exists(),
            "this guest has no {}: is limic.ko loaded?",
            abi::DEVICE
        );
        watchdog();
    } else {
        println!("SKIPPED: this needs the lab's virtual machine; run it by `cargo xtask lab test`");
    }
    here
}

/// Ends the test if it hangs, a little before the lab would (or after `LIMIC_TEST_SECONDS`). The
/// kernel's own stack traces come first.
fn watchdog() {
    let debug = std::path::Path::new("/sys/kernel/debug/kmemleak").exists();
    let limit = std::env::var("LIMIC_TEST_SECONDS").ok();
    let limit = limit.and_then(|text| text.parse().ok());
    let limit = limit.unwrap_or(if debug { 880 } else { 170 });
    let limit = std::time::Duration::from_secs(limit);
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        // 'w': tasks that sleep uninterruptibly.
        let _ = std::fs::write("/proc/sysrq-trigger", "w");
        eprintln!("the test hangs: given up after {limit:?}");
        std::process::abort();
    });
}

/// Runs a test body in the guest only, and asserts that nothing is left pinned or open behind it.
pub fn guest_test(body: impl FnOnce()) {
    if in_guest() {
        let ledger = Ledger::open();
        body();
        ledger.close();
    }
}

/// A token that all processes forked from here on share.
#[must_use]
pub fn token() -> [u64; 2] {
    let mut random = Random::new(std::process::id().into());
    [random.next() | 1, random.next()]
}
