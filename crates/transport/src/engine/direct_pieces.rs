//! A blocking receive of a message in pieces, with nothing in its way: each piece goes into the buffer as soon as it is there, past
//! the table of requests (see `direct`).

use limic_shm::ring::Mapped;
use limic_shm::ring::line::LineConsumer;
use limic_shm::segment::POOL_PAGE;

use super::Core;
use super::in_hand::LONGEST;
use super::told::Told;
use super::wire;
use crate::buffer::{ReceiveBuffer, Source, word_at, words};

/// Looks for the next piece before the receive goes on in the ordinary way: some microseconds, in which a sender fills a piece
/// wherever it runs.
const LOOKS: u32 = 256;

/// The length of a message that begins with this record, if its pieces may go straight into the buffer. Others are left to the
/// ordinary way.
pub(super) fn begins(record: &impl Source, into: &ReceiveBuffer) -> Option<u64> {
    let (flags, len) = wire::parted(word_at(record, 0));
    let fits = (1..=LONGEST.min(into.len())).contains(&len);
    (fits && flags == 0).then_some(len)
}

/// Takes the pieces of a message that has begun, as long as they come one behind the other. Says how many bytes came.
pub(super) fn take(
    ring: &mut LineConsumer<Mapped>,
    core: &mut Core,
    source: u32,
    len: u64,
    into: &ReceiveBuffer,
) -> u64 {
    // With more endpoints than processors, the sender may need this one.
    let most = if core.is_crowded() { 1 } else { LOOKS };
    let mut at = 0;
    let mut looks = 0;
    while at < len && looks < most {
        let told = match ring.peek() {
            Ok(None) => {
                core::hint::spin_loop();
                looks += 1;
                continue;
            }
            Ok(Some(record)) if record.kind == wire::NEXT_PIECE => Told::from(words::<2>(&record)),
            // Bytes in a record, or another record: the ordinary way.
            _ => break,
        };
        if told.len() == 0 || told.len() > len - at || !core.copy_told(source, told, at, len, into)
        {
            break;
        }
        at += told.len();
        if told.len() >= u64::from(POOL_PAGE) {
            looks = 0;
        }
        core.popped(source, ring.pop());
    }
    at
}
