//! Long records over TCP from a peer that was let in and breaks the rules: it gets nothing by that,
//! and the others go on.

use std::io::{Read, Write};
use std::net::TcpStream;

use limic_policy::Path;
use limic_records::{self as frame, ClearToSend, Done, Next, Offer};

use super::networks::{call, listening};
use super::{known, pending, post, send, tags};
use crate::engine::Engine;
use crate::engine::matching::unexpected_store::UnexpectedBody;
use crate::engine::peer::greeting;
use crate::error::PeerFailure;
use crate::raw::RequestId;
use crate::settings::FabricUse;
use crate::{Address, Error, Peer};

/// The longest record.
const LONGEST: usize = 1 << 20;
/// More of a record than has to be there before its beginning is believed.
const FIRST: usize = 4 << 10;

/// A peer that speaks by a bare socket.
struct Raw {
    stream: TcpStream,
    /// Its number at the endpoint.
    number: u32,
}

impl Raw {
    /// Greets as an endpoint would, and is let in.
    fn let_in(engine: &mut Engine) -> Self {
        let mut stream = call(engine);
        let to = engine.cx.identity.address;
        let own = Address::generate().expect("random");
        let hello = greeting::hello(&own);
        let mut said = b"lmtcp\x01\0\0".to_vec();
        for word in [to.id, to.secret, own.id, own.secret] {
            said.extend(word.to_le_bytes());
        }
        said.extend(1_u32.to_le_bytes());
        said.extend((hello.len() as u16).to_le_bytes());
        said.extend([0; 2]);
        said.extend(hello);
        stream.write_all(&said).expect("it listens");
        let before = engine.cx.peers.len();
        until(engine, |engine| engine.cx.peers.len() > before);
        let mut answer = [0; 32];
        stream.read_exact(&mut answer).expect("an answer");
        let hello = u16::from_le_bytes([answer[28], answer[29]]);
        let mut hello = vec![0; usize::from(hello)];
        stream.read_exact(&mut hello).expect("a hello");
        Self {
            stream,
            number: before,
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("there is room");
    }

    /// The header of a record, which need not be true.
    fn head(&mut self, kind: u8, tag: u64, len: usize) {
        let mut head = [0; 16];
        head[..4].copy_from_slice(&(len as u32).to_le_bytes());
        head[4] = kind;
        head[8..].copy_from_slice(&tag.to_le_bytes());
        self.say(&head);
    }

    fn words(&mut self, kind: u8, tag: u64, words: &[u64]) {
        self.head(kind, tag, size_of_val(words));
        for word in words {
            self.say(&word.to_le_bytes());
        }
    }

    /// An offer of `len` bytes.
    fn offer(&mut self, tag: u64, len: u64) {
        let offer = Offer {
            len,
            send: 1,
            ..Offer::default()
        };
        self.words(frame::READY_TO_SEND, tag, &offer.encode());
    }

    /// The words of the next control record of this kind, other records aside.
    fn hear(&mut self, engine: &mut Engine, kind: u8) -> Vec<u64> {
        self.stream.set_nonblocking(true).expect("a mode");
        let mut bytes = Vec::new();
        let found = loop {
            assert!(bytes.len() < LONGEST, "it is not said");
            let wanted = record_of(&bytes).map_or(16, |(_, len)| 16 + len);
            until(engine, |_| {
                let mut more = vec![0; wanted - bytes.len()];
                let got = self.stream.read(&mut more).unwrap_or(0);
                bytes.extend(&more[..got]);
                bytes.len() == wanted
            });
            match record_of(&bytes) {
                Some((_, len)) if bytes.len() < 16 + len => {}
                Some((other, _)) if other == kind => break bytes[16..].to_vec(),
                _ => bytes.clear(),
            }
        };
        self.stream.set_nonblocking(false).expect("a mode");
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight"));
        found.chunks_exact(8).map(word).collect()
    }
}

/// Kind and length of a record that begins with these bytes.
fn record_of(bytes: &[u8]) -> Option<(u8, usize)> {
    let [a, b, c, d, kind, ..] = *bytes.first_chunk::<16>()?;
    Some((kind, u32::from_le_bytes([a, b, c, d]) as usize))
}

#[track_caller]
fn until(engine: &mut Engine, mut done: impl FnMut(&mut Engine) -> bool) {
    super::until(&mut [engine], |engines| done(engines[0]));
}

/// An endpoint, and a peer of it.
fn met() -> (Engine, Raw) {
    let mut engine = listening(FabricUse::TcpOnly);
    let raw = Raw::let_in(&mut engine);
    (engine, raw)
}

/// A receive from a peer with so much room, which lasts as long as the test.
fn post_receive(engine: &mut Engine, from: u32, room: usize) -> (RequestId, &'static [u8]) {
    let room: &'static mut [u8] = vec![0; room].leak();
    let bytes: *const [u8] = room;
    // SAFETY: the room is there for ever, and nobody writes there but the receive.
    let posted = unsafe { super::post_receive(engine, (Peer(from), 5), room) };
    // SAFETY: it is read when the receive is over.
    (pending(posted), unsafe { &*bytes })
}

#[track_caller]
fn why_gone(engine: &mut Engine, number: u32) -> PeerFailure {
    until(engine, |engine| !engine.cx.peers.is_alive(number));
    let peer = engine.cx.peers.get(number).expect("known");
    peer.failure().expect("gone").clone()
}

/// An honest peer is served.
fn still_serves(engine: &mut Engine) {
    let mut honest = listening(FabricUse::TcpOnly);
    let there = known(&mut honest, engine);
    let here = known(engine, &honest);
    super::until(&mut [engine, &mut honest], |engines| {
        engines[1].attach(there) == Ok(true) && engines[0].cx.peers.is_alive(here)
    });
    send(&mut honest, there, 77);
    super::until(&mut [engine, &mut honest], |engines| {
        tags(engines[0], here) == [77]
    });
}

/// Bytes kept, and room for more, of the one unexpected message that has come in part.
fn kept(engine: &mut Engine) -> Option<(usize, usize)> {
    let store = engine.cx.matching.store();
    let partial = |body: &UnexpectedBody| matches!(body, UnexpectedBody::Partial(_));
    let token = *store
        .find(false, |message| partial(&message.body))
        .first()?;
    let bytes = store.partial(token)?;
    Some((bytes.len(), bytes.capacity()))
}

#[test]
fn a_header_of_more_bytes_than_come_takes_no_room_for_them() {
    let (mut engine, mut raw) = met();
    raw.head(frame::EAGER, 5, LONGEST);
    raw.say(&[7; FIRST]);
    until(&mut engine, |engine| {
        kept(engine).is_some_and(|(len, _)| len == FIRST)
    });
    raw.say(&[7; 1]);
    until(&mut engine, |engine| {
        kept(engine).is_some_and(|(len, _)| len == FIRST + 1)
    });
    let (_, room) = kept(&mut engine).expect("it is kept");
    assert!(room <= LONGEST / 8, "{room} bytes for {FIRST}");
    still_serves(&mut engine);
    drop(raw.stream);
    assert_eq!(why_gone(&mut engine, raw.number), PeerFailure::Died);
    assert_eq!(kept(&mut engine), None);
}

#[test]
fn a_record_that_is_cut_off_is_no_message() {
    let (mut engine, mut raw) = met();
    let (receive, _) = post_receive(&mut engine, raw.number, LONGEST);
    raw.head(frame::EAGER, 5, LONGEST);
    raw.say(&[7; LONGEST / 2]);
    still_serves(&mut engine);
    assert!(!engine.cx.requests.is_over(receive));
    drop(raw.stream);
    assert_eq!(why_gone(&mut engine, raw.number), PeerFailure::Died);
    let outcome = engine.wait(receive);
    assert!(
        matches!(outcome, Err(Error::PeerFailed { .. })),
        "{outcome:?}"
    );
}

/// What looks like a record is bytes of the message, and what follows the message is a record.
#[test]
fn a_record_within_a_record_is_none() {
    let (mut engine, mut raw) = met();
    let (receive, bytes) = post_receive(&mut engine, raw.number, LONGEST);
    let mut inner = vec![0; LONGEST];
    for at in (0..LONGEST).step_by(32) {
        inner[at..at + 4].copy_from_slice(&16_u32.to_le_bytes());
        (inner[at + 4], inner[at + 8]) = (frame::EAGER, 6);
    }
    raw.head(frame::EAGER, 5, LONGEST);
    let mut stream = raw.stream.try_clone().expect("a descriptor");
    let body = inner.clone();
    let writer = std::thread::spawn(move || stream.write_all(&body));
    until(&mut engine, |engine| engine.cx.requests.is_over(receive));
    writer.join().expect("no panic").expect("it reads");
    assert!(engine.wait(receive).is_ok());
    assert!(bytes == inner, "other bytes");
    raw.words(frame::EAGER, 8, &[1]);
    let mut came = Vec::new();
    until(&mut engine, |engine| {
        came.extend(tags(engine, raw.number));
        !came.is_empty()
    });
    assert_eq!(came, [8]);
}

/// A fragment of `len` bytes for byte `at` of a receive of 2 MiB.
fn fragment(at: u64, len: usize) -> PeerFailure {
    let (mut engine, mut raw) = met();
    let whole = 2 * LONGEST;
    let (receive, _) = post_receive(&mut engine, raw.number, whole);
    raw.offer(5, whole as u64);
    let clear = raw.hear(&mut engine, frame::CLEAR_TO_SEND);
    assert_eq!(clear[..2], [1, receive.0]);
    raw.head(frame::FRAGMENT_INLINE, receive.0, 8 + len);
    raw.say(&at.to_le_bytes());
    raw.say(&[7; FIRST]);
    let why = why_gone(&mut engine, raw.number);
    assert!(engine.cx.requests.is_over(receive));
    still_serves(&mut engine);
    why
}

#[test]
fn a_fragment_beyond_its_receive_ends_the_connection() {
    let whole = 2 * LONGEST as u64;
    let long = LONGEST - 8;
    for at in [
        u64::MAX,
        u64::MAX - long as u64,
        whole,
        whole - long as u64 + 1,
    ] {
        let why = fragment(at, long);
        assert!(matches!(why, PeerFailure::Corrupt(_)), "{at}: {why:?}");
    }
}

#[test]
fn a_record_longer_than_any_ends_the_connection() {
    for len in [LONGEST + 1, u32::MAX as usize] {
        let (mut engine, mut raw) = met();
        raw.head(frame::EAGER, 5, len);
        raw.say(&[7; FIRST]);
        let why = why_gone(&mut engine, raw.number);
        assert!(matches!(why, PeerFailure::Corrupt(_)), "{why:?}");
        still_serves(&mut engine);
    }
}

/// The sender would go on for ever with a record of which nobody has the rest.
#[test]
fn a_message_is_not_received_in_the_middle_of_a_record() {
    let (mut engine, mut raw) = met();
    let data: &'static [u8] = vec![7; 64 * LONGEST].leak();
    // SAFETY: the data stays for ever.
    pending(unsafe { post(&mut engine, raw.number, 5, data) });
    let offer = raw.hear(&mut engine, frame::READY_TO_SEND);
    let clear = ClearToSend {
        send: offer[0],
        receive: 1,
        start: 0,
        end: data.len() as u64,
        next: Next::Usual,
    };
    raw.words(
        clear.encode().kind,
        clear.encode().tag,
        clear.encode().words(),
    );
    // It reads nothing, so that the socket is full.
    let mut packets = u64::MAX;
    until(&mut engine, |engine| {
        let counted = engine
            .counters()
            .event(crate::counters::Event::NetworkPackets);
        counted > 1 && core::mem::replace(&mut packets, counted) == counted
    });
    let done = Done::Received(Path::Network).encode(offer[0]);
    raw.words(done.kind, done.tag, done.words());
    let why = why_gone(&mut engine, raw.number);
    assert!(matches!(why, PeerFailure::Corrupt(_)), "{why:?}");
    still_serves(&mut engine);
}

/// Nobody can make a receive of its own out of another peer's message.
#[test]
fn a_long_record_for_the_receive_of_another_peer_ends_the_connection() {
    let (mut engine, mut raw) = met();
    let mut other = Raw::let_in(&mut engine);
    let (receive, bytes) = post_receive(&mut engine, other.number, LONGEST);
    other.offer(5, LONGEST as u64);
    other.hear(&mut engine, frame::CLEAR_TO_SEND);
    raw.head(frame::FRAGMENT_INLINE, receive.0, 8 + LONGEST / 2);
    raw.say(&0_u64.to_le_bytes());
    raw.say(&[9; FIRST]);
    let why = why_gone(&mut engine, raw.number);
    assert!(matches!(why, PeerFailure::Corrupt(_)), "{why:?}");
    assert!(!engine.cx.requests.is_over(receive));
    assert!(bytes.iter().all(|byte| *byte == 0));
}
