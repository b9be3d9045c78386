//! What a runtime is told of accesses to its regions.

use limic_policy::{Path, PathSet};
use limic_records::{self as frame, Accessed};

use super::{meet, open, open_with, outcome, start_revoke, turns, until};
use crate::engine::Engine;
use crate::engine::outbox;
use crate::engine::protocol::{regions, rma};
use crate::raw::{Access, Accesses, Posted, RawSlice, RawSliceMut, RegionId, Reserved};

const LEN: usize = 100_000;
const KEY: u64 = 43;

/// The memory of a test's region, which others write.
struct Memory(Box<[u8]>);

impl Memory {
    fn new() -> Self {
        Self(vec![0; LEN].into_boxed_slice())
    }

    /// Exposes it under this key. The endpoint is gone before the memory is.
    fn expose(&mut self, owner: &mut Engine, key: u64) -> RegionId {
        self.expose_for(owner, key, Access::BOTH)
    }

    fn expose_for(&mut self, owner: &mut Engine, key: u64, access: Access) -> RegionId {
        let memory = RawSliceMut::from(&mut self.0[..]);
        // SAFETY: tests look at it when no access is under way, and keep it as long as the owner.
        let exposed = unsafe { owner.expose_raw(memory, Some(key), access, 0) };
        exposed.expect("a region").0
    }
}

/// Writes so many bytes of the peer to the owner's region, to their end.
fn write(engines: &mut [&mut Engine; 2], of_owner: u32, key: u64, bytes: &[u8]) {
    let [owner, peer] = engines;
    // SAFETY: the end of the access is waited for.
    let posted = unsafe {
        let from = [RawSlice::from(bytes)];
        rma::post_write(&mut peer.cx, of_owner, key, 0, &from)
    };
    let outcome = outcome(&mut [peer, owner], posted.expect("alive"));
    assert!(outcome.is_ok(), "{outcome:?}");
}

fn read(engines: &mut [&mut Engine; 2], of_owner: u32, key: u64, room: &mut [u8]) {
    let [owner, peer] = engines;
    // SAFETY: as in `write`.
    let posted = unsafe {
        let into = [RawSliceMut::from(room)];
        rma::post_read(&mut peer.cx, of_owner, key, 0, &into)
    };
    let outcome = outcome(&mut [peer, owner], posted.expect("alive"));
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// What the owner is told of the region under `KEY`, until it is so many accesses.
fn told(engines: &mut [&mut Engine; 2], wanted: u64) -> Accesses {
    let mut sum = Accesses::default();
    let [owner, peer] = engines;
    until(&mut [owner, peer], |engines| {
        while let Some(reserved) = engines[0].take_reserved() {
            let Reserved::Accessed(KEY, count) = reserved else {
                panic!("{reserved:?}");
            };
            sum.reads += count.reads;
            sum.writes += count.writes;
        }
        sum.reads + sum.writes >= wanted
    });
    sum
}

/// Reads, writes and empty accesses of all kinds, some of them before the runtime asks.
fn accesses_are_told(open: fn() -> Engine) {
    let (mut memory, mut other) = (Memory::new(), Memory::new());
    let (mut owner, mut peer, _, of_owner) = meet(open(), open());
    owner.report_accesses(KEY, Access::WRITE);
    memory.expose(&mut owner, KEY);
    other.expose(&mut owner, KEY + 1);
    let mut both = [&mut owner, &mut peer];
    let (bytes, mut room) = (vec![5; LEN], vec![0; LEN]);
    for len in [8, 0, LEN] {
        write(&mut both, of_owner, KEY, &bytes[..len]);
        write(&mut both, of_owner, KEY + 1, &bytes[..len]);
        read(&mut both, of_owner, KEY, &mut room[..len]);
    }
    let writes = Accesses {
        reads: 0,
        writes: 3,
    };
    assert_eq!(told(&mut both, 3), writes, "and no read");
    both[0].report_accesses(KEY, Access::BOTH);
    write(&mut both, of_owner, KEY, &bytes);
    for len in [8, 0, LEN] {
        read(&mut both, of_owner, KEY, &mut room[..len]);
    }
    let all = Accesses {
        reads: 3,
        writes: 1,
    };
    assert_eq!(told(&mut both, 4), all);
    both[0].report_accesses(KEY, Access::NONE);
    write(&mut both, of_owner, KEY, &bytes);
    assert_eq!(room, bytes);
    turns(10, &mut both);
    assert!(!both[0].has_reserved());
    drop((owner, peer));
    assert_eq!(memory.0[..], bytes);
}

#[test]
fn accesses_by_single_copy_are_told() {
    accesses_are_told(|| open(1));
}

#[test]
fn accesses_with_help_are_told() {
    accesses_are_told(|| open_with(|with| with.allowed(PathSet::EMPTY.with(Path::Pipeline))));
}

#[test]
fn accesses_of_an_endpoint_to_its_own_region_are_told() {
    let mut memory = Memory::new();
    let mut owner = open(1);
    let me = owner.myself().0;
    owner.report_accesses(KEY, Access::BOTH);
    memory.expose(&mut owner, KEY);
    let mut room = [0_u8; 8];
    // SAFETY: an access to oneself is over when the call returns.
    unsafe {
        let from = [RawSlice::from(&[3_u8; 8][..])];
        let written = rma::post_write(&mut owner.cx, me, KEY, 0, &from);
        let into = [RawSliceMut::from(&mut room[..])];
        let read = rma::post_read(&mut owner.cx, me, KEY, 0, &into);
        assert!(written.is_ok() && read.is_ok());
    }
    let once = Accesses {
        reads: 1,
        writes: 1,
    };
    let told = owner.take_reserved();
    assert_eq!(told, Some(Reserved::Accessed(KEY, once)));
    assert_eq!(room, [3; 8]);
}

/// The news of a region that is gone is not that of the next one under its key.
#[test]
fn a_region_is_told_of_its_own_accesses_alone() {
    let (mut memory, mut next) = (Memory::new(), Memory::new());
    let (mut owner, mut peer, _, of_owner) = meet(open(1), open(1));
    owner.report_accesses(KEY, Access::WRITE);
    let region = memory.expose(&mut owner, KEY);
    write(&mut [&mut owner, &mut peer], of_owner, KEY, &[1; 8]);
    // The news was sent, and the owner has had no turn.
    owner.report_accesses(KEY, Access::NONE);
    take_back(&mut owner, region);
    owner.report_accesses(KEY, Access::WRITE);
    next.expose(&mut owner, KEY);
    turns(10, &mut [&mut owner, &mut peer]);
    assert!(!owner.has_reserved());
    write(&mut [&mut owner, &mut peer], of_owner, KEY, &[2; 8]);
    assert_eq!(told(&mut [&mut owner, &mut peer], 1).writes, 1);
}

/// What was told when a region is taken back counts, also if the owner has had no turn since.
fn the_last_news_is_told(take_back: fn(&mut Engine, RegionId)) {
    // More than are taken in one turn.
    const WRITES: u64 = 100;
    let mut memory = Memory::new();
    let (mut owner, mut peer, _, of_owner) = meet(open(1), open(1));
    owner.report_accesses(KEY, Access::WRITE);
    let region = memory.expose(&mut owner, KEY);
    let mut writes_at_once = || {
        // SAFETY: it is over, or the test is.
        let posted = unsafe {
            let from = [RawSlice::from(&[1; 8][..])];
            rma::post_write(&mut peer.cx, of_owner, KEY, 0, &from)
        };
        matches!(posted, Ok(Posted::Done(Ok(_))))
    };
    assert!((0..WRITES).all(|_| writes_at_once()));
    take_back(&mut owner, region);
    let all = Accesses {
        reads: 0,
        writes: WRITES,
    };
    let told = owner.take_reserved();
    assert_eq!(told, Some(Reserved::Accessed(KEY, all)));
}

#[test]
fn the_last_news_of_a_region_is_told() {
    the_last_news_is_told(|owner, region| {
        assert_eq!(owner.revoke(region), Ok(Vec::new()));
    });
    the_last_news_is_told(|owner, region| {
        assert_eq!(owner.try_revoke(region), Ok(Some(Vec::new())));
    });
}

/// Takes a region back that nobody accesses.
fn take_back(owner: &mut Engine, region: RegionId) {
    start_revoke(owner, region).expect("a region");
    let revoked = regions::revoked(&mut owner.cx, region).expect("a region");
    assert_eq!(revoked, Some(Vec::new()));
}

/// A peer can make up numbers of regions; what nobody asked for is not told, and it lives on.
#[test]
fn made_up_news_is_passed_over() {
    let (mut memory, mut read_only) = (Memory::new(), Memory::new());
    let (mut owner, mut peer, of_peer, of_owner) = meet(open(1), open(1));
    memory.expose(&mut owner, KEY);
    read_only.expose_for(&mut owner, KEY + 1, Access::READ);
    // Those of the two regions are among them.
    let numbers = [
        0,
        1,
        1 << 32,
        2 << 32 | 1,
        u64::from(u32::MAX),
        u64::MAX,
        KEY,
    ];
    let tell_all = |peer: &mut Engine| {
        for serial in numbers {
            for wrote in [false, true] {
                let news = Accessed { serial, wrote };
                outbox::control(&mut peer.cx, of_owner, news.encode());
            }
        }
    };
    tell_all(&mut peer);
    turns(10, &mut [&mut owner, &mut peer]);
    assert!(!owner.has_reserved(), "nobody asked for any");
    owner.report_accesses(KEY, Access::WRITE);
    // No peer can write there.
    owner.report_accesses(KEY + 1, Access::WRITE);
    tell_all(&mut peer);
    // The one number that is right counts for the kind that was asked for, as a write would.
    assert_eq!(told(&mut [&mut owner, &mut peer], 1).writes, 1);
    turns(10, &mut [&mut owner, &mut peer]);
    assert!(!owner.has_reserved());
    assert_eq!(owner.attach(of_peer), Ok(true));
}

/// What no wait here has asked for is no reason for it to keep the processor.
#[test]
fn news_is_no_progress_that_a_wait_asks_for() {
    let mut memory = Memory::new();
    let (mut owner, mut peer, _, of_owner) = meet(open(1), open(1));
    owner.report_accesses(KEY, Access::WRITE);
    memory.expose(&mut owner, KEY);
    for serial in [1 << 32, u64::MAX] {
        let before = owner.cx.matching.kept();
        let news = Accessed {
            serial,
            wrote: true,
        };
        outbox::control(&mut peer.cx, of_owner, news.encode());
        turns(10, &mut [&mut owner, &mut peer]);
        assert_eq!(owner.cx.matching.kept(), before.wrapping_add(1));
    }
    assert_eq!(told(&mut [&mut owner, &mut peer], 1).writes, 1);
}

#[test]
fn news_of_no_known_kind_ends_the_peer() {
    let (mut owner, mut peer, of_peer, of_owner) = meet(open(1), open(1));
    let wrong = frame::ControlRecord::new(frame::ACCESSED, 2, [1]);
    outbox::control(&mut peer.cx, of_owner, wrong);
    until(&mut [&mut owner], |engines| {
        engines[0].attach(of_peer).is_err()
    });
}

/// The owner takes nothing: of its peer's writes, those that no news can follow wait for help, so
/// no news heaps up.
#[test]
fn news_for_an_owner_that_does_not_look_is_bounded() {
    const WRITES: usize = 5000;
    let mut memory = Memory::new();
    let (mut owner, mut peer, _, of_owner) = meet(open(1), open(1));
    owner.report_accesses(KEY, Access::WRITE);
    memory.expose(&mut owner, KEY);
    let bytes = [1_u8; 8];
    let mut waiting = Vec::new();
    for _ in 0..WRITES {
        // SAFETY: the end of the accesses is waited for.
        let posted = unsafe {
            let from = [RawSlice::from(&bytes[..])];
            rma::post_write(&mut peer.cx, of_owner, KEY, 0, &from)
        };
        if let Posted::Pending(id) = posted.expect("alive") {
            waiting.push(id);
        }
    }
    assert!(!waiting.is_empty() && waiting.len() < WRITES);
    let backlog = peer.cx.peers.get(of_owner).expect("known").backlog.len();
    assert!(backlog <= usize::from(rma::MOST_ASKED) + 1, "{backlog}");
    let mut both = [&mut owner, &mut peer];
    assert_eq!(told(&mut both, WRITES as u64).writes, WRITES as u64);
    let [owner, peer] = both;
    for id in waiting {
        let outcome = outcome(&mut [peer, owner], Posted::Pending(id));
        assert!(outcome.is_ok(), "{outcome:?}");
    }
}
