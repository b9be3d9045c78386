//! First contacts beyond what one process may make, and bytes of any kind in place of a greeting:
//! an endpoint that was greeted publishes a record, so that its own greeting is read.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use limic_records as frame;
use limic_shm::control::{MAX_MESSAGE, Received, Socket};

use super::{OnEvent, claimer, known, met, open, send, tags, turn, until, wait_for};
use crate::engine::Engine;
use crate::engine::contact::handshake;
use crate::engine::peer::greeting::{self, Greeting};
use crate::error::PeerFailure;

/// More messages than are read to find a greeting.
const MANY: usize = 20_000;

/// An endpoint that was greeted, and does nothing by itself.
struct Greeted {
    own: Engine,
    /// Its number at the endpoint that has greeted it.
    number: u32,
    /// Its end of the connection.
    socket: Socket,
    /// What it should say.
    welcome: Vec<u8>,
}

impl Greeted {
    /// One that an endpoint greets.
    fn by(engine: &mut Engine) -> Self {
        let mut own = open(0);
        let number = known(engine, &own);
        assert_eq!(engine.attach(number), Ok(false));
        let mut socket = None;
        wait_for(|| {
            socket = own.cx.sockets.accept();
            socket.is_some()
        });
        let socket = socket.expect("a connection");
        let mut buffer = [0; MAX_MESSAGE];
        let Ok(Received::Message { len, .. }) = socket.receive(&mut buffer) else {
            panic!("no greeting has come");
        };
        let hello = Greeting::decode(&buffer[..len]).expect("a greeting");
        assert_eq!((hello.kind, hello.number), (greeting::HELLO, number));
        let of_engine = known(&mut own, engine);
        let welcome = handshake::greeting(&mut own.cx, greeting::WELCOME, of_engine).encode();
        Self {
            own,
            number,
            socket,
            welcome,
        }
    }

    fn fds(&self) -> [BorrowedFd<'_>; 3] {
        let [shared, owner] = self.own.cx.memory.segment.fds();
        [shared, owner, self.own.cx.sockets.doorbell().for_peers()]
    }

    fn say(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let _ = self.socket.send(bytes, fds).expect("sent");
    }

    /// Publishes an empty message, which is looked at before any socket.
    fn publish(&self, engine: &mut Engine, tag: u64) {
        let mut claims = claimer(engine, self.number);
        claims.reserve(0).expect("room").publish(frame::EAGER, tag);
        engine.progress();
    }
}

/// Why a peer has failed, if it has not been met.
fn not_met(engine: &mut Engine, peer: u32) -> Option<String> {
    match engine.cx.peers.get(peer).and_then(|peer| peer.failure()) {
        Some(PeerFailure::NotMet(why)) => Some(why.clone()),
        _ => None,
    }
}

/// Where a process may have few descriptors, it can hold fewer.
#[test]
fn a_process_makes_the_first_contact_for_4096_endpoints_at_a_time() {
    let (mut engine, mut other) = (open(0), open(0));
    let of_engine = known(&mut other, &engine);
    let process = std::process::id() as i32;
    // As if it had met this one with others.
    let contacts = &mut engine.cx.peers.contacts;
    (1..=4096).for_each(|peer| contacts.count(peer, process));
    let mut met = Ok(false);
    until(&mut [&mut engine, &mut other], |engines| {
        met = engines[1].attach(of_engine);
        met != Ok(false)
    });
    let why = met.expect_err("one too many").to_string();
    assert!(why.contains("too many endpoints"), "{why}");
}

#[test]
fn a_record_that_is_read_before_its_senders_greeting_is_delivered() {
    let mut engine = open(0);
    let peer = Greeted::by(&mut engine);
    peer.say(&peer.welcome, &peer.fds());
    peer.publish(&mut engine, 5);
    assert_eq!(tags(&mut engine, peer.number), [5]);
}

#[test]
fn bytes_that_are_no_greeting_fail_their_sender_and_hold_nobody_up() {
    let (mut engine, mut honest, of_honest, at_honest) = met(0);
    let len = Greeted::by(&mut engine).welcome.len();
    // From the second word on: without the first one it is another kind of message.
    let shorter = (4..len).map(|len| (len, None));
    let version = (4..8).map(|at| (len, Some(at)));
    for (len, changed) in shorter.chain(version).chain([(len + 1, None)]) {
        let hostile = Greeted::by(&mut engine);
        let mut bytes = hostile.welcome.clone();
        bytes.resize(len, 0);
        if let Some(at) = changed {
            bytes[at] ^= 0xff;
        }
        hostile.say(&bytes, &hostile.fds());
        hostile.publish(&mut engine, 5);
        let why = not_met(&mut engine, hostile.number);
        assert!(why.is_some(), "{len} bytes, {changed:?} changed");
        assert!(tags(&mut engine, hostile.number).is_empty());
        send(&mut honest, at_honest, 6);
        until(&mut [&mut engine], |engines| {
            tags(engines[0], of_honest) == [6]
        });
    }
}

#[test]
fn a_greeting_with_a_word_of_any_value_harms_nobody_else() {
    let (mut engine, mut honest, of_honest, at_honest) = met(0);
    let len = Greeted::by(&mut engine).welcome.len();
    for at in (0..len).step_by(4) {
        for word in [0, u32::MAX] {
            let hostile = Greeted::by(&mut engine);
            let mut bytes = hostile.welcome.clone();
            bytes[at..len.min(at + 4)].fill(word as u8);
            hostile.say(&bytes, &hostile.fds());
            hostile.publish(&mut engine, 5);
            // If the two have met, this goes by what the greeting said.
            if engine.cx.peers.pair(hostile.number).is_some() {
                send(&mut engine, hostile.number, 7);
            }
            turn(&mut [&mut engine]);
            send(&mut honest, at_honest, 6);
            until(&mut [&mut engine], |engines| {
                tags(engines[0], of_honest) == [6]
            });
        }
    }
}

#[test]
fn a_greeting_with_other_descriptors_fails_its_sender() {
    let mut engine = open(0);
    let (empty, _) = std::io::pipe().expect("a pipe");
    // Numbers of the right ones; 3 is one of another kind.
    for order in [
        &[][..],
        &[0],
        &[0, 1],
        &[0, 1, 2, 2],
        &[1, 0, 2],
        &[0, 0, 2],
        &[3, 1, 2],
        &[0, 3, 2],
        &[0, 1, 3],
    ] {
        let hostile = Greeted::by(&mut engine);
        let [shared, owner, bell] = hostile.fds();
        let all = [shared, owner, bell, empty.as_fd()];
        let fds: Vec<_> = order.iter().map(|number| all[*number]).collect();
        hostile.say(&hostile.welcome, &fds);
        hostile.publish(&mut engine, 5);
        assert!(!engine.cx.peers.is_alive(hostile.number), "{order:?}");
        assert!(tags(&mut engine, hostile.number).is_empty());
    }
}

#[test]
fn a_peer_that_says_other_things_all_the_time_and_no_greeting_fails() {
    let (mut engine, mut honest, of_honest, at_honest) = met(0);
    let hostile = Greeted::by(&mut engine);
    hostile.say(&[99; 4], &[]);
    let said = AtomicUsize::new(0);
    // One more for each that was read, which the log tells.
    let goes_on = OnEvent(move |_: &tracing::Event<'_>| {
        if said.fetch_add(1, Ordering::Relaxed) < MANY {
            let _ = hostile.socket.send(&[99; 4], &[]);
        }
    });
    let mut claims = claimer(&engine, hostile.number);
    claims.reserve(0).expect("room").publish(frame::EAGER, 5);
    tracing::subscriber::with_default(goes_on, || {
        engine.progress();
        let why = not_met(&mut engine, hostile.number);
        assert!(why.is_some_and(|why| why.contains("no greeting")));
    });
    send(&mut honest, at_honest, 6);
    until(&mut [&mut engine], |engines| {
        tags(engines[0], of_honest) == [6]
    });
}
