//! One conformance case: how to open an endpoint, and who takes part.

use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Instant;

use limic::{Endpoint, Peer, Tag};

use crate::cast::{seed, watchdog};
use crate::{Cast, Link, Random, hub};

/// One rank of a conformance case, with an endpoint that knows all ranks.
#[derive(Debug)]
pub struct Party<E> {
    /// From 0.
    pub rank: u32,
    /// The same in all ranks.
    pub seed: u64,
    /// The endpoint under test.
    pub endpoint: E,
    /// By rank; this rank's own entry is the endpoint as its own peer.
    pub peers: Vec<Peer>,
    /// The line to the other ranks beside limic.
    pub link: Link,
}

impl<E: Endpoint> Party<E> {
    fn join(rank: u32, seed: u64, link: Link, open: fn() -> limic::Result<E>) -> Self {
        let endpoint = open().expect("the endpoint opens");
        let peers = connect(&link, &endpoint);
        assert_eq!(peers[rank as usize], endpoint.myself());
        Self {
            rank,
            seed,
            endpoint,
            peers,
            link,
        }
    }

    /// The other rank of two.
    #[must_use]
    pub fn other(&self) -> Peer {
        self.peers[1 - self.rank as usize]
    }

    /// Waits until every rank is here, without limic's messages but moving them along.
    pub fn meet(&self) {
        self.link.meet(&self.endpoint);
    }

    /// Random numbers, the same in all ranks for the same `purpose`.
    #[must_use]
    pub fn random(&self, purpose: u64) -> Random {
        Random::new(self.seed ^ purpose.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// Exchanges a word with all ranks; by rank.
    ///
    /// # Panics
    /// If a rank has ended.
    #[must_use]
    pub fn words(&self, word: u64) -> Vec<u64> {
        let blobs = self.link.exchange_while(&word.to_le_bytes(), || {
            self.endpoint.progress();
        });
        let words = blobs.into_iter().map(|blob| {
            let blob = blob.expect("every rank is alive");
            u64::from_le_bytes(blob.try_into().expect("a word"))
        });
        words.collect()
    }
}

/// Exchanges addresses and connects to every rank.
pub(crate) fn connect<E: Endpoint>(link: &Link, endpoint: &E) -> Vec<Peer> {
    let blobs = link.exchange(&endpoint.address().to_bytes());
    let peers = blobs.iter().map(|blob| {
        let address = blob.as_ref().expect("every rank is alive");
        endpoint
            .connect(address)
            .expect("an address of an endpoint")
    });
    peers.collect()
}

/// A conformance case over one kind of endpoint.
#[derive(Debug)]
pub struct Case<E> {
    name: &'static str,
    open: fn() -> limic::Result<E>,
    threads: bool,
}

/// A tag for cases in which tags do not matter.
pub(crate) const TAG: Tag = Tag(0x1_0000_0007);

impl<E: Endpoint> Case<E> {
    /// `path` is the test function's full path, with the crate.
    #[must_use]
    pub fn new(path: &'static str, open: fn() -> limic::Result<E>, threads: bool) -> Self {
        let name = path.split_once("::").map_or(path, |(_, name)| name);
        Self {
            name,
            open,
            threads,
        }
    }

    /// Opens one more endpoint of the kind under test.
    #[must_use]
    pub fn opener(&self) -> fn() -> limic::Result<E> {
        self.open
    }

    /// Runs the body in every rank: processes, or threads with an endpoint each.
    ///
    /// # Panics
    /// If a rank fails or does not end in time.
    pub fn run(&self, ranks: u32, body: impl Fn(&Party<E>) + Send + Sync + Copy) {
        if self.threads {
            self.run_threads(ranks, body);
            return;
        }
        let open = self.open;
        Cast::new(self.name).ranks(ranks).run(move |rank| {
            let line = rank.link.try_clone();
            let party = Party::join(rank.rank, rank.seed, line, open);
            body(&party);
            party.meet();
        });
    }

    fn run_threads(&self, ranks: u32, body: impl Fn(&Party<E>) + Send + Sync + Copy) {
        let seed = seed();
        let open = self.open;
        let mut here = Vec::new();
        let mut there = Vec::new();
        for _ in 0..ranks {
            let (a, b) = UnixStream::pair().expect("a pair of sockets");
            here.push(a);
            there.push(b);
        }
        let hub = hub::serve(here);
        let (done, over) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let name = self.name;
            let guard = std::thread::spawn(move || {
                let end = Instant::now() + watchdog();
                let left = end.saturating_duration_since(Instant::now());
                if over.recv_timeout(left) == Err(mpsc::RecvTimeoutError::Timeout) {
                    // A thread cannot be ended from outside, so the whole test program is.
                    eprintln!("{name}: the watchdog ended it; seed {seed}");
                    std::process::abort();
                }
            });
            let ranks: Vec<_> = (0..ranks)
                .zip(there)
                .map(|(rank, stream)| {
                    scope.spawn(move || {
                        let party = Party::join(rank, seed, Link::new(stream), open);
                        body(&party);
                        party.meet();
                    })
                })
                .collect();
            let ended: Vec<_> = ranks.into_iter().map(|rank| rank.join()).collect();
            drop(done);
            guard.join().expect("the watchdog does not panic");
            for (rank, ended) in ended.into_iter().enumerate() {
                if let Err(panic) = ended {
                    eprintln!("{name}: rank {rank} of the threads failed; seed {seed}");
                    std::panic::resume_unwind(panic);
                }
            }
        });
        hub.join().expect("the hub does not panic");
    }
}
