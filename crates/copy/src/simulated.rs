//! Cross-memory attach as a simulator makes it.

use core::cell::Cell;

use libc::iovec;

/// `process_vm_writev` if the first argument is true, `process_vm_readv` if not, of a process that
/// is simulated: gives the bytes copied, or errno.
pub type Call = fn(bool, i32, &[iovec], &[iovec]) -> Result<usize, i32>;

thread_local! {
    static CALL: Cell<Option<Call>> = const { Cell::new(None) };
}

/// From now on, this thread's copies are made by `call`.
///
/// # Safety
/// It keeps the contract of the system calls: it writes what the lists name, and nothing else.
pub unsafe fn install(call: Option<Call>) {
    CALL.set(call);
}

pub(crate) fn installed() -> Option<Call> {
    CALL.get()
}
