//! Buffers come back: of packets to many peers, and of connections that end.

use super::{ROUNDS, Side, on, pair, settle, two_streams};
use crate::fabric::FabricSettings;
use crate::fake::{Nature, adapters, net};

/// Peers that are spoken to in turn leave requests without a completion, which hold a buffer each.
#[test]
fn packets_to_many_peers_find_buffers() {
    adapters(&[Nature::PLAIN; 2]);
    let few = FabricSettings {
        packets: 8,
        ring_slots: 0,
        ..on("fake0")
    };
    let mut hub = Side::open(1, few);
    let mut peers: Vec<Side> = (0..16).map(|id| Side::open(2 + id, on("fake1"))).collect();
    let links: Vec<_> = peers.iter().map(|peer| hub.connect(peer)).collect();
    let all = |hub: &mut Side, peers: &mut [Side]| {
        for _ in 0..ROUNDS {
            hub.progress();
            peers.iter_mut().for_each(Side::progress);
        }
    };
    all(&mut hub, &mut peers);
    // Shorter than a request takes itself, and longer.
    for len in [8, 1000] {
        for _ in 0..10 {
            for link in &links {
                hub.say(*link, &vec![5; len]).expect("a buffer");
                hub.progress();
            }
        }
        all(&mut hub, &mut peers);
    }
    assert!(peers.iter().all(|peer| peer.came.len() == 20));
}

#[test]
fn a_completion_queue_has_room_for_many_peers_also_if_it_cannot_grow() {
    for grows in [false, true] {
        adapters(
            &[Nature {
                grows,
                ..Nature::PLAIN
            }; 2],
        );
        let mut hub = Side::open(1, on("fake0"));
        let peers: Vec<Side> = (0..100).map(|id| Side::open(2 + id, on("fake1"))).collect();
        for peer in &peers {
            hub.connect(peer);
        }
        hub.progress();
        assert_eq!(hub.failed, []);
    }
}

/// Packets that nobody has looked at when their connection ends lie in receives.
#[test]
fn receives_of_a_connection_that_ends_are_lent_again() {
    for (cleans, lags) in [(false, false), (true, false), (true, true)] {
        adapters(
            &[Nature {
                cleans,
                lags,
                ..Nature::PLAIN
            }; 2],
        );
        let ((mut a, there), (mut b, back)) = pair(on);
        let lent = net(|net| net.lent(0));
        for number in 0..5 {
            b.say(back, &[number; 600]).expect("room");
            b.progress();
        }
        assert_eq!(net(|net| net.lent(0)), lent - 5);
        a.fabric.disconnect(there);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(net(|net| net.lent(0)), lent, "the adapter cleans: {cleans}");
        assert_eq!(a.came, []);
    }
}

/// An adapter deletes the completions of a queue pair that is destroyed, with packets in it that
/// nobody has looked at; and peers come and go.
#[test]
fn peers_that_come_and_go_leave_receives_to_the_others() {
    let nature = Nature {
        cleans: true,
        lags: true,
        ..Nature::PLAIN
    };
    adapters(&[nature; 3]);
    let few = |device: &str| FabricSettings {
        receives: 16,
        ring_slots: 0,
        ..on(device)
    };
    let ((mut hub, link), (mut stays, back)) = pair(few);
    let mut goes = Side::open(3, few("fake2"));
    for _ in 0..ROUNDS {
        let there = goes.connect(&hub);
        settle(&mut [&mut hub, &mut goes]);
        for number in 0..5 {
            goes.say(there, &[number; 600]).expect("room");
            goes.progress();
        }
        goes.fabric.disconnect(there);
        hub.fabric
            .disconnect(hub.connected[hub.connected.len() - 1]);
        settle(&mut [&mut hub, &mut goes]);
    }
    assert_eq!(net(|net| net.lent(0)), 16);
    for number in 0..20 {
        stays.say(back, &[number; 600]).expect("room");
        settle(&mut [&mut hub, &mut stays]);
    }
    assert_eq!(hub.from(link).len(), 20);
}

/// Queue pairs with receives of their own leave them to the next ones.
#[test]
fn own_receives_of_a_connection_are_the_next_ones() {
    for cleans in [false, true] {
        adapters(
            &[Nature {
                shared_receives: 0,
                cleans,
                ..Nature::PLAIN
            }; 2],
        );
        let ((mut a, mut there), (mut b, mut back)) = pair(on);
        let mut registered = Vec::new();
        for number in 0..5 {
            for _ in 0..5 {
                b.say(back, &[number; 600]).expect("room");
                b.progress();
            }
            a.fabric.disconnect(there);
            there = a.connect(&b);
            settle(&mut [&mut a, &mut b]);
            back = *b.connected.last().expect("it was connected");
            registered.push(net(|net| net.registered()));
        }
        a.say(there, b"on").expect("room");
        settle(&mut [&mut a, &mut b]);
        assert_eq!(b.from(back), [b"on"]);
        assert_eq!(net(|net| net.lent(0)), 10);
        // Those of a connection are read, if at all, after the next one is made.
        assert_eq!(registered[1..], [registered[0]; 4]);
    }
}

/// A connection that could not be made leaves its receives to the next one.
#[test]
fn own_receives_outlast_connections_that_could_not_be_made() {
    adapters(
        &[Nature {
            shared_receives: 0,
            ..Nature::PLAIN
        }; 2],
    );
    let mut a = Side::open(1, two_streams(&["fake0"]));
    let b = Side::open(2, on("fake1"));
    let (address, before) = (b.fabric.address(), net(|net| net.registered()));
    // Two queue pairs with ten receives each; any of these calls may be refused.
    for calls in 0..22 {
        net(|net| net.calls = Some(calls));
        let refused = a.fabric.connect(&address, 2, !2);
        assert!(refused.is_err(), "after {calls} calls");
        a.progress();
        assert_eq!(net(|net| net.lent(0)), 0);
    }
    net(|net| net.calls = None);
    a.connect(&b);
    assert_eq!(net(|net| (net.lent(0), net.registered())), (20, before + 2));
}
