//! Wrong arguments get clear errors, never a panic. One process is enough.

use std::io::IoSlice;

use limic::{Endpoint, Errno, Error, HybridEndpoint, Peer, Selector, Settings, ShmEndpoint, World};
use limic_tests::process::descriptor_numbers;
use limic_tests::{Cast, Random, skip};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

#[test]
fn malformed_addresses_are_refused() {
    let endpoint = ShmEndpoint::open().expect("open");
    let good = endpoint.address().to_bytes();
    let seed = 42;
    let mut random = Random::new(seed);
    for round in 0..20_000 {
        let mut bytes = good.to_vec();
        match round % 3 {
            0 => {
                bytes = (0..random.below(100))
                    .map(|_| random.next_u64() as u8)
                    .collect()
            }
            1 => bytes.truncate(random.below(48) as usize),
            _ => {
                let at = random.below(4) as usize;
                bytes[at] ^= 1 + random.below(255) as u8;
            }
        }
        match endpoint.connect(&bytes) {
            Err(Error::BadAddress(why)) => assert!(!why.is_empty()),
            other => panic!("seed {seed}, round {round}, {bytes:?}: {other:?}"),
        }
    }
    assert_eq!(endpoint.connect(&good), Ok(endpoint.myself()));
}

/// Well-formed, but of nobody: another node, or an id that does not exist.
#[test]
fn addresses_of_nobody_fail_at_the_first_message() {
    let endpoint = HybridEndpoint::open().expect("open");
    let good = endpoint.address().to_bytes();
    let mut random = Random::new(7);
    for round in 0..200 {
        let mut bytes = good;
        let range = if round % 2 == 0 { 4..20 } else { 12..20 };
        for byte in &mut bytes[range] {
            *byte = random.next_u64() as u8;
        }
        let peer = endpoint.connect(&bytes).expect("it only decodes");
        let error = endpoint.send(peer, 1_u64, &vec![0; 1 << (round % 18)]);
        assert!(
            matches!(error, Err(Error::PeerFailed { peer: p, .. }) if p == peer),
            "{error:?}"
        );
    }
    // An address with the right id and a wrong secret is somebody else's guess: it is this
    // endpoint's own id, so it must not be mistaken for a way in.
    let other = ShmEndpoint::open().expect("open");
    let mut bytes = other.address().to_bytes();
    bytes[20..28].fill(0x5a);
    let peer = endpoint.connect(&bytes).expect("it only decodes");
    let send = endpoint.isend(peer, 1_u64, vec![1]);
    if let Ok(mut send) = send {
        while !send.test() {
            other.progress();
            other.sleep(Some(std::time::Duration::ZERO));
        }
        let outcome = send.wait();
        assert!(
            matches!(outcome, Err(Error::PeerFailed { .. })),
            "{outcome:?}"
        );
    }
}

#[test]
fn ranks_out_of_range_are_refused() {
    let world = World::with(ShmEndpoint::open().expect("open")).expect("a job of one");
    if world.launcher() != "single" {
        skip("the tests themselves run under a launcher");
        return;
    }
    assert_eq!((world.rank(), world.size()), (0, 1));
    let me = world.peer(0).expect("rank 0");
    assert_eq!(me, world.myself());
    for rank in [1, 2, u32::MAX] {
        assert_eq!(
            world.peer(rank),
            Err(Error::RankOutOfRange { rank, size: 1 })
        );
    }
    world.barrier().expect("alone");
    world.barrier().expect("alone");
    let stranger = Peer::from_index(9);
    let error = world.send(stranger, 1_u64, &[]).expect_err("nobody");
    assert_eq!(
        error,
        Error::UnknownPeer {
            peer: stranger,
            known: 1
        }
    );
    world.finalize().expect("finalize");
}

/// The slices name the same bytes again and again, and are longer than any memory: as a number of
/// 64 bits, their length is 8.
#[test]
fn a_message_beyond_all_memory_is_refused() {
    const LEN: usize = 1 << 46;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping, of which no page is ever written.
    let mapped = unsafe { mmap_anonymous(core::ptr::null_mut(), LEN, ProtFlags::READ, flags) };
    let Ok(start) = mapped else {
        return skip("this process may not have so many addresses");
    };
    // SAFETY: it is readable, and stays to the end of the process.
    let long: &'static [u8] = unsafe { core::slice::from_raw_parts(start.cast(), LEN) };
    let slices = || core::iter::repeat_n(long, 1 << 18).chain([&long[..8]]);
    let refused = || Error::System {
        what: "a message in slices",
        source: Errno(libc::EMSGSIZE),
    };
    let endpoint = HybridEndpoint::open().expect("open");
    let me = endpoint.myself();
    let list: Vec<IoSlice<'_>> = slices().map(IoSlice::new).collect();
    assert_eq!(endpoint.send_vectored(me, 1, &list), Err(refused()));
    let scoped = endpoint.scope(|scope| scope.isend_vectored(me, 1, slices()).map(drop));
    assert_eq!(scoped, Err(refused()));
    assert_eq!(endpoint.probe(Selector::any()), Ok(None));
    endpoint.send(me, 1, b"works").expect("send");
}

/// More memory than this process may have.
#[test]
fn too_little_memory_is_a_clear_error() {
    Cast::new("too_little_memory_is_a_clear_error")
        .ranks(1)
        .run(|_| {
            use nix::sys::resource::{Resource, setrlimit};
            let absurd = Settings::builder()
                .without_environment()
                .private_rings(1024);
            let absurd = absurd
                .ring_bytes(16 << 20)
                .build()
                .expect("each value is in range");
            let error = HybridEndpoint::with(absurd).expect_err("16 GiB of rings");
            assert!(
                error.to_string().contains("rings"),
                "it names what to change: {error}"
            );
            let large = || {
                let builder = Settings::builder().without_environment();
                builder
                    .private_rings(112)
                    .ring_bytes(8 << 20)
                    .build()
                    .expect("settings")
            };
            setrlimit(Resource::RLIMIT_AS, 600 << 20, 600 << 20).expect("setrlimit");
            let error = HybridEndpoint::with(large()).expect_err("900 MiB do not fit");
            assert!(
                matches!(error, Error::NoMemory(_) | Error::Segment(_)),
                "{error:?}"
            );
            println!("{error}");
            assert!(error.to_string().len() > 20, "{error}");
            // What fits still works.
            let endpoint = HybridEndpoint::open().expect("a small one");
            let error = endpoint.loan(usize::MAX / 4).expect_err("too much");
            assert!(matches!(error, Error::NoMemory(_)), "{error:?}");
            endpoint
                .send(endpoint.myself(), 1_u64, b"works")
                .expect("send");
            // The limit on files counts for shared memory too, and comes with a deadly signal.
            setrlimit(Resource::RLIMIT_FSIZE, 64 << 10, 64 << 10).expect("setrlimit");
            let error = HybridEndpoint::open().expect_err("more than a file may have");
            assert!(
                matches!(error, Error::NoMemory(_) | Error::Segment(_)),
                "{error:?}"
            );
            let error = endpoint
                .loan(1 << 20)
                .expect_err("more than a file may have");
            assert!(matches!(error, Error::NoMemory(_)), "{error:?}");
        });
}

/// No more descriptors, at whichever step of opening: an error, and an endpoint that is there goes
/// on.
#[test]
fn too_few_descriptors_are_a_clear_error() {
    Cast::new("too_few_descriptors_are_a_clear_error")
        .ranks(1)
        .run(|_| {
            use nix::sys::resource::{Resource, getrlimit, setrlimit};
            let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("getrlimit");
            let first = ShmEndpoint::open().expect("enough descriptors");
            // One that this process inherited may have a high number: the limit is on numbers.
            let used = descriptor_numbers();
            let mut refused = 0;
            for free in 0..16 {
                let limit = (0..)
                    .filter(|number| !used.contains(number))
                    .nth(free)
                    .expect("a free number");
                setrlimit(Resource::RLIMIT_NOFILE, limit as u64, most).expect("setrlimit");
                let Err(error) = ShmEndpoint::open() else {
                    continue;
                };
                println!("{free} free: {error}");
                let text = error.to_string();
                assert!(
                    text.contains("open files") || text.contains("EMFILE"),
                    "{text}"
                );
                refused += 1;
                first.send(first.myself(), 1_u64, b"works").expect("send");
            }
            assert!(
                refused >= 4,
                "a segment, a socket, an epoll set and a doorbell"
            );
            assert!(refused < 16, "sixteen are enough");
            ShmEndpoint::open().expect("there is room again");
        });
}
