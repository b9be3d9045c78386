//! Where what lies in the page of counters, in words of 64 bits of the machine's own byte order.
//!
//! Words that one message changes lie together: those of its path (the inline one has none), of its
//! size class, and of its peer are one cache line each. Only the owner writes; nobody polls.

/// The first word: `limiccnt`.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"limiccnt");
/// Counts up when a word changes its meaning.
pub(super) const VERSION: u64 = 3;

pub(super) const AT_MAGIC: usize = 0;
pub(super) const AT_VERSION: usize = 1;
/// The process that opened the endpoint, as itself sees it.
pub(super) const AT_PID: usize = 2;
/// The endpoint's number in the world, from its address.
pub(super) const AT_ENDPOINT: usize = 3;
/// Its rank plus one; 0 if no launcher told.
pub(super) const AT_RANK: usize = 4;
/// When it was opened: milliseconds since 1970.
pub(super) const AT_OPENED: usize = 5;
/// 1 once it is closed.
pub(super) const AT_CLOSED: usize = 6;
/// Rows of peers in use.
pub(super) const AT_ROWS: usize = 7;

/// One word for each [`Event`](crate::Event).
pub(super) const EVENTS: usize = 16;
/// Messages and bytes of each path but the inline one: sent.
pub(super) const SENT: usize = 64;
/// Messages and bytes of each path: received, where the path is known to the receiver.
pub(super) const RECEIVED: usize = SENT + 2 * MOST_PATHS;
/// Room for paths of later versions.
pub(super) const MOST_PATHS: usize = 16;
/// One word for each size class of what was sent.
pub(super) const SIZES: usize = 128;

/// Reasons, each of [`REASON_WORDS`].
pub(super) const REASONS: usize = 256;
pub(super) const MOST_REASONS: usize = 32;
pub(super) const REASON_WORDS: usize = 32;
/// Of a reason: bytes of the text, or 0 while it is being written.
pub(super) const REASON_LEN: usize = 0;
/// Of a reason: the path plus one, or 0.
pub(super) const REASON_PATH: usize = 1;
/// Of a reason: the first peer.
pub(super) const REASON_PEER: usize = 2;
/// Of a reason: how often.
pub(super) const REASON_TIMES: usize = 3;
/// Of a reason: the text, UTF-8.
pub(super) const REASON_TEXT: usize = 4;
pub(super) const REASON_BYTES: usize = (REASON_WORDS - REASON_TEXT) * 8;

/// Rows of peers, a cache line each. The last one counts for all peers that have none of their own.
pub(super) const ROWS: usize = REASONS + MOST_REASONS * REASON_WORDS;
pub(super) const MOST_ROWS: usize = 256;
pub(super) const ROW_WORDS: usize = 8;
/// The row of those that have none.
pub(super) const SHARED_ROW: usize = MOST_ROWS - 1;
/// Of a row: messages and bytes sent to the peer.
pub(super) const ROW_SENT: usize = 0;
/// Of a row: messages and bytes received from it.
pub(super) const ROW_RECEIVED: usize = 2;
/// Of a row: times that the peer was woken.
pub(super) const ROW_RANG: usize = 4;
/// Of a row: the peer's endpoint.
pub(super) const ROW_ENDPOINT: usize = 5;
/// Of a row: the peer's number plus one.
pub(super) const ROW_PEER: usize = 6;

pub(super) const WORDS: usize = ROWS + MOST_ROWS * ROW_WORDS;
/// All of it.
pub(super) const BYTES: usize = WORDS * 8;

const _: () = {
    assert!(EVENTS + crate::Event::ALL.len() <= SENT);
    assert!(RECEIVED + 2 * MOST_PATHS <= SIZES);
    assert!(limic_policy::Path::ALL.len() <= MOST_PATHS);
    assert!(SIZES + crate::SIZE_CLASSES <= REASONS);
    // Rows are sub-ranges of whole lines, and each path's two words lie in one.
    assert!((ROWS * 8) % 64 == 0 && SENT % 8 == 0 && RECEIVED % 8 == 0);
};
