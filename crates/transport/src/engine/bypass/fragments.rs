//! A blocking receive of an eager message in fragments, with nothing in its way: each fragment goes
//! into the receive buffer as soon as it is there, past the table of requests (`receive`).

use limic_policy::select::LONGEST_RECYCLED;
use limic_records as frame;
use limic_shm::bytes::{ReceiveBuffer, Source, word_at};
use limic_shm::ring::Mapped;
use limic_shm::ring::line::LineConsumer;
use limic_shm::segment::STAGING_PAGE;

use crate::engine::cx::Cx;
use crate::engine::progress::rings;
use crate::engine::protocol::staged;

/// Looks for the next fragment before the receive is posted: some microseconds, in which a sender
/// fills a staging buffer wherever it runs.
const PEEKS: u32 = 256;

/// The length of a message that begins with this record, if its fragments may go straight into the
/// buffer.
pub(crate) fn eager_length(record: &impl Source, into: &ReceiveBuffer) -> Option<u64> {
    let (len, waited) = frame::fragmented_from(word_at(record, 0));
    let fits = (1..=LONGEST_RECYCLED.min(into.len())).contains(&len);
    (fits && !waited).then_some(len)
}

/// Takes the fragments of a message that has begun, as long as they come one behind the other.
/// Gives the bytes that came.
pub(crate) fn take(
    ring: &mut LineConsumer<Mapped>,
    cx: &mut Cx,
    source: u32,
    len: u64,
    into: &ReceiveBuffer,
) -> u64 {
    // With more endpoints than processors, the sender may need this one.
    let most = if cx.wakeup.is_oversubscribed() {
        1
    } else {
        PEEKS
    };
    let mut at = 0;
    let mut peeks = 0;
    while at < len && peeks < most {
        let staged = match ring.peek() {
            Ok(None) => {
                core::hint::spin_loop();
                peeks += 1;
                continue;
            }
            Ok(Some(record)) => frame::eager_fragment(record.kind, &record),
            Err(_) => None,
        };
        let Some(descriptor) = staged else {
            // Bytes in a record, or another record: the receive is posted.
            break;
        };
        let bytes = descriptor.len();
        if bytes == 0 || bytes > len - at {
            break;
        }
        if let Err(wrong) = staged::copy_buffer(cx, source, descriptor, at, len, into) {
            cx.peers.violated(source, wrong);
            break;
        }
        at += bytes;
        if bytes >= u64::from(STAGING_PAGE) {
            peeks = 0;
        }
        rings::credit_returned(cx, source, ring.pop());
    }
    at
}
