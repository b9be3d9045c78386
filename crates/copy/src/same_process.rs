//! Long messages between endpoints of one process: one plain copy.
//!
//! The receiver cannot take an address out of an offer: another process could have written it
//! there. So the sender enters its buffer in a table that only this process has, and the offer
//! names the entry. A lock guards each buffer: the sender's operation ends only when nobody copies.
//! What the parent of a forked child was copying is not waited for there.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

use limic_shm::process::{LockHere, Process, ValueHere};

use limic_shm::bytes::{ReceiveBuffer, SendBuffer};

type Entry = Arc<LockHere<Option<SendBuffer>>>;
/// Endpoint id and request.
type Key = (u64, u64);

fn table() -> MutexGuard<'static, HashMap<Key, Entry>> {
    static TABLE: ValueHere<LockHere<HashMap<Key, Entry>>> = ValueHere::new();
    // The table holds no invariant across a panic: entries go in and out whole.
    TABLE.get_or_make(LockHere::default).lock()
}

/// Numbers that no other process has. A forked child is another process.
pub fn identity() -> (u64, u32) {
    let process = Process::current().to_bits();
    (process, limic_shm::system::process_id())
}

/// Enters a second view of a send's buffer.
pub fn enter(endpoint: u64, request: u64, data: SendBuffer) {
    table().insert((endpoint, request), Arc::new(LockHere::new(Some(data))));
}

/// Takes the buffer out of the table, after a copy under way has ended.
pub fn leave(endpoint: u64, request: u64) {
    let entry = table().remove(&(endpoint, request));
    if let Some(entry) = entry {
        entry.lock().take();
    }
}

/// Copies the first `limit` bytes of an entered send. False if it is not there (any more).
pub fn copy(endpoint: u64, request: u64, into: &ReceiveBuffer, limit: u64) -> bool {
    let Some(entry) = table().get(&(endpoint, request)).cloned() else {
        return false;
    };
    let data = entry.lock();
    match &*data {
        Some(data) => {
            into.copy_from_send(data, limit);
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{beside, holds_in_child};

    /// Its sender gives the message up in a child that was forked meanwhile.
    #[test]
    fn a_forked_child_waits_for_no_copy_of_another_thread() {
        let data = || {
            // SAFETY: no bytes.
            unsafe { SendBuffer::new(&[]) }
        };
        enter(1, 1, data());
        let entry = table().get(&(1, 1)).cloned().expect("entered");
        let copying = |stay: &dyn Fn()| {
            let _under_way = entry.lock();
            stay();
        };
        let given_up = || {
            leave(1, 1);
            true
        };
        assert!(beside(copying, || holds_in_child(given_up)));
        let looking = |stay: &dyn Fn()| {
            let _table = table();
            stay();
        };
        assert!(beside(looking, || holds_in_child(|| {
            enter(1, 2, data());
            given_up()
        })));
        leave(1, 1);
    }
}
