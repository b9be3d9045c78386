//! Long messages between endpoints of one process: one plain copy.
//!
//! The receiver cannot take an address out of an offer: another process could have written it
//! there. So the sender enters its buffer in a table that only this process has, and the offer
//! names the entry. A lock guards each buffer: the sender's operation ends only when nobody copies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::buffer::{ReceiveBuffer, SendBuffer};

type Entry = Arc<Mutex<Option<SendBuffer>>>;
/// Endpoint id and request.
type Key = (u64, u64);

fn table() -> MutexGuard<'static, HashMap<Key, Entry>> {
    static TABLE: OnceLock<Mutex<HashMap<Key, Entry>>> = OnceLock::new();
    // The table holds no invariant across a panic: entries go in and out whole.
    TABLE
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// A number that no other process has. A forked child is another process.
pub(crate) fn identity() -> (u64, u32) {
    static RANDOM: OnceLock<u64> = OnceLock::new();
    (
        *RANDOM.get_or_init(|| getrandom::u64().unwrap_or(0)),
        limic_shm::world::process_id(),
    )
}

/// Enters a second view of a send's buffer.
pub(crate) fn enter(endpoint: u64, request: u64, data: SendBuffer) {
    table().insert((endpoint, request), Arc::new(Mutex::new(Some(data))));
}

/// Takes the buffer out of the table, after a copy under way has ended.
pub(crate) fn leave(endpoint: u64, request: u64) {
    let entry = table().remove(&(endpoint, request));
    if let Some(entry) = entry {
        entry.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Copies the first `limit` bytes of an entered send. False if it is not there (any more).
pub(crate) fn copy(endpoint: u64, request: u64, into: &ReceiveBuffer, limit: u64) -> bool {
    let Some(entry) = table().get(&(endpoint, request)).cloned() else {
        return false;
    };
    let data = entry.lock().unwrap_or_else(PoisonError::into_inner);
    match &*data {
        Some(data) => {
            into.copy_from_send(data, limit);
            true
        }
        None => false,
    }
}
