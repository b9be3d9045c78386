//! Peers that break the rules, between endpoints of one thread: the others go on.

use core::time::Duration;
use std::os::fd::AsFd;
use std::time::Instant;

use limic_records::{self as frame, ControlRecord};
use limic_shm::bytes::ReceiveBuffer;
use limic_shm::control::{Sent, Socket};
use limic_shm::owner::split::SplitTerms;

use super::{
    accessed_region, attach_both, claimer, failed, known, met, open, pending, post_receive, send,
    start_revoke, tags, thread_time, turn, turns, until,
};
use crate::counters::Event;
use crate::engine::Engine;
use crate::engine::contact::{arenas, connections};
use crate::engine::envelope::Envelope;
use crate::engine::outbox;
use crate::engine::peer::greeting;
use crate::engine::protocol::regions;
use crate::engine::request::operation::{Receiving, SplitRead};
use crate::engine::request::{Incoming, Operation, ReceiveStage};
use crate::error::PeerFailure;
use crate::raw::RequestId;
use crate::{Error, Peer, Selector};

#[test]
fn a_claim_that_a_living_peer_did_not_make_holds_nobody_up() {
    let (mut receiver, mut named, mut sender) = (open(0), open(0), open(0));
    let (of_named, _) = attach_both(&mut receiver, &mut named);
    let (of_sender, at_sender) = attach_both(&mut receiver, &mut sender);
    let mut forger = claimer(&receiver, of_named);
    core::mem::forget(forger.reserve(0).expect("room"));
    send(&mut sender, at_sender, 5);
    until(&mut [&mut receiver, &mut named, &mut sender], |engines| {
        !tags(engines[0], of_sender).is_empty()
    });
    assert!(receiver.cx.peers.is_alive(of_named));
}

#[test]
fn a_claim_in_the_name_of_its_receiver_holds_nobody_up() {
    let (mut receiver, mut sender, of_sender, at_sender) = met(0);
    let own = receiver.myself().0;
    let mut forger = claimer(&receiver, own);
    core::mem::forget(forger.reserve(0).expect("room"));
    send(&mut sender, at_sender, 5);
    // Soon, and not when it is so old that any claim would be given up.
    turns(100, &mut [&mut receiver, &mut sender]);
    assert_eq!(tags(&mut receiver, of_sender), [5]);
}

#[test]
fn a_claim_that_a_peer_makes_after_it_denied_another_one_is_waited_for() {
    let (mut receiver, mut sender, of_sender, _) = met(0);
    let mut claims = claimer(&receiver, of_sender);
    core::mem::forget(claims.reserve(0).expect("a forged one"));
    // It denies the first one; meanwhile it is preempted behind its next claim.
    let held = claims.reserve(0).expect("room");
    until(&mut [&mut receiver, &mut sender], |engines| {
        engines[0].cx.peers.questions(of_sender).answered > 0
    });
    turns(10, &mut [&mut receiver]);
    held.publish(frame::EAGER, 6);
    until(&mut [&mut receiver, &mut sender], |engines| {
        tags(engines[0], of_sender) == [6]
    });
}

#[test]
fn a_region_comes_back_though_a_peer_that_does_nothing_says_that_it_accesses_it() {
    let (mut owner, mut peer) = (open(1), open(1));
    attach_both(&mut owner, &mut peer);
    let (region, _) = accessed_region(&mut owner, &peer);
    start_revoke(&mut owner, region).expect("a region");
    let mut memory = None;
    until(&mut [&mut owner, &mut peer], |engines| {
        memory = regions::revoked(&mut engines[0].cx, region).expect("a region");
        memory.is_some()
    });
    assert_eq!(memory, Some(vec![1; 100]));
}

#[test]
fn a_region_that_a_stopped_peer_accesses_is_given_up() {
    let (mut owner, peer, of_peer, _) = met(1);
    let (region, _) = accessed_region(&mut owner, &peer);
    let in_use = Error::RegionInUse {
        peer: Peer(of_peer),
    };
    // The peer has no turn.
    assert_eq!(owner.revoke(region), Err(in_use));
}

/// A receive for which the peer seems to be in the middle of a write.
fn being_written(owner: &mut Engine, peer: &mut Engine, (of_peer, of_owner): (u32, u32)) -> u32 {
    let terms = SplitTerms {
        sender: of_peer,
        send: 7,
        receive: 7,
        bytes: 1 << 20,
        address: 0,
        block: 1 << 17,
    };
    let (line, serial) = owner.cx.transfers.splits.open(&terms).expect("a line");
    let splits = &mut peer.cx.transfers.splits;
    let written = splits.take_out(RequestId(7), of_owner, serial, |_| false);
    splits.outgoing.claim(written.expect("a line"), 1);
    let incoming = Incoming::new(Envelope::new(of_peer, 0), 1 << 20, 1 << 20);
    let stage = ReceiveStage::SplitRead(incoming, SplitRead::new(line, serial, 1 << 20, 1 << 17));
    // SAFETY: no room.
    let into = unsafe { ReceiveBuffer::new(&[]) };
    let receive = Operation::Receive(Receiving { into, stage });
    owner.cx.requests.insert(receive)
}

/// A forked child of the peer can say each of these over the socket that it has inherited.
#[test]
fn a_buffer_is_kept_while_its_sender_writes_there_whatever_came_over_the_socket() {
    // A message in no version, and one that is too long.
    let welcome = u64::from(greeting::WELCOME).to_le_bytes();
    let refusal = greeting::REFUSAL.to_le_bytes();
    let goodbye = greeting::GOODBYE.to_le_bytes();
    for said in [&welcome[..], &refusal, &goodbye, &[9; 5000]] {
        let (mut owner, mut sender) = (open(1), open(1));
        let numbers = attach_both(&mut owner, &mut sender);
        let slot = being_written(&mut owner, &mut sender, numbers);
        let connection = sender.cx.sockets.iter().next().expect("a connection");
        let flags = rustix::net::SendFlags::DONTWAIT;
        rustix::net::send(connection.socket.as_fd(), said, flags).expect("sent");
        until(&mut [&mut owner], |engines| {
            !engines[0].cx.peers.is_alive(numbers.0)
        });
        turns(10, &mut [&mut owner]);
        assert!(owner.cx.requests.take_done(slot).is_none(), "{said:?}");
        let copies = &sender.cx.transfers.splits.outgoing;
        copies.done(0, 1);
        until(&mut [&mut owner], |engines| {
            matches!(engines[0].cx.requests.take_done(slot), Some(Err(_)))
        });
    }
}

#[test]
fn records_that_make_no_sense_are_counted_and_their_peer_fails_once() {
    let (mut receiver, mut flooding, of_flooding, at_flooding) = met(0);
    for _ in 0..20 {
        outbox::control(
            &mut flooding.cx,
            at_flooding,
            ControlRecord::new(100, 0, [0; 4]),
        );
    }
    until(&mut [&mut receiver], |engines| {
        !engines[0].cx.peers.is_alive(of_flooding)
    });
    let counters = receiver.cx.counters.page().counters;
    let counts = [Event::Violations, Event::PeersFailed].map(|event| counters.event(event));
    assert_eq!(counts, [20, 1]);
    // Those with a path are of the machine.
    let reasons = counters.reasons.iter();
    let of_records = reasons.filter(|reason| reason.path.is_none()).count();
    assert_eq!(of_records, 1, "{:?}", counters.reasons);
}

#[test]
fn a_flood_of_connections_leaves_turns_to_others() {
    let mut engine = open(0);
    let id = engine.cx.identity.address.id;
    let flood: Vec<Socket> = (0..60)
        .map(|_| Socket::connect(id).expect("connected"))
        .collect();
    engine.poll_sockets();
    let accepted = engine.cx.sockets.ungreeted().len();
    assert!((1..=16).contains(&accepted), "{accepted} in one visit");
    drop(flood);
    until(&mut [&mut engine], |engines| {
        engines[0].cx.sockets.iter().next().is_none()
    });
}

#[test]
fn a_flood_of_messages_leaves_turns_to_others() {
    let (mut engine, flooding, of_flooding, _) = met(0);
    let connection = flooding.cx.sockets.iter().next().expect("a connection");
    for _ in 0..100 {
        let _ = connection.socket.send(&[99; 4], &[]).expect("sent");
    }
    connections::poll(&mut engine.cx, Some(Duration::ZERO));
    assert!(engine.cx.sockets.has_news(of_flooding), "all in one visit");
    until(&mut [&mut engine], |engines| {
        !engines[0].cx.sockets.has_news(of_flooding)
    });
}

/// A message names an arena that was never sent, while a third floods its own socket.
#[test]
fn a_flood_of_messages_is_not_read_to_find_an_arena_of_another_peer() {
    let (mut engine, mut flooding, mut sender) = (open(0), open(0), open(0));
    let (of_flooding, _) = attach_both(&mut engine, &mut flooding);
    let (of_sender, _) = attach_both(&mut engine, &mut sender);
    let connection = flooding.cx.sockets.iter().next().expect("a connection");
    for _ in 0..100 {
        let _ = connection.socket.send(&[99; 4], &[]).expect("sent");
    }
    arenas::fetch(&mut engine.cx, of_sender, 5);
    assert!(engine.cx.sockets.has_news(of_flooding), "all were read");
}

#[test]
fn an_endpoint_rests_from_a_flood_over_its_sockets_and_hears_its_bell() {
    /// No rest is as long.
    const LONG: Duration = Duration::from_millis(8);
    let (mut engine, flooding, of_flooding, _) = met(0);
    for _ in 0..100 {
        let second_ago = Instant::now().checked_sub(Duration::from_secs(1));
        engine.cx.sockets.end_visit(second_ago.expect("a time"));
    }
    let connection = flooding.cx.sockets.iter().next().expect("a connection");
    let _ = connection.socket.send(&[99; 4], &[]).expect("sent");
    let since = Instant::now();
    connections::poll(&mut engine.cx, Some(Duration::ZERO));
    let rests = engine.cx.sockets.has_news(of_flooding);
    assert!(rests || since.elapsed() > LONG, "a visit");
    engine.cx.sockets.doorbell().ring();
    let woken = connections::poll(&mut engine.cx, Some(Duration::from_secs(60)));
    assert!(woken, "the bell is not heard");
    until(&mut [&mut engine], |engines| {
        !engines[0].cx.sockets.has_news(of_flooding)
    });
}

#[test]
fn one_identity_has_few_connections() {
    let (mut engine, mut greedy, of_greedy, of_engine) = met(0);
    let hello =
        crate::engine::contact::handshake::greeting(&mut greedy.cx, greeting::HELLO, of_engine);
    let held: Vec<_> = (0..40)
        .map(|_| greet(&mut engine, &greedy, &hello))
        .collect();
    assert!(engine.cx.sockets.of_peer(of_greedy).len() <= 4);
    assert!(
        engine.cx.peers.is_alive(of_greedy),
        "those are refused, no more"
    );
    drop(held);
}

/// The end of one is a reason to read the others, which have ended too.
#[test]
fn connections_of_a_peer_that_end_at_once_end_it() {
    let (mut engine, mut greedy, of_greedy, of_engine) = met(0);
    let hello =
        crate::engine::contact::handshake::greeting(&mut greedy.cx, greeting::HELLO, of_engine);
    let held: Vec<_> = (0..8)
        .map(|_| greet(&mut engine, &greedy, &hello))
        .collect();
    assert!(engine.cx.sockets.of_peer(of_greedy).len() > 1);
    for socket in &held {
        // What breaks the rules is a reason, too.
        while let Ok(Sent::Done) = socket.send(&[99; 4], &[]) {}
    }
    drop((held, greedy));
    until(&mut [&mut engine], |engines| {
        !engines[0].cx.peers.is_alive(of_greedy)
    });
    assert!(engine.cx.sockets.of_peer(of_greedy).is_empty());
}

/// A connection over which a hello has come.
fn greet(engine: &mut Engine, peer: &Engine, hello: &greeting::Greeting) -> Socket {
    let socket = Socket::connect(engine.cx.identity.address.id).expect("connected");
    let [shared, owner] = peer.cx.memory.segment.fds();
    let fds = [shared, owner, peer.cx.sockets.doorbell().for_peers()];
    let _ = socket.send(&hello.encode(), &fds).expect("sent");
    turn(&mut [engine]);
    socket
}

/// A process may open and close endpoints as often as it likes.
#[test]
fn endpoints_that_have_closed_do_not_count_for_their_process() {
    let mut engine = open(0);
    let pid = std::process::id() as i32;
    for _ in 0..3 {
        let mut closing = open(0);
        let of_engine = known(&mut closing, &engine);
        assert_eq!(closing.attach(of_engine), Ok(false));
        until(&mut [&mut engine], |engines| {
            engines[0].cx.peers.contacts.by(pid) == 1
        });
        closing.close();
        until(&mut [&mut engine], |engines| {
            engines[0].cx.peers.contacts.by(pid) == 0
        });
    }
}

#[test]
fn one_process_invents_no_endless_row_of_peers() {
    let (mut engine, mut greedy, _, of_engine) = met(0);
    let mut hello =
        crate::engine::contact::handshake::greeting(&mut greedy.cx, greeting::HELLO, of_engine);
    let mut known = engine.cx.peers.len();
    loop {
        hello.address.id = hello.address.id.wrapping_add(1);
        let socket = greet(&mut engine, &greedy, &hello);
        drop(socket);
        // Longer than it rests from its sockets, also if the machine took its processor meanwhile.
        let since = Instant::now();
        while engine.cx.peers.len() == known && since.elapsed() < Duration::from_secs(2) {
            turn(&mut [&mut engine]);
        }
        if engine.cx.peers.len() == known {
            break;
        }
        known = engine.cx.peers.len();
        assert!(known < 10_000, "each of them is entered");
    }
    assert!(known > 1000, "a process may have many endpoints: {known}");
}

/// Numbers of peers are not given out again.
#[test]
fn a_sleep_takes_no_longer_the_more_peers_are_gone() {
    const FEW: u32 = 5000;
    const MANY: u32 = 200_000;
    let mut engine = open(0);
    let mut address = engine.cx.identity.address;
    // SAFETY: no room.
    pending(unsafe { post_receive(&mut engine, Selector::any(), &mut []) });
    let [few, many] = [FEW, MANY].map(|count| {
        while engine.cx.peers.len() < count {
            address.id = address.id.wrapping_add(1);
            let peer = engine.cx.peers.enter(&address, &engine.cx.identity.address);
            let gone = engine.cx.peers.fail(peer.expect("new"), PeerFailure::Died);
            assert!(gone.is_some());
        }
        let sleeps = (0..200).map(|_| {
            let since = thread_time();
            engine.sleep(Some(Duration::ZERO));
            thread_time() - since
        });
        sleeps.min().expect("a sleep")
    });
    // A look at each would take forty times as long; colder caches take some of it.
    assert!(
        many < few * 20,
        "{many:?} after {MANY}, {few:?} after {FEW}"
    );
}

#[test]
fn a_peer_that_died_before_it_was_accepted_is_dead_though_its_child_holds_the_socket() {
    let mut left = open(0);
    let address = left.cx.identity.address.to_bytes();
    let (ends, held) = std::io::pipe().expect("a pipe");
    // SAFETY: both children use what they open themselves, and end without a destructor.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(held);
        let mut greeting = open(0);
        let peer = greeting.connect(&address);
        let met = peer.is_ok_and(|peer| greeting.attach(peer.0).is_ok());
        // SAFETY: as above.
        if unsafe { libc::fork() } == 0 {
            // Until the test has ended.
            let _ = std::io::Read::read(&mut &ends, &mut [0]);
        }
        // SAFETY: ends the process, and nothing of the test.
        unsafe { libc::_exit(i32::from(!met)) };
    }
    assert!(child > 0, "fork");
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child greeted");
    until(&mut [&mut left], |engines| engines[0].cx.peers.len() > 0);
    until(&mut [&mut left], |engines| !engines[0].cx.peers.is_alive(0));
    let died = Err(failed(0, PeerFailure::Died));
    assert_eq!(left.attach(0), died);
    drop(held);
    let _ = known(&mut open(0), &left);
}
