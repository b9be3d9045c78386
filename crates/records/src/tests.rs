use limic_policy::{Path, ReceiverPace};
use limic_pools::arena::MOST_ARENAS;
use limic_pools::staging::Lease;
use limic_shm::segment::LOAN_FLAGS;
use limic_topology::Place;
use proptest::prelude::*;

use crate::any_record::any_record;
use crate::*;

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// What a record is read as by its receiver, in the words of its debug output.
fn read_back(record: &ControlRecord) -> Result<String, Violation> {
    let payload = bytes(record.words());
    Frame::decode(3, record.kind, record.tag, &payload[..]).map(|frame| match frame {
        Frame::EagerStaged(envelope, staged) => format!("{envelope:?} {staged:?}"),
        Frame::EagerFragmented(envelope, len, waited) => format!("{envelope:?} {len} {waited}"),
        Frame::ReadyToSend(envelope, offer) => format!("{envelope:?} {offer:?}"),
        Frame::Arena(envelope, message) => format!("{envelope:?} {message:?}"),
        Frame::ClearToSend(clear) => format!("{clear:?}"),
        Frame::SplitCopy(split) => format!("{split:?}"),
        Frame::FragmentStaged(transfer, staged) => format!("{transfer:?} {staged:?}"),
        Frame::Done(id, done) => format!("{id} {done:?}"),
        Frame::Update(state) => format!("{state:?}"),
        Frame::Get(access) => format!("get {access:?}"),
        Frame::Put(access) => format!("put {access:?}"),
        Frame::Retract(id) => format!("retract {id}"),
        Frame::RingGrant(number) => format!("grant {number}"),
        Frame::RingSwitch(number) => format!("switch {number}"),
        Frame::LatencyProbe(word) => format!("probe {word}"),
        Frame::LatencyProbeDone(word) => format!("probed {word}"),
        Frame::ArenaRetired(arena) => format!("retired {arena}"),
        Frame::Accessed(accessed) => format!("{accessed:?}"),
        Frame::Eager(envelope, body) => format!("{envelope:?} {:?}", words::<4>(&body)),
        Frame::FragmentInline(transfer, body) => format!("{transfer:?} {:?}", words::<4>(&body)),
    })
}

proptest! {
    #[test]
    fn an_offer_comes_back(
        tag: u64, immediate: Option<u64>, len in 0_u64..1 << 56, send: u64, address: u64, key: u64,
        vectored: bool, confirm: bool, peer_readable: bool,
    ) {
        let envelope = Envelope { from: 3, tag, immediate };
        let offer = Offer { len, send, address, key, vectored, peer_readable, confirm };
        let record = ControlRecord::message(READY_TO_SEND, tag, immediate, offer.encode());
        prop_assert_eq!(read_back(&record), Ok(format!("{envelope:?} {offer:?}")));
    }

    #[test]
    fn a_message_in_an_arena_comes_back(
        tag: u64, immediate: Option<u64>, arena in 0..MOST_ARENAS as u32, offset: u64,
        len in 0_u64..1 << 56, flag in 0..LOAN_FLAGS, generation: u32,
        send_ahead in proptest::option::of(0_u32..255),
    ) {
        let envelope = Envelope { from: 3, tag, immediate };
        let message = ArenaMessage { arena, offset, len, flag, generation, send_ahead };
        let record = ControlRecord::message(ARENA, tag, immediate, message.encode());
        prop_assert_eq!(read_back(&record), Ok(format!("{envelope:?} {message:?}")));
    }

    #[test]
    fn a_staged_message_comes_back(tag: u64, immediate: Option<u64>, page: u32, len: u32) {
        let staged = BufferDescriptor::new(page, 7, 9, len.into(), Lease::Transferred);
        let envelope = Envelope { from: 3, tag, immediate };
        let record = ControlRecord::message(EAGER_STAGED, tag, immediate, staged.words());
        prop_assert_eq!(read_back(&record), Ok(format!("{envelope:?} {staged:?}")));
    }

    /// A peer may write anything into a ring.
    #[test]
    fn any_record_is_read_or_refused(
        kind in 0_u8..=ACCESSED, immediate: bool, tag in prop_oneof![0_u64..8, any::<u64>()],
        words in proptest::collection::vec(prop_oneof![0_u64..16, any::<u64>()], 0..8),
        cut in 0_usize..8,
    ) {
        let bytes = bytes(&words);
        let kind = if immediate { kind | IMMEDIATE } else { kind };
        any_record(kind, tag, &bytes[..bytes.len().saturating_sub(cut)]);
    }
}

#[test]
fn all_answers_come_back() {
    let answers = [
        Done::Received(Path::Pipeline),
        Done::Retracted,
        Done::Written,
        Done::Nothing,
        Done::NoRegion,
        Done::OutOfRegion(u64::MAX),
    ];
    for done in answers {
        assert_eq!(read_back(&done.encode(5)), Ok(format!("5 {done:?}")));
    }
}

#[test]
fn all_states_come_back() {
    let states = [
        Update::Pace(ReceiverPace::Slow),
        Update::Pace(ReceiverPace::Steady),
        Update::Place(Place::from_bytes([1, 2, 3, 4, 5, 6, 7, 8])),
        Update::AskFirst(true),
    ];
    for state in states {
        assert_eq!(read_back(&state.encode()), Ok(format!("{state:?}")));
    }
}

#[test]
fn a_record_that_is_too_short_is_refused() {
    for kind in [EAGER_STAGED, READY_TO_SEND, ARENA, CLEAR_TO_SEND, DONE, GET] {
        let record = ControlRecord::new(kind, 0, [1]);
        assert_eq!(read_back(&record), Err(SHORT), "kind {kind}");
    }
    assert_eq!(
        read_back(&ControlRecord::new(EAGER | IMMEDIATE, 0, [])),
        Err(SHORT)
    );
}
