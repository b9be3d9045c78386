//! An endpoint and the networks that it listens at.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};

use limic_fabric::Provider;

use super::{attach_both, open, open_with, send, tags};
use crate::counters::Event;
use crate::engine::Engine;
use crate::settings::FabricUse;

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
