//! An endpoint and the networks that it listens at.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use limic_fabric::{Network, Part};
use limic_policy::Path;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    Log, PATIENCE, attach_both, known, meet, open, open_with, pending, post, post_receive, send,
    tags, turn, until, wait_for,
};
use crate::counters::Event;
use crate::engine::Engine;
use crate::engine::peer::sockets::TIMER;
use crate::error::PeerFailure;
use crate::raw::Posted;
use crate::settings::FabricUse;
use crate::{Address, Error, Peer, Selector};

/// An endpoint that listens at the loopback.
pub(super) fn listening(used: FabricUse) -> Engine {
    open_with(|settings| settings.fabric(used).tcp_interface("127.0.0.1"))
}

/// Somebody who has found the port calls, and has said nothing yet.
pub(super) fn call(engine: &Engine) -> TcpStream {
    let part = engine.cx.identity.address.fabric.find(Network::Tcp);
    let part = part.expect("a place");
    let [a, b, c, d, high, low] = *part.place() else {
        panic!("an address of IPv4 and a port: {part:?}");
    };
    let at = SocketAddr::new(IpAddr::from([a, b, c, d]), u16::from_be_bytes([high, low]));
    TcpStream::connect(at).expect("it listens")
}

fn refused(engine: &Engine) -> u64 {
    engine.counters().event(Event::Refused)
}

/// Calls without sense, until one is counted.
fn call_in_vain(engine: &mut Engine) {
    let before = refused(engine);
    call(engine).write_all(&[7; 300]).expect("it listens");
    while refused(engine) == before {
        engine.poll_sockets();
        engine.progress();
    }
}

#[test]
fn a_closed_endpoint_still_says_what_it_counted() {
    let mut engine = listening(FabricUse::Tcp);
    call_in_vain(&mut engine);
    assert_eq!(refused(&engine), 1);
    engine.close();
    assert_eq!(refused(&engine), 1);
}

#[test]
fn a_forked_child_can_ask_for_the_counters() {
    let mut engine = listening(FabricUse::Tcp);
    call_in_vain(&mut engine);
    // What the engine does in a child.
    engine.leave_to_parent();
    assert_eq!(refused(&engine), 1);
}

#[test]
fn a_peer_that_reads_nothing_holds_up_no_other_wait() {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let data = vec![7; 1 << 21];
        let (mut one, mut other, of_other, of_one) =
            meet(listening(FabricUse::TcpOnly), listening(FabricUse::TcpOnly));
        let sent = send_more_than_goes(&mut one, of_other, &data);
        let own = one.cx.identity.address.to_bytes();
        let me = one.connect(&own).expect("an address");
        // SAFETY: the data stays longer than the endpoints.
        let id = pending(unsafe { post(&mut one, me.0, 1, &data) });
        one.cancel(id).expect("known");
        assert_eq!(one.wait(id).err(), Some(Error::Cancelled));
        until(&mut [&mut one, &mut other], |engines| {
            u64::from(engines[1].cx.matching.kept()) == sent
        });
        assert!(!one.cx.fabric.holds_messages());
        assert!(tags(&mut other, of_one).into_iter().eq(0..sent));
        tell.send(()).expect("somebody waits");
    });
    told.recv_timeout(PATIENCE)
        .expect("it goes on for too long");
}

/// Sends more than the network takes now, so that some of it is kept; gives how many messages.
fn send_more_than_goes(from: &mut Engine, to: u32, data: &[u8]) -> u64 {
    let mut sent = 0;
    while !from.cx.fabric.holds_messages() {
        // SAFETY: the callers' data stays longer than the endpoint.
        let posted = unsafe { post(from, to, sent, &data[..4096]) };
        assert!(matches!(posted, Posted::Done(Ok(_))), "{posted:?}");
        sent += 1;
    }
    sent
}

#[test]
fn the_time_that_one_peer_had_to_make_room_is_not_anothers() {
    let data = vec![7; 4096];
    let [mut one, mut slow, mut other] = [(); 3].map(|()| listening(FabricUse::TcpOnly));
    let (of_slow, _) = attach_both(&mut one, &mut slow);
    let (of_other, _) = attach_both(&mut one, &mut other);
    let sent = send_more_than_goes(&mut one, of_slow, &data);
    one.cx.fabric.gave_time();
    send_more_than_goes(&mut one, of_other, &data);
    until(&mut [&mut one, &mut slow], |engines| {
        u64::from(engines[1].cx.matching.kept()) == sent
    });
    assert!(one.cx.fabric.holds_messages(), "the other has read nothing");
}

#[test]
fn what_came_over_a_network_is_counted_so_though_its_sender_has_gone() {
    let (mut one, mut other, there, here) =
        meet(listening(FabricUse::TcpOnly), listening(FabricUse::TcpOnly));
    (0..3).for_each(|tag| send(&mut one, there, tag));
    one.close();
    until(&mut [&mut other], |engines| {
        engines[0]
            .cx
            .peers
            .get(here)
            .is_some_and(|peer| peer.failure().is_some())
    });
    for _ in 0..3 {
        let mut room = [0; 8];
        // SAFETY: it is done when the call returns, or the test fails.
        let posted = unsafe { post_receive(&mut other, Selector::any_tag(Peer(here)), &mut room) };
        assert!(matches!(posted, Posted::Done(Ok(_))), "{posted:?}");
    }
    let paths = other.counters().received_paths.into_iter();
    let paths: Vec<_> = paths.filter(|(_, traffic)| traffic.messages > 0).collect();
    assert!(
        matches!(paths[..], [(Path::Network, traffic)] if traffic.messages == 3),
        "{paths:?}"
    );
}

#[test]
fn a_peer_over_a_network_counts_once_as_reached() {
    let (mut one, mut other) = (listening(FabricUse::TcpOnly), listening(FabricUse::TcpOnly));
    attach_both(&mut one, &mut other);
    turn(&mut [&mut one, &mut other]);
    assert_eq!((one.cx.peers.reached(), other.cx.peers.reached()), (1, 1));
}

/// Numbers of peers are given out once.
#[test]
fn an_endpoint_that_has_known_too_many_peers_says_so() {
    for used in [FabricUse::Off, FabricUse::TcpOnly] {
        let (mut full, mut late) = (listening(used), listening(used));
        let own = full.cx.identity.address;
        let mut other = own;
        while full.cx.peers.len() < 1 << 18 {
            other.id = other.id.wrapping_add(1);
            full.cx.peers.enter(&other, &own).expect("a new one");
        }
        let of_full = known(&mut late, &full);
        wait_for(|| {
            let met = late.attach(of_full);
            turn(&mut [&mut full, &mut late]);
            met.is_err()
        });
        assert_eq!(refused(&full), 1);
        let reasons = full.cx.counters.page().counters.reasons;
        let wanted = "has known 262144 others";
        assert!(
            reasons.iter().any(|one| one.text.contains(wanted)),
            "{reasons:?}"
        );
        if used == FabricUse::Off {
            let why = late.attach(of_full).map_err(|error| error.to_string());
            assert!(why.is_err_and(|why| why.contains(wanted)));
        }
    }
}

/// Progress calls look at the networks only where there is something: one who is silent is nothing.
#[test]
fn a_silent_caller_does_not_make_peers_in_shared_memory_pay_for_networks() {
    let (mut engine, mut peer, of_peer, at_peer) = meet(listening(FabricUse::Tcp), open(1));
    let mut caller = call(&engine);
    while engine.cx.fabric.longest_sleep().is_none() {
        engine.poll_sockets();
        engine.progress();
    }
    engine.progress();
    assert!(!engine.cx.fabric.looks.is_active());
    for tag in 0..10 {
        send(&mut peer, at_peer, tag);
        engine.progress();
        assert!(!engine.cx.fabric.looks.is_active());
    }
    assert_eq!(tags(&mut engine, of_peer).len(), 10);
    // The silent one is not forgotten: each look at the sockets is one at its time too.
    engine.poll_sockets();
    assert!(engine.cx.fabric.looks.is_active());
    engine.progress();
    assert!(!engine.cx.fabric.looks.is_active());
    caller.write_all(&[7; 300]).expect("it listens");
    while refused(&engine) == 0 {
        engine.poll_sockets();
        engine.progress();
    }
}

/// Two that have met over TCP, and how the first one calls the second.
fn met() -> (Engine, Engine, u32) {
    let (mut a, mut b) = (listening(FabricUse::TcpOnly), listening(FabricUse::TcpOnly));
    let of_b = a.connect(&b.address().to_bytes()).expect("an address");
    wait_for(|| {
        let met = a.attach(of_b.0) == Ok(true) && b.cx.fabric.has_peers();
        if !met {
            a.poll();
            b.poll();
        }
        met
    });
    (a, b, of_b.0)
}

/// Others read the page of counters at any time, while this endpoint computes.
#[test]
fn what_was_sent_stands_in_the_page_of_counters_when_the_call_is_over() {
    let (mut a, mut b, of_b) = met();
    let written = |a: &Engine| a.cx.counters.page().counters.event(Event::NetworkMessages);
    let before = written(&a);
    send(&mut a, of_b, 1);
    assert_eq!(written(&a), before + 1, "one that goes at once");
    let data = vec![7; 20_000];
    // SAFETY: the data stays until the send is over.
    let posted = unsafe { post(&mut a, of_b, 2, &data) };
    assert!(matches!(posted, Posted::Done(Ok(_))), "{posted:?}");
    assert_eq!(written(&a), before + 2, "one that goes in parts");
    wait_for(|| b.poll());
}

/// One thread sleeps on the descriptor, and another one takes what comes meanwhile.
#[test]
fn who_polls_the_descriptor_is_called_though_another_thread_takes_what_comes() {
    let (mut a, mut b, of_b) = met();
    wait_for(|| b.arm_for_poll());
    // Its own look around would make it readable too.
    let (wakeup, events) = (&mut b.cx.wakeup, b.cx.sockets.events());
    let hour = Duration::from_secs(3600);
    wakeup.set_timer(events, TIMER, hour).expect("a timer");
    let readable = |b: &Engine| {
        let descriptor = b.cx.wakeup.poller.descriptor();
        let mut fds = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).expect("poll") > 0
    };
    assert!(!readable(&b), "nothing has happened");
    // So many that a network may take its peer for one that sends all the time.
    for tag in 0..100 {
        send(&mut a, of_b, tag);
        wait_for(|| b.progress());
    }
    send(&mut a, of_b, 100);
    assert!(readable(&b), "it sleeps on");
}

/// A peer of which only the place in the network is known, and somebody listens there.
fn elsewhere() -> (Address, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("a port").port();
    let place = [&[127, 0, 0, 1][..], &port.to_be_bytes()].concat();
    let mut address = Address::generate().expect("random");
    let part = Part::new(Network::Tcp, &place).expect("a place");
    assert!(address.fabric.add(&part));
    (address, listener)
}

/// Why a peer at this address is not reached.
fn failure_at(engine: &mut Engine, address: &Address, mut turn: impl FnMut()) -> PeerFailure {
    let peer = engine.connect(&address.to_bytes()).expect("an address");
    // SAFETY: the data stays for ever.
    let send = pending(unsafe { post(engine, peer.0, 1, &[7; 8]) });
    while engine.cx.peers.alive(peer.0).is_ok() {
        engine.poll_sockets();
        engine.progress();
        turn();
    }
    match engine.wait(send) {
        Err(Error::PeerFailed { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_log_says_why_a_peer_is_not_reached() {
    let mut engine = listening(FabricUse::TcpOnly);
    let (address, listener) = elsewhere();
    drop(listener);
    let log = Log::default();
    let why = tracing::subscriber::with_default(log.writer(), || {
        failure_at(&mut engine, &address, || {})
    });
    assert_eq!(why, PeerFailure::Unreachable);
    assert_eq!(log.count("Connection refused"), 1, "{log:?}");
}

#[test]
fn an_answer_without_sense_is_not_this_sides_fault() {
    let mut engine = listening(FabricUse::TcpOnly);
    let (address, listener) = elsewhere();
    let answers = std::thread::spawn(move || {
        let (mut called, _) = listener.accept().expect("a call");
        called.write_all(&[7; 300]).expect("it waits for an answer");
        called
    });
    let why = failure_at(&mut engine, &address, || {});
    drop(answers.join().expect("no panic"));
    let PeerFailure::NotMet(why) = why else {
        panic!("{why}");
    };
    assert!(why.starts_with("it answers with"), "{why}");
}

/// The other end is a network alone.
mod network_alone {
    use limic_fabric::{Arrivals, Fabric, Parts};
    use limic_tcp::{TcpFabric, TcpSettings};

    use super::*;
    use crate::engine::peer::greeting::{self, PROTOCOL};

    /// A network endpoint that says that it speaks the given version.
    fn stranger(address: &mut Address, version: u32) -> TcpFabric {
        let settings = TcpSettings {
            interface: Some("127.0.0.1".to_owned()),
            ..TcpSettings::default()
        };
        let mut stranger = TcpFabric::open(&settings, address.id, address.secret).expect("tcp");
        address.fabric = Parts::NONE;
        assert!(address.fabric.add(&stranger.part()));
        let mut hello = greeting::hello(address);
        hello[..4].copy_from_slice(&version.to_le_bytes());
        stranger.set_hello(hello);
        stranger
    }

    fn turn(engine: &mut Engine, stranger: &mut TcpFabric) {
        engine.poll_sockets();
        engine.progress();
        stranger.poll(&mut Arrivals::new());
    }

    #[test]
    fn another_version_is_named_as_the_reason_where_it_is_called() {
        let mut engine = listening(FabricUse::TcpOnly);
        let mut address = Address::generate().expect("random");
        let mut stranger = stranger(&mut address, PROTOCOL + 1);
        let why = failure_at(&mut engine, &address, || {
            stranger.poll(&mut Arrivals::new());
        });
        let PeerFailure::NotMet(why) = why else {
            panic!("{why}");
        };
        let theirs = format!("protocol version {}", PROTOCOL + 1);
        assert!(
            why.contains(&theirs) && why.contains("build all ranks"),
            "{why}"
        );
    }

    #[test]
    fn another_version_is_turned_away_where_it_calls() {
        let mut engine = listening(FabricUse::TcpOnly);
        let mut address = Address::generate().expect("random");
        let mut stranger = stranger(&mut address, PROTOCOL + 1);
        let to = engine.cx.identity.address;
        let part = to.fabric.find(Network::Tcp).expect("a place");
        let call = stranger.connect(&part, to.id, to.secret);
        call.expect("a socket");
        while refused(&engine) == 0 {
            turn(&mut engine, &mut stranger);
        }
        let reasons = engine.counters().reasons;
        let version = |text: &str| text.contains("build all ranks with one version");
        assert!(
            reasons.iter().any(|reason| version(&reason.text)),
            "{reasons:?}"
        );
        assert!(!engine.cx.fabric.has_peers());
    }

    #[test]
    fn the_log_says_once_that_a_peer_is_gone_which_comes_and_goes() {
        let log = Log::default();
        let _log = tracing::subscriber::set_default(log.writer());
        let mut engine = listening(FabricUse::TcpOnly);
        let mut stranger = stranger(&mut Address::generate().expect("random"), PROTOCOL);
        let to = engine.cx.identity.address;
        let part = to.fabric.find(Network::Tcp).expect("a place");
        for _ in 0..5 {
            let call = stranger.connect(&part, to.id, to.secret).expect("a socket");
            wait_for(|| {
                turn(&mut engine, &mut stranger);
                engine.cx.peers.reached() == 1 && stranger.is_connected(call)
            });
            stranger.disconnect(call);
            wait_for(|| {
                turn(&mut engine, &mut stranger);
                engine.cx.peers.reached() == 0
            });
        }
        assert_eq!(log.count("peer 0 over a network: "), 1, "{log:?}");
        assert_eq!(log.count("peer 0: "), 1, "{log:?}");
        assert_eq!(log.count(", again: "), 8, "{log:?}");
    }
}
