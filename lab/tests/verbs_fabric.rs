//! The fabric over Soft-RoCE: connections, packets, transfers, and what happens when a stream or a
//! peer fails.

use core::time::Duration;
use std::time::Instant;

use limic_ibverbs::fabric::{
    ConnectionFailure, ConnectionId, Event, FABRIC_ADDRESS_LEN, Fabric, FabricAddress,
    FabricSettings, Inbox, RemoteRange, SendRefused, TransferError,
};
use limic_ibverbs::objects::Access;
use limic_lab_tests::in_guest;
use limic_tests::process::die;
use limic_tests::{Cast, Rank};

/// One rank's fabric, connected to the other's, with what has come so far.
struct Side {
    fabric: Fabric,
    inbox: Inbox,
    peer: ConnectionId,
    there: FabricAddress,
    received: Vec<(u8, u64, Vec<u8>)>,
    /// So many of them were looked at.
    checked: usize,
    transferred: Vec<(u64, Result<(), TransferError>)>,
    failed: Option<ConnectionFailure>,
}

fn settings() -> FabricSettings {
    FabricSettings {
        devices: vec!["rxe0".to_owned()],
        ..FabricSettings::DEFAULT
    }
}

impl Side {
    /// Opens, exchanges addresses beside the fabric, and connects; both ends do so at the same
    /// time.
    fn connected(rank: &Rank, settings: FabricSettings) -> Self {
        let mut side = Self::open(rank, settings);
        let start = Instant::now();
        while !side.connected_to_peer() {
            assert!(side.failed.is_none(), "{:?}", side.failed);
            assert!(start.elapsed() < Duration::from_secs(50), "not connected");
        }
        side
    }

    fn open(rank: &Rank, settings: FabricSettings) -> Self {
        let id = u64::from(rank.rank) + 1;
        let hello = vec![rank.rank as u8; 5];
        let mut fabric =
            Fabric::open(settings, id, id ^ rank.seed, hello).expect("the fabric opens");
        let address = fabric.address().to_bytes().expect("an address");
        let blobs = rank.link.exchange(&address);
        let other = 1 - rank.rank as usize;
        let blob: [u8; FABRIC_ADDRESS_LEN] = blobs[other]
            .as_deref()
            .and_then(|blob| blob.try_into().ok())
            .expect("the peer's address");
        let to = FabricAddress::from_bytes(&blob).expect("an address");
        let peer = other as u64 + 1;
        let peer = fabric
            .connect(&to, peer, peer ^ rank.seed)
            .expect("connect");
        Self {
            fabric,
            inbox: Inbox::new(),
            peer,
            there: to,
            received: Vec::new(),
            checked: 0,
            transferred: Vec::new(),
            failed: None,
        }
    }

    fn connected_to_peer(&mut self) -> bool {
        match self.fabric.poll(&mut self.inbox) {
            Some(Event::Connected {
                connection, hello, ..
            }) => {
                assert_eq!(hello.len(), 5);
                self.peer = connection;
                true
            }
            Some(Event::Failed { why, .. }) => {
                self.failed = Some(why);
                false
            }
            _ => false,
        }
    }

    fn progress(&mut self) {
        match self.fabric.poll(&mut self.inbox) {
            Some(Event::Messages) => {
                for (form, payload) in self.inbox.messages() {
                    self.received.push((form.kind, form.tag, payload.to_vec()));
                }
            }
            Some(Event::Transferred { token, result }) => self.transferred.push((token, result)),
            Some(Event::Failed { why, .. }) => self.failed = Some(why),
            Some(Event::Connected { .. } | Event::More { .. }) | None => {}
        }
    }

    fn send(&mut self, kind: u8, tag: u64, payload: &[u8]) {
        loop {
            let fill = |room: &mut [u8]| room.copy_from_slice(payload);
            match self.fabric.send(self.peer, kind, tag, payload.len(), fill) {
                Ok(()) => return,
                Err(SendRefused::Later) => self.progress(),
                Err(other) => panic!("{other}"),
            }
        }
    }

    fn progress_until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            self.progress();
            assert!(
                start.elapsed() < Duration::from_secs(50),
                "{what} never came"
            );
        }
    }

    /// Waits for the other rank, and sends meanwhile what waits for an entry.
    fn meet(&mut self, rank: &Rank) {
        let _ = rank.link.exchange_while(&[], || self.progress());
    }

    /// Both sides are done with each other.
    fn close(mut self, rank: &Rank) {
        self.fabric.close(Instant::now() + Duration::from_secs(20));
        let _ = rank.link.exchange(b"closed");
    }
}

fn payload(number: u64) -> Vec<u8> {
    let len = [0, 1, 8, 8, 8, 64, 200, 1000, 3000][number as usize % 9];
    (0..len).map(|at| (at as u64 + number) as u8).collect()
}

/// Sends and receives `count` messages of many sizes, and checks order and bytes.
fn stream_both_ways(side: &mut Side, count: u64) {
    let begin = side.checked;
    side.checked += count as usize;
    for number in 0..count {
        side.send((number % 3) as u8 + 1, number / 4, &payload(number));
    }
    side.progress_until("the stream", |side| {
        side.failed.is_some() || side.received.len() >= begin + count as usize
    });
    assert_eq!(side.failed, None);
    for (number, (kind, tag, bytes)) in (0..count).zip(&side.received[begin..]) {
        assert_eq!((*kind, *tag), ((number % 3) as u8 + 1, number / 4));
        assert_eq!(*bytes, payload(number), "message {number}");
    }
}

fn run(name: &str, body: impl FnOnce(&Rank)) {
    if in_guest() {
        Cast::new(name)
            .ranks(2)
            .limit(Duration::from_secs(120))
            .run(body);
    }
}

#[test]
fn messages_arrive_in_order_both_ways() {
    run("messages_arrive_in_order_both_ways", |rank| {
        let mut side = Side::connected(rank, settings());
        stream_both_ways(&mut side, 600);
        let counts = side.fabric.counts();
        assert!(
            counts.ring_packets > 0,
            "a peer that talks a lot gets a ring"
        );
        println!("REPORT: rank {}: {counts:?}", rank.rank);
        side.close(rank);
    });
}

#[test]
fn small_queues_and_no_ring_still_deliver() {
    run("small_queues_and_no_ring_still_deliver", |rank| {
        for coalesce in [true, false] {
            let mut side = Side::connected(
                rank,
                FabricSettings {
                    send_entries: 2,
                    ring_slots: 0,
                    receives: 8,
                    coalesce,
                    ..settings()
                },
            );
            stream_both_ways(&mut side, 200);
            let counts = side.fabric.counts();
            if coalesce {
                assert!(counts.packets < counts.messages, "{counts:?}");
            } else {
                assert!(counts.packets >= 200, "{counts:?}");
            }
            side.close(rank);
        }
    });
}

#[test]
fn transfers_move_the_right_bytes() {
    run("transfers_move_the_right_bytes", |rank| {
        const LEN: usize = 300_000;
        let mut side = Side::connected(
            rank,
            FabricSettings {
                streams: 2,
                stripe_bytes: 65_536,
                ..settings()
            },
        );
        let mut memory: Vec<u8> = (0..2 * LEN)
            .map(|at| (at * 7 + rank.rank as usize) as u8)
            .collect();
        let access = Access::LOCAL | Access::REMOTE_READ | Access::REMOTE_WRITE;
        // SAFETY: the memory lives until the registration is dropped, and is looked at only after
        // the transfers.
        let spread = unsafe {
            side.fabric
                .register(memory.as_mut_ptr(), memory.len(), access)
        };
        let spread = spread.expect("registered");
        let mut blob = spread.start().to_le_bytes().to_vec();
        blob.extend(spread.remote_keys().to_le_bytes());
        let blobs = rank.link.exchange(&blob);
        if rank.rank == 0 {
            let blob = blobs[1].as_deref().expect("the peer's range");
            let word = |at: usize| u64::from_le_bytes(blob[at..at + 8].try_into().expect("eight"));
            let remote = RemoteRange {
                start: word(0),
                keys: word(8),
            };
            let behind = RemoteRange {
                start: word(0) + LEN as u64,
                ..remote
            };
            // SAFETY: the memory stays as it is until both events.
            unsafe {
                let peer = side.peer;
                side.fabric
                    .write(peer, behind, &spread, 0, LEN, 1)
                    .expect("write");
                side.fabric
                    .read(peer, remote, &spread, LEN, LEN, 2)
                    .expect("read");
            }
            side.progress_until("both transfers", |side| side.transferred.len() == 2);
            assert!(side.transferred.iter().all(|(_, result)| result.is_ok()));
            let expected = |at: usize| (at * 7 + 1) as u8;
            assert!((0..LEN).all(|at| memory[LEN + at] == expected(at)), "read");
            side.send(1, 0, b"done");
        } else {
            side.progress_until("the word", |side| !side.received.is_empty());
            assert!(
                (0..LEN).all(|at| memory[LEN + at] == (at * 7) as u8),
                "written"
            );
        }
        drop(spread);
        side.close(rank);
    });
}

#[test]
fn a_stream_that_fails_is_replaced_by_the_others() {
    run("a_stream_that_fails_is_replaced_by_the_others", |rank| {
        let mut side = Side::connected(
            rank,
            FabricSettings {
                streams: 3,
                ..settings()
            },
        );
        stream_both_ways(&mut side, 100);
        side.meet(rank);
        if rank.rank == 0 {
            break_queue_pair(&mut side, "the refusal", |side| {
                !side.transferred.is_empty()
            });
            assert_eq!(side.transferred, [(7, Err(TransferError::Refused))]);
        }
        stream_both_ways(&mut side, 300);
        side.close(rank);
    });
}

#[test]
fn a_lost_connection_is_made_anew() {
    run("a_lost_connection_is_made_anew", |rank| {
        let mut side = Side::connected(rank, settings());
        stream_both_ways(&mut side, 100);
        side.meet(rank);
        lose_and_connect(&mut side, rank);
        stream_both_ways(&mut side, 100);
        side.close(rank);
    });
}

/// Reads by a key that the peer never gave: its adapter refuses, and breaks the queue pair. Waits
/// until that shows.
fn break_queue_pair(side: &mut Side, what: &str, shows: impl Fn(&Side) -> bool) {
    let mut memory = vec![0_u8; 4096];
    // SAFETY: lives until the event.
    let spread = unsafe {
        side.fabric
            .register(memory.as_mut_ptr(), memory.len(), Access::LOCAL)
    }
    .expect("registered");
    let wrong = RemoteRange {
        start: 0x1000,
        keys: 0x0123_4567_0123_4567,
    };
    // SAFETY: the memory is left alone until the event.
    unsafe { side.fabric.read(side.peer, wrong, &spread, 0, 4096, 7) }.expect("started");
    side.progress_until(what, shows);
}

/// Rank 0 breaks its connection, and both connect anew.
fn lose_and_connect(side: &mut Side, rank: &Rank) {
    let before = side.peer;
    if rank.rank == 0 {
        break_queue_pair(side, "the end", |side| side.failed.is_some());
        let address = side.there;
        let again = side.fabric.connect(&address, 2, 2 ^ rank.seed);
        again.expect("connect");
    }
    let start = Instant::now();
    while !side.connected_to_peer() {
        assert!(start.elapsed() < Duration::from_secs(50), "not connected");
    }
    assert_ne!(side.peer, before);
    // What failed before is told before.
    side.failed = None;
}

/// Of all connections together, a completion queue has no room for those of so many.
#[test]
fn connections_that_were_lost_take_no_room() {
    run("connections_that_were_lost_take_no_room", |rank| {
        let large = FabricSettings {
            send_entries: 4096,
            ..settings()
        };
        let mut side = Side::connected(rank, large);
        for _ in 0..10 {
            stream_both_ways(&mut side, 10);
            side.meet(rank);
            lose_and_connect(&mut side, rank);
        }
        stream_both_ways(&mut side, 10);
        side.close(rank);
    });
}

#[test]
fn a_killed_peer_is_noticed_by_who_only_waits() {
    if !in_guest() {
        return;
    }
    Cast::new("a_killed_peer_is_noticed_by_who_only_waits")
        .ranks(2)
        .dies(1)
        .limit(Duration::from_secs(120))
        .run(|rank| {
            let patient = FabricSettings {
                keep_alive: Duration::from_millis(300),
                timeout: 12,
                ..settings()
            };
            let mut side = Side::connected(rank, patient);
            stream_both_ways(&mut side, 20);
            if rank.rank == 1 {
                die();
            }
            let start = Instant::now();
            side.progress_until("the news", |side| side.failed.is_some());
            println!(
                "REPORT: the death is known after {} ms",
                start.elapsed().as_millis()
            );
            assert!(
                matches!(side.failed, Some(ConnectionFailure::Lost(_))),
                "{:?}",
                side.failed
            );
            let refused = side.fabric.send(side.peer, 1, 1, 0, |_| {});
            assert!(matches!(refused, Err(SendRefused::Failed)), "{refused:?}");
        });
}

#[test]
fn nobody_there_is_an_error_in_time() {
    if !in_guest() {
        return;
    }
    let impatient = FabricSettings {
        greeting: Duration::from_millis(500),
        ..settings()
    };
    let mut fabric = Fabric::open(impatient, 1, 2, Vec::new()).expect("the fabric opens");
    let nobody = FabricAddress {
        greeter: 0x00ff_fff0,
        ..fabric.address()
    };
    let connection = fabric.connect(&nobody, 99, 3).expect("it only begins");
    let mut inbox = Inbox::new();
    let event = loop {
        if let Some(event) = fabric.poll(&mut inbox) {
            break event;
        }
    };
    let Event::Failed {
        connection: who,
        why,
    } = event
    else {
        panic!("{event:?}");
    };
    assert_eq!(who, connection);
    assert!(matches!(why, ConnectionFailure::Unreachable(_)), "{why}");
}

/// Peers whose sends and receives may all complete before anybody looks: more than a completion
/// queue holds at first (1040).
const SPOKES: u64 = 60;

#[test]
fn a_completion_queue_grows_with_the_connections() {
    run("a_completion_queue_grows_with_the_connections", |rank| {
        let small = FabricSettings {
            send_entries: 16,
            receives: 16,
            packets: 64,
            packet_bytes: 1024,
            rings: 0,
            ..settings()
        };
        let own = if rank.rank == 0 { 1 } else { SPOKES };
        let mut fabrics: Vec<(Fabric, Inbox)> = (0..own)
            .map(|number| {
                let id = u64::from(rank.rank) * 1000 + number + 1;
                let fabric = Fabric::open(small.clone(), id, id ^ rank.seed, Vec::new());
                (fabric.expect("the fabric opens"), Inbox::new())
            })
            .collect();
        let hub = fabrics[0].0.address().to_bytes().expect("an address");
        let blobs = rank.link.exchange(&hub);
        if rank.rank == 1 {
            let hub = blobs[0].as_deref().and_then(|blob| blob.try_into().ok());
            let hub = FabricAddress::from_bytes(&hub.expect("its address")).expect("an address");
            for (fabric, _) in &mut fabrics {
                let begun = fabric.connect(&hub, 1, 1 ^ rank.seed);
                begun.expect("connect");
            }
        }
        // Each spoke says its number to the hub, which says it back.
        let (mut connected, mut heard) = (0, 0);
        let start = Instant::now();
        while heard < SPOKES {
            assert!(
                start.elapsed() < Duration::from_secs(100),
                "{connected} connected, {heard} heard of {SPOKES}"
            );
            for (fabric, inbox) in &mut fabrics {
                match fabric.poll(inbox) {
                    Some(Event::Connected { connection, .. }) => {
                        connected += 1;
                        if rank.rank == 1 {
                            fabric
                                .send(connection, 1, 7, 1, |room| room.fill(9))
                                .expect("a new connection has room");
                        }
                    }
                    Some(Event::Messages) => {
                        let messages = inbox.messages();
                        heard += messages
                            .map(|(_, payload)| assert_eq!(payload, [9]))
                            .count() as u64;
                        if rank.rank == 0 {
                            fabric
                                .send(inbox.connection(), 1, 7, 1, |room| room.fill(9))
                                .expect("a connection that is not used has room");
                        }
                    }
                    Some(Event::Failed { why, .. }) => panic!("{why}"),
                    Some(Event::Transferred { .. } | Event::More { .. }) | None => {}
                }
            }
        }
        let _ = rank.link.exchange_while(b"heard", || {
            for (fabric, inbox) in &mut fabrics {
                let _ = fabric.poll(inbox);
            }
        });
        for (mut fabric, _) in fabrics {
            fabric.close(Instant::now() + Duration::from_secs(1));
        }
        let _ = rank.link.exchange(b"closed");
    });
}
