//! Records that lie in the rings of peers, changed behind the library's back, and what their
//! receiver may make of it.

use limic::settings::Settings;
use limic::{Endpoint, Error, HybridEndpoint, Peer, PeerFailure, Status};
use limic_shm::ring::line::SAME_TAG;

use crate::Rank;

/// Bytes on either side of a buffer that nobody may touch.
pub const MARGIN: usize = 64 << 10;
/// What they hold.
pub const UNTOUCHED: u8 = 0xA5;

/// Header, tag, and the first words of the payload. Of a record that repeats the tag of the one
/// before, the tag is of no effect.
pub type Words<'a> = [&'a mut u64; 6];

/// Kinds of records, as the library's `frame` has them.
pub mod kinds {
    /// A message that is its own payload.
    pub const EAGER: u64 = 1;
    /// A message in fragments begins.
    pub const EAGER_FRAGMENTED: u64 = 3;
    /// A message in an arena.
    pub const ARENA: u64 = 5;
    /// A fragment in a staging buffer.
    pub const FRAGMENT_STAGED: u64 = 8;
}

/// The kind that a header names.
#[must_use]
pub const fn kind(header: u64) -> u64 {
    header >> 32 & 0xFF
}

/// The length of the payload that a header names.
#[must_use]
pub const fn length(header: u64) -> u64 {
    header & 0xFFFF
}

/// Changes every record that looks like one of those that are meant, in every ring which this
/// process may write, and counts them. The change learns how many came before.
///
/// # Safety
/// Nobody accesses the rings meanwhile: the peers wait. That this process may end badly is
/// accepted.
pub unsafe fn forge(
    is_meant: impl Fn(&Words<'_>) -> bool,
    change: impl Fn(&mut Words<'_>, u64),
) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let mut seen = 0;
    for line in maps
        .lines()
        .filter(|line| line.contains("memfd:limic") && line.contains(" rw-s "))
    {
        let range = line
            .split_whitespace()
            .next()
            .and_then(|r| r.split_once('-'));
        let (start, end) = range.expect("a range");
        let number = |text| usize::from_str_radix(text, 16).expect("an address");
        let mut at = number(start);
        while at + 48 <= number(end) {
            let word = std::ptr::with_exposed_provenance_mut::<u64>(at);
            let mut no_tag = 0;
            // SAFETY: within a shared mapping that this process may write, and whose other process
            // waits meanwhile (the caller's promise), so that nobody accesses the words in these
            // references' time.
            let mut words: Words<'_> = unsafe {
                let same = *word & SAME_TAG != 0;
                let payload = word.add(if same { 1 } else { 2 });
                [
                    &mut *word,
                    if same { &mut no_tag } else { &mut *word.add(1) },
                    &mut *payload,
                    &mut *payload.add(1),
                    &mut *payload.add(2),
                    &mut *payload.add(3),
                ]
            };
            let len = length(*words[0]);
            if is_meant(&words) {
                change(&mut words, seen);
                seen += 1;
                at += (len as usize & !7).max(8);
            } else {
                at += 8;
            }
        }
    }
    seen
}

/// Opens an endpoint and meets the other of two ranks, often enough for a private ring, in which
/// pieces travel.
///
/// # Panics
/// If that fails.
#[must_use]
pub fn meet(rank: &Rank, settings: Settings) -> (HybridEndpoint, Peer) {
    let endpoint = HybridEndpoint::with(settings).expect("open");
    let other = rank.connect(&endpoint)[1 - rank.rank as usize];
    for _ in 0..100 {
        let mut word = [0];
        endpoint
            .send_recv(other, 1_u64, &[1], (other, 1), &mut word)
            .expect("exchange");
    }
    (endpoint, other)
}

/// A receive of `len` bytes ended well, or with the sender's failure. `found`: the receiver finds
/// the forgery out, and blames the sender.
///
/// # Panics
/// If it ended otherwise.
pub fn check_received(
    name: &str,
    found: bool,
    from: Peer,
    len: usize,
    received: &Result<Status, Error>,
) {
    match received {
        Ok(status) => assert!(!found && status.len == len as u64, "{name}"),
        Err(Error::PeerFailed { peer, why }) => {
            assert_eq!(*peer, from, "{name}");
            let blamed = matches!(why, PeerFailure::Corrupt(_));
            assert!(blamed || !found, "{name}: {why}");
        }
        Err(other) => panic!("{name}: {other}"),
    }
}

/// Nobody wrote into the margins of a receive's room, nor into the room of another receive; and the
/// endpoint still works.
///
/// # Panics
/// If that is not so.
pub fn check_unharmed(name: &str, endpoint: &HybridEndpoint, room: &[u8], other_room: &[u8]) {
    let untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == UNTOUCHED);
    assert!(
        untouched(&room[..MARGIN]),
        "{name}: bytes before the buffer"
    );
    assert!(
        untouched(&room[room.len() - MARGIN..]),
        "{name}: bytes behind it"
    );
    assert!(untouched(other_room), "{name}: bytes of another receive");
    check_works(endpoint);
}

/// A message to itself arrives.
///
/// # Panics
/// If it does not.
pub fn check_works(endpoint: &HybridEndpoint) {
    let me = endpoint.myself();
    let mut inbox = [0; 5];
    endpoint
        .send_recv(me, 1_u64, b"still", (me, 1), &mut inbox)
        .expect("to itself");
}
