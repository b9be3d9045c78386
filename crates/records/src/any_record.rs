//! What holds for any record, whoever has written it: it is refused, or what was read of it can be
//! written again. For property tests and for the fuzzer.

use limic_shm::bytes::append;

use crate::*;

/// Reads a record, and writes it anew if it is not refused.
///
/// # Panics
/// What was read says something else when it is written and read again.
pub fn any_record(kind: u8, tag: u64, payload: &[u8]) {
    let Some(record) = again(kind, tag, payload) else {
        return;
    };
    let bytes: Vec<u8> = record
        .words()
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    assert_eq!(
        again(record.kind, record.tag, &bytes),
        Some(record),
        "read as kind {kind}, tag {tag}, payload {payload:?}"
    );
}

/// The record that says what was read of another one. `None`: it was refused, or has a part of a
/// message.
fn again(kind: u8, tag: u64, payload: &[u8]) -> Option<ControlRecord> {
    let message = |envelope: &Envelope, kind, words: &[u64]| {
        let mut record = ControlRecord::message(kind, envelope.tag, envelope.immediate, []);
        let start = record.count;
        record.count += words.len();
        record.words[start..record.count].copy_from_slice(words);
        record
    };
    Some(match Frame::decode(3, kind, tag, payload).ok()? {
        Frame::Eager(_, body) | Frame::FragmentInline(_, body) => {
            let mut bytes = Vec::new();
            append(&body, &mut bytes).expect("memory for a record");
            assert!(payload.ends_with(&bytes));
            return None;
        }
        Frame::EagerStaged(envelope, buffer) => message(&envelope, EAGER_STAGED, &buffer.words()),
        Frame::EagerFragmented(envelope, len, waited) => {
            message(&envelope, EAGER_FRAGMENTED, &[fragmented(len, waited)])
        }
        Frame::ReadyToSend(envelope, offer) => message(&envelope, READY_TO_SEND, &offer.encode()),
        Frame::Arena(envelope, from) => message(&envelope, ARENA, &from.encode()),
        Frame::ClearToSend(clear) => clear.encode(),
        Frame::SplitCopy(split) => split.encode(),
        Frame::FragmentStaged(Transfer::Eager, buffer) => {
            ControlRecord::new(FRAGMENT_STAGED, 0, buffer.words())
        }
        Frame::FragmentStaged(Transfer::Asked { receive, at }, buffer) => {
            let [page_word, extent] = buffer.words();
            ControlRecord::new(FRAGMENT_STAGED, 0, [receive, at, page_word, extent])
        }
        Frame::Done(id, done) => done.encode(id),
        Frame::Retract(id) => ControlRecord::new(RETRACT, 0, [id]),
        Frame::Get(access) => access.encode(GET),
        Frame::Put(access) => access.encode(PUT),
        Frame::RingGrant(ring) => ControlRecord::new(RING_GRANT, 0, [ring.into()]),
        Frame::RingSwitch(ring) => ControlRecord::new(RING_SWITCH, 0, [ring.into()]),
        Frame::Update(update) => update.encode(),
        Frame::LatencyProbe(word) => ControlRecord::new(LATENCY_PROBE, 0, [word.into()]),
        Frame::LatencyProbeDone(word) => ControlRecord::new(LATENCY_PROBE, 1, [word.into()]),
        Frame::ArenaRetired(arena) => ControlRecord::new(ARENA_RETIRED, 0, [arena.into()]),
        Frame::Accessed(accessed) => accessed.encode(),
    })
}
