//! Endpoints of one thread over adapters of a test: connections, buffers, and their ends.

mod buffers;
mod contact;
mod ends;
mod gone;
mod greeter;
mod mending;
mod port_events;
mod ports;
mod rails;

use core::time::Duration;

use super::{
    Arrivals, ConnectionFailure, ConnectionId, Event, Fabric, FabricSettings, SendRefused,
    TransferError,
};
use crate::fake::{Nature, adapters, ibv_transport_type, net};

/// Rounds in which everything that can happen has happened.
const ROUNDS: usize = 50;

/// One endpoint, and what it was told.
struct Side {
    fabric: Fabric,
    arrivals: Arrivals,
    id: u64,
    connected: Vec<ConnectionId>,
    failed: Vec<(ConnectionId, ConnectionFailure)>,
    came: Vec<(ConnectionId, Vec<u8>)>,
    transferred: Vec<Result<(), TransferError>>,
}

/// On the adapter of this name. No time decides anything.
fn on(device: &str) -> FabricSettings {
    FabricSettings {
        devices: vec![device.to_owned()],
        keep_alive: Duration::from_secs(3600),
        ..FabricSettings::DEFAULT
    }
}

/// With two streams, over these adapters in turn.
fn two_streams(devices: &[&str]) -> FabricSettings {
    FabricSettings {
        devices: devices.iter().map(|&device| device.to_owned()).collect(),
        streams: 2,
        ..on("")
    }
}

/// Two adapters at the end of `fake0`, and one at the other. Long memory goes by both streams.
fn two_and_one(device: &str) -> FabricSettings {
    FabricSettings {
        stripe_bytes: 4096,
        ..match device {
            "fake0" => two_streams(&["fake0", "fake2"]),
            device => two_streams(&[device]),
        }
    }
}

impl Side {
    fn open(id: u64, settings: FabricSettings) -> Self {
        let hello = vec![id as u8];
        Self {
            fabric: Fabric::open(settings, id, !id, hello).expect("the fabric opens"),
            arrivals: Arrivals::new(),
            id,
            connected: Vec::new(),
            failed: Vec::new(),
            came: Vec::new(),
            transferred: Vec::new(),
        }
    }

    fn connect(&mut self, to: &Self) -> ConnectionId {
        let address = to.fabric.address();
        self.fabric
            .connect(&address, to.id, !to.id)
            .expect("it begins")
    }

    fn say(&mut self, to: ConnectionId, bytes: &[u8]) -> Result<(), SendRefused> {
        let fill = |room: &mut [u8]| room.copy_from_slice(bytes);
        self.fabric.send(to, 1, 7, bytes.len(), fill)
    }

    fn progress(&mut self) {
        while let Some(event) = self.fabric.poll(&mut self.arrivals) {
            match event {
                Event::Connected { connection, .. } => self.connected.push(connection),
                Event::Failed { connection, why } => self.failed.push((connection, why)),
                Event::Transferred { result, .. } => self.transferred.push(result),
                Event::Messages => {
                    let from = self.arrivals.connection();
                    let messages = self.arrivals.messages();
                    self.came
                        .extend(messages.map(|(_, bytes)| (from, bytes.to_vec())));
                }
                Event::More { .. } => {}
            }
        }
    }

    /// Moves on with an answer that is on its way; what this side says to that is lost.
    fn progress_unheard(&mut self) {
        net(|net| net.holds = true);
        self.progress();
        net(|net| net.let_go(0));
        self.progress();
        net(|net| {
            net.held.clear();
            net.holds = false;
        });
    }

    /// What came over a connection, in the order of coming.
    fn from(&self, connection: ConnectionId) -> Vec<&[u8]> {
        let came = self.came.iter().filter(|(from, _)| *from == connection);
        came.map(|(_, bytes)| &bytes[..]).collect()
    }
}

/// Everything that can happen happens.
fn settle(sides: &mut [&mut Side]) {
    for _ in 0..ROUNDS {
        for side in &mut *sides {
            side.progress();
        }
    }
}

/// Two endpoints that are connected, on adapters of their own; and the connection of each.
fn pair(settings: impl Fn(&str) -> FabricSettings) -> ((Side, ConnectionId), (Side, ConnectionId)) {
    let mut a = Side::open(1, settings("fake0"));
    let mut b = Side::open(2, settings("fake1"));
    let there = a.connect(&b);
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.connected, [there]);
    let [back] = b.connected[..] else {
        panic!("{:?}", b.connected);
    };
    ((a, there), (b, back))
}

#[test]
fn messages_of_all_lengths_come_in_order_both_ways() {
    stream_both_ways(&[Nature::PLAIN; 2]);
}

/// Adapters take 220 bytes in a request, or 101, or none.
#[test]
fn adapters_that_take_few_bytes_in_a_request_are_used() {
    for inline_bytes in [0, 101] {
        let few = Nature {
            inline_bytes,
            ..Nature::PLAIN
        };
        stream_both_ways(&[few, Nature::PLAIN]);
    }
}

#[test]
fn adapters_without_shared_receives_are_used() {
    for shared_receives in [0, 20] {
        let few = Nature {
            shared_receives,
            ..Nature::PLAIN
        };
        stream_both_ways(&[few, Nature::PLAIN]);
    }
}

/// It has no datagrams, by which endpoints meet.
#[test]
fn an_adapter_for_iwarp_is_passed_over() {
    let iwarp = Nature {
        transport: ibv_transport_type::IBV_TRANSPORT_IWARP,
        ..Nature::PLAIN
    };
    adapters(&[iwarp, Nature::PLAIN]);
    let refused = Fabric::open(on("fake0"), 1, 2, Vec::new()).expect_err("it has no way to meet");
    assert!(refused.to_string().contains("iWARP"), "{refused}");
    let side = Side::open(1, FabricSettings::DEFAULT);
    assert_eq!(side.fabric.devices().collect::<Vec<_>>(), ["fake1"]);
}

/// Messages of many lengths go both ways between two endpoints on adapters like these.
fn stream_both_ways(natures: &[Nature; 2]) {
    adapters(natures);
    let ((mut a, there), (mut b, back)) = pair(on);
    let text = |number: usize| vec![number as u8; [0, 8, 200, 3000][number % 4]];
    let (mut sent, mut answered) = (0, 0);
    for _ in 0..10 * ROUNDS {
        while sent < 200 && a.say(there, &text(sent)).is_ok() {
            sent += 1;
        }
        while answered < 200 && b.say(back, &text(answered)).is_ok() {
            answered += 1;
        }
        a.progress();
        b.progress();
    }
    let all: Vec<_> = (0..200).map(text).collect();
    assert!(a.from(there) == all && b.from(back) == all);
    assert_eq!((&a.failed[..], &b.failed[..]), (&[][..], &[][..]));
}
