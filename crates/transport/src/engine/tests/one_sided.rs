//! One-sided access with the owner's help.

use core::time::Duration;

use limic_copy::RemoteRange;
use limic_policy::{Path, PathSet};
use limic_records::{self as frame, RegionAccess};
use limic_shm::bytes::ReceiveBuffer;
use limic_shm::ring::Memory;
use limic_shm::sync::Ordering;

use super::{
    Log, accessed_region, attach_both, give_up, meet, open, open_with, outcome, pending, send,
    start_revoke, tags, thread_time, turn, until,
};
use crate::engine::Engine;
use crate::engine::outbox;
use crate::engine::protocol::{regions, rma};
use crate::raw::{Access, Posted, RawSlice, RawSliceMut, RequestId};
use crate::{Endpoint, Error, HybridEndpoint, Peer, Settings};

const LEN: usize = 200_000;
/// More than all staging buffers hold.
const LONG: usize = 16 << 20;

/// An endpoint whose one-sided accesses need their owners' help.
fn open_helped() -> Engine {
    open_with(|with| with.allowed(PathSet::EMPTY.with(Path::Pipeline)))
}

/// An access to a region's first bytes, for a record that asks for it.
fn first_bytes(key: u64) -> RegionAccess {
    RegionAccess {
        id: 1,
        key,
        offset: 0,
        len: 8,
    }
}

/// Where no path that is allowed reads it, nothing else does.
#[test]
fn the_memory_of_a_peer_is_not_read_where_the_settings_forbid_it() {
    let (_owner, mut peer, _, of_owner) = meet(open_helped(), open_helped());
    let (data, mut room) = ([7_u8; 64], [0_u8; 64]);
    // SAFETY: the room outlives the buffer.
    let into = unsafe { ReceiveBuffer::new(&[RawSliceMut::from(&mut room[..])]) };
    let remote = RemoteRange {
        address: data.as_ptr().expose_provenance() as u64,
        key: 0,
        len: 64,
    };
    let pair = peer.cx.peers.pair(of_owner).expect("shared memory");
    let refused = pair.copies.read(Path::Cma, remote, &into, 0, 64);
    let why = refused.expect_err("it is switched off").why;
    assert!(why.contains("switched off by the settings"), "{why}");
}

/// Nobody can take the memory back from a peer that is stopped.
#[test]
fn a_region_that_is_dropped_while_a_stopped_peer_accesses_it_is_said_to_be_lost() {
    let settings = Settings::builder().without_environment().build();
    let owner = HybridEndpoint::with(settings.expect("settings")).expect("an endpoint");
    let mut peer = open_helped();
    let of_peer = owner.connect(&peer.cx.identity.address.to_bytes());
    let of_owner = peer.connect(&owner.address().to_bytes());
    let (of_peer, of_owner) = (of_peer.expect("an address"), of_owner.expect("an address"));
    while !owner.attach(of_peer).expect("alive") || !peer.attach(of_owner.0).expect("alive") {
        owner.progress();
        turn(&mut [&mut peer]);
    }
    let region = owner.region(vec![1; 100]).expect("a region");
    let accessed = peer.cx.memory.segment.access();
    accessed.word64(0).store(region.key().0, Ordering::Release);
    let log = Log::default();
    tracing::subscriber::with_default(log.writer(), || drop(region));
    assert_eq!(log.count("a region of 100 bytes is dropped"), 1);
    assert!(owner.region(vec![2; 100]).is_ok(), "others are exposed");
}

#[test]
fn access_with_the_owners_help_counts_at_the_side_that_asked() {
    let (mut owner, mut peer, _, of_owner) = meet(open_helped(), open_helped());
    let (_, key) = regions::expose(&mut owner.cx, vec![1; LEN]).expect("a region");
    let (data, mut room) = (vec![2_u8; LEN], vec![0_u8; LEN]);
    // SAFETY: both outlive the accesses, which are waited for.
    let posted = unsafe {
        [
            rma::post_read(
                &mut peer.cx,
                of_owner,
                key,
                0,
                &[RawSliceMut::from(&mut room[..])],
            ),
            rma::post_write(&mut peer.cx, of_owner, key, 0, &[RawSlice::from(&data[..])]),
        ]
    };
    for posted in posted {
        // The owner has to help.
        let posted = Posted::Pending(pending(posted.expect("alive")));
        let outcome = outcome(&mut [&mut peer, &mut owner], posted);
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    let counters = [&owner, &peer].map(|engine| engine.cx.counters.page().counters);
    let messages = counters.map(|counters| {
        let all = |paths: &[(Path, crate::counters::Traffic)]| -> u64 {
            paths.iter().map(|(_, traffic)| traffic.messages).sum()
        };
        (all(&counters.sent_paths), all(&counters.received_paths))
    });
    assert_eq!(messages, [(0, 0), (1, 1)]);
}

/// The peer takes no answer before it has posted them all.
#[test]
fn accesses_beyond_those_that_the_owner_helps_with_at_a_time_wait_and_are_done() {
    const ACCESSES: usize = 5000;
    let (mut owner, mut peer, of_peer, of_owner) = meet(open_helped(), open_helped());
    let (_, key) = regions::expose(&mut owner.cx, vec![1; LEN]).expect("a region");
    let data = [2_u8; 8];
    let mut room = [0_u8; 8];
    let mut accesses = Vec::new();
    for at in 0..ACCESSES {
        // SAFETY: both outlive the accesses, which are waited for.
        let posted = unsafe {
            if at % 8 == 0 {
                let room = [RawSliceMut::from(&mut room[..])];
                rma::post_read(&mut peer.cx, of_owner, key, 0, &room)
            } else {
                let data = [RawSlice::from(&data[..])];
                rma::post_write(&mut peer.cx, of_owner, key, 8, &data)
            }
        };
        accesses.push(pending(posted.expect("alive")));
        owner.progress();
        let served = owner.cx.peers.get(of_peer).expect("known").served;
        assert!(served <= rma::MOST_ASKED, "{served}: the others wait");
    }
    for id in accesses {
        let outcome = outcome(&mut [&mut peer, &mut owner], Posted::Pending(id));
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    assert!(owner.cx.peers.is_alive(of_peer));
    assert_eq!(room, [1; 8]);
}

#[test]
fn accesses_that_a_peer_does_not_wait_for_have_a_bound() {
    let (mut owner, mut peer, of_peer, of_owner) = meet(open_helped(), open_helped());
    let (region, key) = regions::expose(&mut owner.cx, vec![1; LEN]).expect("a region");
    let mut asked = 0;
    while owner.cx.peers.is_alive(of_peer) {
        outbox::control(&mut peer.cx, of_owner, first_bytes(key).encode(frame::PUT));
        peer.progress();
        owner.progress();
        asked += 1;
        assert!(asked < 1_000_000, "none is refused");
    }
    let failed = owner.attach(of_peer);
    let Err(Error::PeerFailed { why, .. }) = failed else {
        panic!("{failed:?}");
    };
    assert!(why.to_string().contains("one-sided"), "{why}");
    assert_eq!(owner.revoke(region).map(|memory| memory.len()), Ok(LEN));
}

/// Reads of a region's first bytes that a peer has posted, into memory that stays.
fn post_reads(
    peer: &mut Engine,
    (owner, key): (u32, u64),
    room: &mut [u8],
    count: usize,
) -> Vec<RequestId> {
    let post = |_| {
        let room = [RawSliceMut::from(&mut *room)];
        // SAFETY: the room outlives the accesses, which are waited for.
        let posted = unsafe { rma::post_read(&mut peer.cx, owner, key, 0, &room) };
        pending(posted.expect("alive"))
    };
    (0..count).map(post).collect()
}

#[test]
fn messages_move_while_help_rests_and_help_goes_on_where_nothing_moves() {
    const READS: usize = 512;
    let (mut owner, mut peer, mut other) = (open_helped(), open_helped(), open(1));
    let (_, of_owner) = attach_both(&mut owner, &mut peer);
    let (of_other, at_other) = attach_both(&mut owner, &mut other);
    let (_, key) = regions::expose(&mut owner.cx, vec![1; LEN]).expect("a region");
    let mut room = [0_u8; 8];
    // Both have rings of their own, and the shared one is read with the others again.
    for tag in 0..100 {
        send(&mut other, at_other, tag);
        let read = post_reads(&mut peer, (of_owner, key), &mut room, 1);
        until(&mut [&mut owner, &mut peer, &mut other], |engines| {
            engines[1].test(read[0]).is_some()
        });
    }
    until(&mut [&mut owner, &mut peer, &mut other], |engines| {
        !engines[0].cx.memory.has_apart()
    });
    tags(&mut owner, of_other);

    owner.cx.regions.help.rest_for_long();
    let reads = post_reads(&mut peer, (of_owner, key), &mut room, READS);
    let mut done = vec![false; READS];
    let mut test = |peer: &mut Engine| {
        for (done, id) in done.iter_mut().zip(&reads) {
            *done = *done || peer.test(*id).is_some();
        }
        done.iter().filter(|done| **done).count()
    };
    for tag in 0..100 {
        send(&mut other, at_other, tag);
        until(&mut [&mut owner, &mut peer], |engines| {
            tags(engines[0], of_other) == [tag]
        });
        assert_eq!(test(&mut peer), 0, "help rests");
    }

    let mut turns = 0;
    while test(&mut peer) < READS {
        // It has nothing else to do.
        owner.sleep(Some(Duration::ZERO));
        turns += 1;
        assert!(turns < READS / 8, "a turn helps with few of them");
    }
}

/// The peer takes none of the answers, which soon find no room.
#[test]
fn a_turn_takes_no_longer_the_more_reads_of_a_region_wait() {
    const FEW: u16 = 4000;
    const MANY: u16 = 60_000;
    let (mut owner, mut peer, of_peer, of_owner) = meet(open_helped(), open_helped());
    let (region, key) = regions::expose(&mut owner.cx, vec![1; LEN]).expect("a region");
    // The time of help is not what counts here.
    let turn = |owner: &mut Engine| {
        owner.end_rest();
        owner.progress();
    };
    let [few, many] = [FEW, MANY].map(|count| {
        while owner.cx.peers.get(of_peer).expect("known").served < count {
            outbox::control(&mut peer.cx, of_owner, first_bytes(key).encode(frame::GET));
            turn(&mut owner);
        }
        let turns = (0..200).map(|_| {
            let since = thread_time();
            turn(&mut owner);
            thread_time() - since
        });
        turns.min().expect("a turn")
    });
    assert!(many < few * 5, "{many:?} for {MANY}, {few:?} for {FEW}");
    give_up(&mut owner, of_peer);
    assert_eq!(owner.revoke(region).map(|memory| memory.len()), Ok(LEN));
}

/// What a peer that is stopped has begun in a region with its owner's help.
fn begun_and_stopped(began: Duration, begin: fn(&mut Engine, (u32, u64), &mut [u8]) -> Posted) {
    let open = || {
        let paths = PathSet::EMPTY.with(Path::Pipeline);
        open_with(|with| {
            with.allowed(paths)
                .staging_buffers(2)
                .linger(Duration::ZERO)
        })
    };
    let (mut owner, mut peer, of_peer, of_owner) = meet(open(), open());
    let (region, key) = regions::expose(&mut owner.cx, vec![1; LONG]).expect("a region");
    let mut bytes = vec![2_u8; LONG];
    let access = pending(begin(&mut peer, (of_owner, key), &mut bytes));
    peer.progress();
    until(&mut [&mut owner], |engines| {
        engines[0].cx.regions.is_used(region).expect("a region")
    });
    let in_use = Error::RegionInUse {
        peer: Peer(of_peer),
    };
    // The peer has no turn.
    start_revoke(&mut owner, region).expect("a region");
    owner.cx.regions.age(region, began);
    let mut revoked = Ok(None);
    until(&mut [&mut owner], |engines| {
        revoked = regions::revoked(&mut engines[0].cx, region);
        revoked != Ok(None)
    });
    assert_eq!(revoked, Err(in_use));
    let outcome = outcome(&mut [&mut peer, &mut owner], Posted::Pending(access));
    assert!(outcome.is_ok(), "{outcome:?}");
    let memory = owner.revoke(region).expect("nobody uses it any more");
    assert_eq!(memory, bytes);
}

fn begin_read(peer: &mut Engine, (of_owner, key): (u32, u64), into: &mut [u8]) -> Posted {
    let into = [RawSliceMut::from(into)];
    // SAFETY: the test waits for the end of the access.
    unsafe { rma::post_read(&mut peer.cx, of_owner, key, 0, &into) }.expect("alive")
}

#[test]
fn a_region_that_a_stopped_peer_reads_with_its_owners_help_is_given_up() {
    begun_and_stopped(Duration::ZERO, begin_read);
}

#[test]
fn a_region_of_which_a_peer_reads_a_little_at_a_time_is_given_up() {
    // It moved just now.
    begun_and_stopped(regions::LONGEST, begin_read);
}

#[test]
fn a_region_that_a_stopped_peer_writes_with_its_owners_help_is_given_up() {
    begun_and_stopped(Duration::ZERO, |peer, (of_owner, key), from| {
        let from = [RawSlice::from(&*from)];
        // SAFETY: as in `begin_read`.
        unsafe { rma::post_write(&mut peer.cx, of_owner, key, 0, &from) }.expect("alive")
    });
}

/// Another region, which nobody accesses, is taken back meanwhile.
#[test]
fn a_region_is_taken_back_without_waiting_for_who_accesses_it() {
    let (mut owner, mut peer) = (open(1), open(1));
    attach_both(&mut owner, &mut peer);
    let (region, end_access) = accessed_region(&mut owner, &peer);
    let (other, _) = owner.expose(vec![2; 10]).expect("a region");
    assert_eq!(owner.try_revoke(region), Ok(None));
    assert_eq!(owner.try_revoke(other), Ok(Some(vec![2; 10])));
    assert_eq!(owner.try_revoke(region), Ok(None));
    end_access();
    assert_eq!(owner.try_revoke(region), Ok(Some(vec![1; 100])));
    assert_eq!(owner.try_revoke(region), Err(Error::UnknownRequest));
}

/// Peers find by themselves only what has a place in the table: those are used first.
#[test]
fn places_of_regions_that_were_taken_back_are_the_next_ones() {
    let mut owner = open(1);
    let places = owner.cx.memory.segment.shape().regions;
    let mut memory = [0; 8];
    let mut expose = |owner: &mut Engine, key| {
        let memory = RawSliceMut::from(&mut memory[..]);
        // SAFETY: the memory outlives the engine, which is the only one that has its key.
        let exposed = unsafe { owner.expose_raw(memory, Some(key), Access::BOTH, 0) };
        exposed.expect("a region").0
    };
    let keys = 0..u64::from(places) + 3;
    let regions: Vec<_> = keys.map(|key| expose(&mut owner, 1 + key)).collect();
    let [low, middle, last] = [1, 3, regions.len() - 1].map(|at| regions[at]);
    for region in [last, low, middle] {
        owner.revoke(region).expect("nobody uses it");
    }
    let again = [1000, 1001, 1002].map(|key| expose(&mut owner, key));
    assert_eq!(again, [low, middle, last]);
    let next = expose(&mut owner, 1003);
    assert!(!regions.contains(&next), "it is another one's");
}
