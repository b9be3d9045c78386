//! An endpoint and the networks that it listens at.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use limic_fabric::{Part, Provider};

use super::{attach_both, open, open_with, post, send, tags};
use crate::counters::Event;
use crate::engine::Engine;
use crate::error::PeerFailure;
use crate::raw::Posted;
use crate::settings::FabricUse;
use crate::{Address, Error};

/// An endpoint that listens at the loopback.
fn listening(used: FabricUse) -> Engine {
    open_with(|settings| settings.fabric(used).tcp_interface("127.0.0.1"))
}

/// Somebody who has found the port calls, and has said nothing yet.
fn call(engine: &Engine) -> TcpStream {
    let part = engine.cx.identity.address.fabric.find(Provider::Tcp);
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

/// Progress calls look at the networks only where there is something: one who is silent is nothing.
#[test]
fn a_silent_caller_does_not_make_peers_in_shared_memory_pay_for_networks() {
    let (mut engine, mut peer) = (listening(FabricUse::Tcp), open(1));
    let (of_peer, at_peer) = attach_both(&mut engine, &mut peer);
    let mut caller = call(&engine);
    while engine.cx.fabric.patience().is_none() {
        engine.poll_sockets();
        engine.progress();
    }
    engine.progress();
    assert!(!engine.cx.fabric.is_active());
    for tag in 0..10 {
        send(&mut peer, at_peer, tag);
        engine.progress();
        assert!(!engine.cx.fabric.is_active());
    }
    assert_eq!(tags(&mut engine, of_peer).len(), 10);
    // The silent one is not forgotten: each look at the sockets is one at its time too.
    engine.poll_sockets();
    assert!(engine.cx.fabric.is_active());
    engine.progress();
    assert!(!engine.cx.fabric.is_active());
    caller.write_all(&[7; 300]).expect("it listens");
    while refused(&engine) == 0 {
        engine.poll_sockets();
        engine.progress();
    }
}

/// A peer of which only the place in the network is known, and somebody listens there.
fn elsewhere() -> (Address, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("a port").port();
    let place = [&[127, 0, 0, 1][..], &port.to_be_bytes()].concat();
    let mut address = Address::generate().expect("random");
    let part = Part::new(Provider::Tcp, &place).expect("a place");
    assert!(address.fabric.add(&part));
    (address, listener)
}

/// Why a peer at this address is not reached.
fn failure_at(engine: &mut Engine, address: &Address, mut turn: impl FnMut()) -> PeerFailure {
    let peer = engine.connect(&address.to_bytes()).expect("an address");
    // SAFETY: the data stays for ever.
    let posted = unsafe { post(engine, peer.0, 1, &[7; 8]) };
    let Posted::Pending(send) = posted else {
        panic!("it has not been met: {posted:?}");
    };
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
    let why =
        tracing::subscriber::with_default(log.clone(), || failure_at(&mut engine, &address, || {}));
    assert_eq!(why, PeerFailure::Unreachable);
    let lines = log.0.lock().expect("no panic");
    let of_it = |line: &&String| line.contains("Connection refused");
    assert_eq!(lines.iter().filter(of_it).count(), 1, "{lines:?}");
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

/// The lines of a log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut lines = self.0.lock().expect("no panic");
        event.record(
            &mut |_: &tracing::field::Field, value: &dyn core::fmt::Debug| {
                lines.push(format!("{value:?}"));
            },
        );
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// An endpoint of another version at the other end: which of both calls makes no difference.
mod other_version {
    use limic_fabric::{Fabric, Inbox, Parts};
    use limic_tcp::{TcpFabric, TcpSettings};

    use super::*;
    use crate::engine::peer::greeting::{self, PROTOCOL};

    /// Speaks the next version.
    fn stranger(address: &mut Address) -> TcpFabric {
        let settings = TcpSettings {
            interface: Some("127.0.0.1".to_owned()),
            ..TcpSettings::default()
        };
        let mut stranger = TcpFabric::open(&settings, address.id, address.secret).expect("tcp");
        address.fabric = Parts::NONE;
        assert!(address.fabric.add(&stranger.part()));
        let mut hello = greeting::hello(address);
        hello[..4].copy_from_slice(&(PROTOCOL + 1).to_le_bytes());
        stranger.set_hello(hello);
        stranger
    }

    fn turn(engine: &mut Engine, stranger: &mut TcpFabric) {
        engine.poll_sockets();
        engine.progress();
        stranger.poll(&mut Inbox::new());
    }

    #[test]
    fn is_named_as_the_reason_where_it_is_called() {
        let mut engine = listening(FabricUse::TcpOnly);
        let mut address = Address::generate().expect("random");
        let mut stranger = stranger(&mut address);
        let why = failure_at(&mut engine, &address, || {
            stranger.poll(&mut Inbox::new());
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
    fn is_turned_away_where_it_calls() {
        let mut engine = listening(FabricUse::TcpOnly);
        let mut stranger = stranger(&mut Address::generate().expect("random"));
        let to = engine.cx.identity.address;
        let part = to.fabric.find(Provider::Tcp).expect("a place");
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
}
