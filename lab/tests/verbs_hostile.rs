//! A peer that sends bytes which make no sense loses its own connection, and nobody else's suffers.

use core::time::Duration;
use std::time::Instant;

use limic_ibverbs::fabric::{
    Arrivals, ConnectionFailure, ConnectionId, Event, Fabric, FabricAddress, FabricSettings,
    SendRefused,
};
use limic_lab_tests::in_guest;
use limic_tests::{Cast, Rank};

/// What the hostile rank sends to rank 0, each over a connection of its own: a kind, and the bytes
/// behind it. Kinds from 0xf0 on are the fabric's own.
const HOSTILE: [(u8, &[u8]); 5] = [
    // Nobody's kind.
    (0xff, b"?"),
    // A ring is lent, in too few bytes; then one of no slots, of absurd ones.
    (0xf0, b"short"),
    (0xf0, &[0; 20]),
    (0xf0, &[0xff; 20]),
    // The answer to a question that nobody asked.
    (0xf4, b""),
];

/// A rank's fabric, and what became of its connections.
struct Side {
    fabric: Fabric,
    arrivals: Arrivals,
    peers: Vec<ConnectionId>,
    connected: Vec<ConnectionId>,
    failed: Vec<(ConnectionId, ConnectionFailure)>,
    /// Tag and sender of what came.
    came: Vec<(ConnectionId, u64)>,
}

impl Side {
    fn open(rank: &Rank) -> Self {
        let id = u64::from(rank.rank) + 1;
        let mut fabric = Fabric::open(FabricSettings::DEFAULT, id, id ^ rank.seed, Vec::new())
            .expect("the fabric opens");
        let address = fabric.address().to_bytes();
        let mut peers = Vec::new();
        for (other, blob) in (0_u64..).zip(rank.link.exchange(&address)) {
            let blob = blob.expect("an address");
            let to = FabricAddress::from_bytes(&blob).expect("an address");
            if other + 1 != id {
                let peer = fabric.connect(&to, other + 1, (other + 1) ^ rank.seed);
                peers.push(peer.expect("connect"));
            }
        }
        Self {
            fabric,
            arrivals: Arrivals::new(),
            peers,
            connected: Vec::new(),
            failed: Vec::new(),
            came: Vec::new(),
        }
    }

    fn progress_until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(
                start.elapsed() < Duration::from_secs(100),
                "{what} never came"
            );
            self.progress();
        }
    }

    /// Waits until every rank is here, and answers greetings meanwhile.
    fn meet(&mut self, rank: &Rank) {
        let _ = rank.link.exchange_while(&[], || {
            self.progress();
        });
    }

    fn progress(&mut self) {
        match self.fabric.poll(&mut self.arrivals) {
            Some(Event::Connected { connection, .. }) => self.connected.push(connection),
            Some(Event::Failed { connection, why }) => self.failed.push((connection, why)),
            Some(Event::Messages) => {
                let from = self.arrivals.connection();
                let tags = self.arrivals.messages().map(|(form, _)| (from, form.tag));
                self.came.extend(tags);
            }
            Some(Event::Transferred { .. } | Event::More { .. }) | None => {}
        }
    }

    fn send(&mut self, to: ConnectionId, kind: u8, tag: u64, payload: &[u8]) {
        let mut sent = Err(SendRefused::Later);
        while sent == Err(SendRefused::Later) {
            let fill = |room: &mut [u8]| room.copy_from_slice(payload);
            sent = self.fabric.send(to, kind, tag, payload.len(), fill);
            self.progress();
        }
        sent.expect("sent");
    }
}

#[test]
fn a_hostile_peer_loses_its_own_connection_only() {
    if !in_guest() {
        return;
    }
    // Rank 0 is the victim, rank 1 its friend, and the others are hostile.
    let cast = Cast::new("a_hostile_peer_loses_its_own_connection_only");
    cast.ranks(2 + HOSTILE.len() as u32).run(|rank| {
        let mut side = Side::open(rank);
        let all = side.peers.len();
        side.progress_until("all connections", |side| side.connected.len() == all);
        side.meet(rank);
        match rank.rank {
            0 => {
                let hostile = side.peers[1..].to_vec();
                side.progress_until("every failure", |side| side.failed.len() == hostile.len());
                for (connection, why) in &side.failed {
                    assert!(hostile.contains(connection));
                    assert!(matches!(why, ConnectionFailure::Corrupt(_)), "{why}");
                    println!("REPORT: rank 0: {why}");
                }
            }
            1 => {}
            number => {
                let (kind, payload) = HOSTILE[number as usize - 2];
                let victim = side.peers[0];
                side.send(victim, kind, 7, payload);
                side.progress_until("the end", |side| {
                    side.failed.iter().any(|(who, _)| *who == victim)
                });
            }
        }
        // The friends go on.
        if rank.rank < 2 {
            let friend = side.peers[0];
            for tag in 0..200 {
                side.send(friend, 1, tag, b"hello");
            }
            side.progress_until("every message", |side| side.came.len() == 200);
            let tags = side.came.iter().filter(|(from, _)| *from == friend);
            assert!(tags.map(|(_, tag)| *tag).eq(0..200));
        }
        side.meet(rank);
    });
}
