//! Endpoints over Soft-RoCE: rings and sleepers, kept registrations, static connections.

use std::process::Command;

use limic::counters::{self, Event};
use limic::settings::{SettingsBuilder, Spin, VerbsCache};
use limic::{Endpoint, Settings, Tag, VerbsEndpoint};
use limic_lab_tests::in_guest;
use limic_tests::{Cast, Rank};

const TAG: Tag = Tag(7);

fn endpoint(with: impl FnOnce(SettingsBuilder) -> SettingsBuilder) -> VerbsEndpoint {
    let settings = with(Settings::builder().without_environment()).build();
    VerbsEndpoint::with(settings.expect("settings")).expect("an endpoint")
}

fn run(name: &str, body: impl FnOnce(&Rank)) {
    if in_guest() {
        Cast::new(name).run(body);
    }
}

fn ping_pong(endpoint: &VerbsEndpoint, rank: u32, other: limic::Peer, times: u64) {
    for round in 0..times {
        let word = round.to_le_bytes();
        let mut back = [0; 8];
        if rank == 0 {
            endpoint.send(other, TAG, &word).expect("send");
            endpoint.recv((other, TAG), &mut back).expect("recv");
        } else {
            endpoint.recv((other, TAG), &mut back).expect("recv");
            endpoint.send(other, TAG, &word).expect("send");
        }
        assert_eq!(back, word);
    }
}

#[test]
fn peers_that_talk_a_lot_get_rings() {
    run("peers_that_talk_a_lot_get_rings", |rank| {
        for rings in [0, 4] {
            // So patient that nobody sleeps.
            let endpoint = endpoint(|s| {
                s.verbs_rings(rings)
                    .spin(Spin::For(core::time::Duration::from_secs(60)))
            });
            let peers = rank.connect(&endpoint);
            ping_pong(&endpoint, rank.rank, peers[1 - rank.rank as usize], 200);
            let counters = endpoint.counters();
            let ringed = counters.event(Event::RingMessages);
            assert!(counters.event(Event::NetworkMessages) >= 200);
            if rings == 0 {
                assert_eq!(ringed, 0);
            } else {
                assert!(ringed > 50, "{ringed} messages went by the ring");
            }
            rank.link.meet(&endpoint);
        }
    });
}

#[test]
fn a_sleeper_misses_nothing_that_goes_into_its_ring() {
    run("a_sleeper_misses_nothing_that_goes_into_its_ring", |rank| {
        let spin = Spin::For(core::time::Duration::ZERO);
        let endpoint = endpoint(|s| s.verbs_rings(4).spin(spin));
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        let pids = rank.link.exchange(&std::process::id().to_le_bytes());
        let pid = pids[1 - rank.rank as usize].as_deref().expect("it lives");
        let pid = u32::from_le_bytes(pid.try_into().expect("four bytes"));
        let sleeps = || {
            let pages = counters::of_process(pid).expect("the other's counters");
            let pages = pages.into_iter().filter_map(|found| found.page.ok());
            pages.map(|page| page.counters.sleeps).max().unwrap_or(0)
        };
        for round in 0..20_u64 {
            // Enough that the ring is resumed now and then.
            ping_pong(&endpoint, rank.rank, other, 100);
            let mut back = [0; 8];
            if rank.rank == 0 {
                let before = sleeps();
                while sleeps() < before + 3 {
                    endpoint.progress();
                }
                endpoint
                    .send(other, TAG, &round.to_le_bytes())
                    .expect("send");
                endpoint.recv((other, TAG), &mut back).expect("recv");
            } else {
                endpoint.recv((other, TAG), &mut back).expect("recv");
                endpoint.send(other, TAG, &back).expect("send");
            }
            assert_eq!(u64::from_le_bytes(back), round);
        }
        let counters = endpoint.counters();
        let (pauses, ringed) = (
            counters.event(Event::RingPauses),
            counters.event(Event::RingMessages),
        );
        println!(
            "REPORT: rank {}: {ringed} messages by the ring, {pauses} pauses, {} sleeps, {} of them ended by a message",
            rank.rank,
            counters.sleeps,
            counters.event(Event::WakeUps),
        );
        // Rank 1 slept in each round; whether rank 0 ever waited for long enough is chance.
        if rank.rank == 1 {
            assert!(pauses > 0, "it slept, so it asked for pauses");
        }
        rank.link.meet(&endpoint);
    });
}

/// Pages that are mapped at a fixed place, so that they can be replaced there.
mod pages {
    #![expect(unsafe_code, reason = "unmaps memory under a registration, on purpose")]

    use core::ffi::c_void;

    use rustix::mm::{self, Advice, MapFlags, ProtFlags};

    /// Private memory of the test alone.
    pub(super) struct Pages {
        start: *mut c_void,
        len: usize,
    }

    impl Pages {
        pub(super) fn new(len: usize) -> Self {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping at a place that the kernel picks.
            let start = unsafe {
                mm::mmap_anonymous(core::ptr::null_mut(), len, access, MapFlags::PRIVATE)
            };
            Self {
                start: start.expect("mmap"),
                len,
            }
        }

        /// Unmaps the pages and maps others in their place.
        pub(super) fn replace(&mut self) {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: the mapping is this value's, and nothing refers to it now (`&mut self`);
            // between the calls no other thread of the test maps anything.
            let again = unsafe {
                mm::munmap(self.start, self.len).expect("munmap");
                mm::mmap_anonymous(
                    self.start,
                    self.len,
                    access,
                    MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE,
                )
            };
            assert_eq!(again.expect("mmap"), self.start);
        }

        /// Gives the pages back to the kernel and keeps the mapping, as memory allocators do.
        pub(super) fn discard(&mut self) {
            // SAFETY: as above; the bytes are zero afterwards, which is a value of them.
            unsafe { mm::madvise(self.start, self.len, Advice::LinuxDontNeed) }.expect("madvise");
        }

        pub(super) fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: a mapping of this value's own, with so many bytes, and borrowed as it is.
            unsafe { core::slice::from_raw_parts_mut(self.start.cast(), self.len) }
        }
    }
}

/// What a registration cache gets wrong if it does not see that memory was given back: the adapter
/// would go on with the old pages.
#[test]
fn kept_registrations_are_right_after_munmap_and_free() {
    run(
        "kept_registrations_are_right_after_munmap_and_free",
        |rank| {
            const LEN: usize = 1 << 20;
            for cache in [VerbsCache::Off, VerbsCache::Watch] {
                let endpoint = endpoint(|s| s.verbs_cache(cache));
                let peers = rank.connect(&endpoint);
                let other = peers[1 - rank.rank as usize];
                let mut pages = pages::Pages::new(LEN);
                let check = |round: u8, bytes: &mut [u8]| {
                    let value = |at: usize| (at as u8).wrapping_mul(3).wrapping_add(round);
                    if rank.rank == 0 {
                        for (at, byte) in bytes.iter_mut().enumerate() {
                            *byte = value(at);
                        }
                        endpoint.send(other, TAG, bytes).expect("send");
                    } else {
                        endpoint.recv((other, TAG), bytes).expect("recv");
                        let wrong = bytes.iter().enumerate().find(|(at, b)| **b != value(*at));
                        assert_eq!(wrong, None, "round {round}");
                    }
                };
                // Both ends replace what they send from and receive into.
                for round in 0..8 {
                    // The second time with what was registered the first time.
                    check(round, pages.bytes());
                    check(round + 100, pages.bytes());
                    if round % 2 == 0 {
                        pages.replace();
                    } else {
                        pages.discard();
                    }
                }
                // The allocator gives such blocks back to the kernel at once, and mostly gets the
                // same place again.
                for round in 8..16 {
                    check(round, &mut vec![0; LEN]);
                }
                let counters = endpoint.counters();
                let (hits, misses) = (
                    counters.event(Event::RegistrationHits),
                    counters.event(Event::RegistrationMisses),
                );
                println!(
                    "REPORT: rank {}, cache {cache}: {hits} hits, {misses} misses",
                    rank.rank
                );
                if cache == VerbsCache::Off {
                    assert_eq!((hits, misses), (0, 0));
                } else {
                    assert!(hits >= 8, "each second message used the same memory");
                    assert!(misses >= 8, "each first one did not");
                }
                rank.link.meet(&endpoint);
            }
        },
    );
}

/// As `limic run` starts them, with every pair over verbs.
#[test]
fn jobs_meet_at_the_start_or_on_demand() {
    if !in_guest() {
        return;
    }
    let command = limic_lab_tests::program("limic");
    let example = limic_lab_tests::program("examples/hello");
    for when in ["static", "on-demand"] {
        let start = std::time::Instant::now();
        let status = Command::new(&command)
            .args(["run", "-n", "4"])
            .arg(&example)
            .env("LIMIC_FABRIC", "verbs-only")
            .env("LIMIC_VERBS_CONNECT", when)
            .status();
        assert!(status.expect("limic run").success(), "{when}");
        println!(
            "REPORT: 4 ranks of hello, {when}: {} ms",
            start.elapsed().as_millis()
        );
    }
}
