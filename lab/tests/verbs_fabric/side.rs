//! One rank and its connection to the other one, as tests of the fabric use it.

use core::time::Duration;
use std::time::Instant;

use limic_ibverbs::fabric::{
    Arrivals, ConnectionFailure, ConnectionId, Event, Fabric, FabricAddress, FabricSettings,
    SendRefused, TransferError,
};
use limic_lab_tests::in_guest;
use limic_tests::{Cast, Rank};

/// One rank's fabric, connected to the other's, with what has come so far.
pub(crate) struct Side {
    pub(crate) fabric: Fabric,
    arrivals: Arrivals,
    pub(crate) peer: ConnectionId,
    pub(crate) there: FabricAddress,
    pub(crate) received: Vec<(u8, u64, Vec<u8>)>,
    /// So many of them were looked at.
    checked: usize,
    pub(crate) transferred: Vec<(u64, Result<(), TransferError>)>,
    pub(crate) failed: Option<ConnectionFailure>,
}

pub(crate) fn settings() -> FabricSettings {
    FabricSettings {
        devices: vec!["rxe0".to_owned()],
        ..FabricSettings::DEFAULT
    }
}

impl Side {
    /// Opens, exchanges addresses beside the fabric, and connects; both ends do so at the same
    /// time.
    pub(crate) fn connected(rank: &Rank, settings: FabricSettings) -> Self {
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
        let blobs = rank.link.exchange(&fabric.address().to_bytes());
        let other = 1 - rank.rank as usize;
        let blob = blobs[other].as_deref().expect("the peer's address");
        let to = FabricAddress::from_bytes(blob).expect("an address");
        let peer = other as u64 + 1;
        let peer = fabric
            .connect(&to, peer, peer ^ rank.seed)
            .expect("connect");
        Self {
            fabric,
            arrivals: Arrivals::new(),
            peer,
            there: to,
            received: Vec::new(),
            checked: 0,
            transferred: Vec::new(),
            failed: None,
        }
    }

    pub(crate) fn connected_to_peer(&mut self) -> bool {
        match self.fabric.poll(&mut self.arrivals) {
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
        match self.fabric.poll(&mut self.arrivals) {
            Some(Event::Messages) => {
                for (form, payload) in self.arrivals.messages() {
                    self.received.push((form.kind, form.tag, payload.to_vec()));
                }
            }
            Some(Event::Transferred { token, result }) => self.transferred.push((token, result)),
            Some(Event::Failed { why, .. }) => self.failed = Some(why),
            Some(Event::Connected { .. } | Event::More { .. }) | None => {}
        }
    }

    pub(crate) fn send(&mut self, kind: u8, tag: u64, payload: &[u8]) {
        loop {
            let fill = |room: &mut [u8]| room.copy_from_slice(payload);
            match self.fabric.send(self.peer, kind, tag, payload.len(), fill) {
                Ok(()) => return,
                Err(SendRefused::Later) => self.progress(),
                Err(other) => panic!("{other}"),
            }
        }
    }

    pub(crate) fn progress_until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
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
    pub(crate) fn meet(&mut self, rank: &Rank) {
        let _ = rank.link.exchange_while(&[], || self.progress());
    }

    /// Both sides are done with each other.
    pub(crate) fn close(mut self, rank: &Rank) {
        self.fabric.close(Instant::now() + Duration::from_secs(20));
        let _ = rank.link.exchange(b"closed");
    }
}

fn payload(number: u64) -> Vec<u8> {
    let len = [0, 1, 8, 8, 8, 64, 200, 1000, 3000][number as usize % 9];
    (0..len).map(|at| (at as u64 + number) as u8).collect()
}

/// Sends and receives `count` messages of many sizes, and checks order and bytes.
pub(crate) fn stream_both_ways(side: &mut Side, count: u64) {
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

pub(crate) fn run(name: &str, body: impl FnOnce(&Rank)) {
    if in_guest() {
        Cast::new(name)
            .ranks(2)
            .limit(Duration::from_secs(120))
            .run(body);
    }
}
