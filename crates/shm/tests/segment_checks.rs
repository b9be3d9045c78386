//! What an attaching process accepts, and what it refuses.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use limic_shm::owner::Words;
use limic_shm::ring::{Mapped, Memory};
use limic_shm::segment::{
    Arena, Geometry, LAYOUT_VERSION, OwnSegment, PeerArena, PeerSegment, Placement, SegmentError,
    Shape, UnmappedArena,
};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec, pread, pwrite};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};

fn small() -> Geometry {
    let shape = Shape {
        private_rings: 2,
        staging_buffers: 3,
        ..Shape::DEFAULT
    };
    Geometry::new(shape).unwrap()
}

fn own() -> OwnSegment {
    OwnSegment::create(small(), Placement::default()).unwrap()
}

fn duplicate(fd: impl AsFd) -> OwnedFd {
    fcntl_dupfd_cloexec(fd, 0).unwrap()
}

/// The descriptors of a segment, as a peer gets them.
fn handed_over(own: &OwnSegment) -> [OwnedFd; 2] {
    own.fds().map(duplicate)
}

fn header() -> [u8; 64] {
    let mut bytes = [0; 64];
    assert_eq!(pread(own().fds()[1], &mut bytes, 0).unwrap(), 64);
    bytes
}

const BOTH: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// A hand-made memfd that begins with `start`.
fn forge(start: &[u8], len: u64, seals: SealFlags) -> OwnedFd {
    let fd = memfd_create("forged", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, start.len() as u64).unwrap();
    pwrite(&fd, start, 0).unwrap();
    ftruncate(&fd, len).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    fd
}

/// A hand-made shared part.
fn shared(len: u64, seals: SealFlags) -> OwnedFd {
    forge(&[], len, seals)
}

fn shared_bytes() -> u64 {
    small().shared_bytes() as u64
}

/// A hand-made owner's part that begins with `start`.
fn owner(start: &[u8]) -> OwnedFd {
    forge(start, small().owner_bytes() as u64, BOTH)
}

/// Attaches, and closes the descriptors.
fn attach([shared, owner]: [OwnedFd; 2], epoch: Option<u64>) -> Result<PeerSegment, SegmentError> {
    PeerSegment::attach([shared.as_fd(), owner.as_fd()], epoch)
}

/// What attaching says after the bytes at `at` were replaced.
fn corrupted(at: usize, bytes: &[u8]) -> SegmentError {
    let mut start = header();
    start[at..at + bytes.len()].copy_from_slice(bytes);
    attach([shared(shared_bytes(), BOTH), owner(&start)], None).unwrap_err()
}

#[test]
fn both_sides_see_the_same_areas() {
    let own = own();
    let peer = attach(handed_over(&own), Some(own.epoch())).unwrap();
    assert_eq!(peer.geometry(), own.geometry());
    assert_eq!(peer.epoch(), own.epoch());

    let pairs: Vec<(Mapped, Mapped)> = [
        (own.shared_ring(), peer.shared_ring()),
        (own.staging_flags(), peer.staging_flags()),
        (own.staging(), peer.staging()),
        (own.loan_flags(), peer.loan_flags()),
        (own.sleep(), peer.sleep()),
    ]
    .into_iter()
    .chain((0..2).map(|i| (own.private_ring(i).unwrap(), peer.private_ring(i).unwrap())))
    .chain((0..16).map(|i| (own.probe_word(i).unwrap(), peer.probe_word(i).unwrap())))
    .collect();
    // All fresh, then each written by one side and read by the other: no two overlap.
    for (index, (mine, theirs)) in pairs.iter().enumerate() {
        assert_eq!(mine.len(), theirs.len());
        for at in [0, mine.len() - 8] {
            assert_eq!(mine.word64(at).load(Ordering::Relaxed), 0);
        }
        theirs.word64(0).store(index as u64 + 1, Ordering::Relaxed);
        theirs
            .word64(theirs.len() - 8)
            .store(index as u64 + 1, Ordering::Relaxed);
    }
    for (index, (mine, _)) in pairs.iter().enumerate() {
        assert_eq!(mine.word64(0).load(Ordering::Relaxed), index as u64 + 1);
        assert_eq!(
            mine.word64(mine.len() - 8).load(Ordering::Relaxed),
            index as u64 + 1
        );
    }
    assert!(own.private_ring(2).is_none());
    assert!(peer.probe_word(16).is_none());
}

#[test]
fn peers_read_what_only_the_owner_writes() {
    let own = own();
    let peer = attach(handed_over(&own), None).unwrap();
    let areas = [
        (own.status(), peer.status()),
        (own.access(), peer.access()),
        (own.split_in(), peer.split_in()),
        (own.split_out(), peer.split_out()),
        (own.regions(), peer.regions()),
    ];
    for (index, (mine, _)) in areas.iter().enumerate() {
        for at in [0, mine.len() - 8] {
            assert_eq!(mine.word64(at).load(Ordering::Relaxed), 0);
            mine.word64(at).store(index as u64 + 1, Ordering::Release);
        }
    }
    for (index, (mine, theirs)) in areas.iter().enumerate() {
        for at in [0, mine.len() - 8] {
            assert_eq!(theirs.load_acquire(at), index as u64 + 1);
        }
    }
}

/// By any way that a descriptor, or its file's name in /proc, gives.
#[test]
fn nobody_else_writes_the_owners_part() {
    let own = own();
    own.regions().word64(8).store(7, Ordering::Relaxed);
    let [_, fd] = handed_over(&own);
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let mut options = File::options();
    let reopened = options.read(true).write(true).open(path).unwrap();
    for fd in [fd.as_fd(), reopened.as_fd()] {
        assert_eq!(pwrite(fd, &[9; 8], 0), Err(Errno::PERM));
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert_eq!(fallocate(fd, hole, 0, 4096), Err(Errno::PERM));
        // Where a segment's shared part is expected, it would be mapped for writing.
        let error = attach([duplicate(fd), owner(&header())], None).unwrap_err();
        assert!(
            matches!(
                error,
                SegmentError::Truncated { .. } | SegmentError::Map { .. }
            ),
            "{error}"
        );
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let mapped = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap(null_mut(), 4096, access, MapFlags::SHARED, fd, 0)
        };
        assert_eq!(mapped.err(), Some(Errno::PERM));
        // SAFETY: as above.
        let mapped = unsafe { mmap(null_mut(), 4096, ProtFlags::READ, MapFlags::SHARED, fd, 0) };
        let mapped = mapped.unwrap();
        // SAFETY: the mapping just made, of which nobody knows.
        let changed = unsafe { mprotect(mapped, 4096, MprotectFlags::READ | MprotectFlags::WRITE) };
        assert_eq!(changed, Err(Errno::ACCESS));
        // SAFETY: as above.
        unsafe { munmap(mapped, 4096) }.unwrap();
    }
    assert_eq!(own.regions().word64(8).load(Ordering::Relaxed), 7);
}

#[test]
fn every_header_field_is_checked() {
    let honest = [shared(shared_bytes(), BOTH), owner(&header())];
    assert!(attach(honest, None).is_ok());

    let error = corrupted(0, b"X");
    assert!(matches!(error, SegmentError::Magic { .. }), "{error}");
    let error = corrupted(8, &99_u32.to_le_bytes());
    assert!(
        matches!(
            error,
            SegmentError::LayoutVersion {
                theirs: 99,
                ours: LAYOUT_VERSION
            }
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("same version of limic"),
        "{error}"
    );
    let error = corrupted(12, &128_u32.to_le_bytes());
    assert!(
        matches!(
            error,
            SegmentError::HeaderLength {
                theirs: 128,
                ours: 64
            }
        ),
        "{error}"
    );
    let error = corrupted(16, &[0; 8]);
    assert!(
        matches!(error, SegmentError::Epoch { found: 0, .. }),
        "{error}"
    );
    let error = corrupted(24, &(small().bytes() as u64 + 4096).to_le_bytes());
    assert!(matches!(error, SegmentError::TotalBytes { .. }), "{error}");

    let names = [
        "shared_slots",
        "private_rings",
        "ring_bytes",
        "staging_buffers",
        "staging_buffer_bytes",
        "regions",
        "split_copies",
        "probe_words",
    ];
    for (index, name) in names.into_iter().enumerate() {
        let at = 32 + 4 * index;
        let error = corrupted(at, &u32::MAX.to_le_bytes());
        assert!(
            matches!(error, SegmentError::Geometry(inner) if inner.field == name),
            "{error}"
        );
        // Legal by itself, but not what the total says.
        let mut value = [0; 4];
        value.copy_from_slice(&header()[at..at + 4]);
        let more = u32::from_le_bytes(value) * 16;
        let error = corrupted(at, &more.to_le_bytes());
        assert!(
            matches!(error, SegmentError::TotalBytes { .. }),
            "{name}: {error}"
        );
    }
}

#[test]
fn another_life_of_the_owner_is_refused() {
    let own = own();
    let expected = own.epoch() ^ 1;
    let error = attach(handed_over(&own), Some(expected)).unwrap_err();
    assert!(
        matches!(error, SegmentError::Epoch { expected: e, found } if e == expected && found == own.epoch())
    );
    assert!(error.to_string().contains("restarted"), "{error}");
}

#[test]
fn an_unsealed_memfd_is_refused() {
    let len = shared_bytes();
    for (seals, text) in [
        (SealFlags::empty(), "shrinking and growing"),
        (SealFlags::SHRINK, "growing"),
        (SealFlags::GROW, "shrinking"),
    ] {
        let owner_part = |seals| forge(&header(), small().owner_bytes() as u64, seals);
        for parts in [
            [shared(len, seals), owner_part(BOTH)],
            [shared(len, BOTH), owner_part(seals)],
        ] {
            let error = attach(parts, None).unwrap_err();
            assert!(
                matches!(error, SegmentError::NotSealed { missing } if missing == text),
                "{error}"
            );
        }
        let error = PeerArena::attach(forge(&[], len, seals).as_fd(), usize::MAX).unwrap_err();
        assert!(
            matches!(error, SegmentError::NotSealed { missing } if missing == text),
            "{error}"
        );
    }
}

#[test]
fn a_short_memfd_is_refused() {
    let attach = |shared_len, owner| attach([shared(shared_len, BOTH), owner], None).unwrap_err();
    for len in [0, 1, 63] {
        let error = attach(shared_bytes(), forge(&[], len, BOTH));
        assert!(
            matches!(error, SegmentError::Truncated { has, needs: 64 } if has == len),
            "{error}"
        );
    }
    let full = small().owner_bytes() as u64;
    for len in [64, 4096, full - 1] {
        let error = attach(shared_bytes(), forge(&header(), len, BOTH));
        assert!(
            matches!(error, SegmentError::Truncated { has, needs } if has == len && needs == full),
            "{error}"
        );
    }
    let full = shared_bytes();
    for len in [0, 4096, full - 1] {
        let error = attach(len, owner(&header()));
        assert!(
            matches!(error, SegmentError::Truncated { has, needs } if has == len && needs == full),
            "{error}"
        );
    }
}

#[test]
fn nobody_can_change_the_size_afterwards() {
    let own = own();
    for fd in own.fds() {
        assert_eq!(ftruncate(fd, 4096), Err(Errno::PERM));
        assert_eq!(ftruncate(fd, 1 << 30), Err(Errno::PERM));
        assert_eq!(fcntl_add_seals(fd, SealFlags::WRITE), Err(Errno::PERM));
    }
    let arena = Arena::create(100_000, Placement::default()).unwrap();
    assert_eq!(ftruncate(arena.fd(), 4096), Err(Errno::PERM));
}

#[test]
fn a_header_that_changes_later_plays_no_part() {
    let hostile = owner(&header());
    let parts = [shared(shared_bytes(), BOTH), duplicate(&hostile)];
    let peer = attach(parts, None).unwrap();
    let before = *peer.geometry();
    pwrite(&hostile, &[0xff; 64], 0).unwrap();
    assert_eq!(*peer.geometry(), before);
    assert_eq!(peer.staging().len(), 3 * (32 << 10));
}

#[test]
fn descriptors_that_are_no_memfd_are_refused() {
    let file = || OwnedFd::from(File::open("/proc/self/exe").unwrap());
    for parts in [
        [file(), owner(&header())],
        [shared(shared_bytes(), BOTH), file()],
    ] {
        let error = attach(parts, None).unwrap_err();
        assert!(matches!(error, SegmentError::NotMemfd { .. }), "{error}");
    }
    let (reader, _writer) = std::io::pipe().unwrap();
    let error = PeerArena::attach(reader.as_fd(), usize::MAX).unwrap_err();
    assert!(matches!(error, SegmentError::NotMemfd { .. }), "{error}");

    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    match memfd_create("forged", flags) {
        Err(errno) => println!("SKIPPED: memfd of hugetlbfs: {errno}"),
        Ok(fd) => {
            fcntl_add_seals(&fd, BOTH).unwrap();
            let error = attach([fd, owner(&header())], None).unwrap_err();
            assert!(matches!(error, SegmentError::NotMemfd { .. }), "{error}");
        }
    }
}

#[test]
fn a_memfd_that_cannot_be_written_is_refused() {
    let own = own();
    let path = format!("/proc/self/fd/{}", own.fds()[0].as_raw_fd());
    let reading = File::open(path).unwrap();
    let error = attach([reading.into(), owner(&header())], None).unwrap_err();
    assert!(
        matches!(
            error,
            SegmentError::Map {
                errno: Errno::ACCESS,
                ..
            }
        ),
        "{error}"
    );
    let sealed = shared(shared_bytes(), BOTH.union(SealFlags::WRITE));
    let error = attach([sealed, owner(&header())], None).unwrap_err();
    assert!(
        matches!(
            error,
            SegmentError::Map {
                errno: Errno::PERM,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn arenas_are_shared_up_to_the_accepted_size() {
    let arena = Arena::create(100_000, Placement::default()).unwrap();
    assert_eq!(arena.bytes(), 102_400);
    let peer = PeerArena::attach(arena.fd(), 102_400).unwrap();
    assert_eq!(peer.bytes(), arena.bytes());
    arena.view().word64(102_392).store(7, Ordering::Relaxed);
    let last = peer.pointer(102_392, 8).unwrap();
    // SAFETY: within the mapping, which `peer` keeps; nobody writes now.
    assert_eq!(unsafe { last.cast::<u64>().read_unaligned() }, 7);
    assert!(peer.pointer(102_393, 8).is_none());
    assert!(peer.pointer(u64::MAX, 8).is_none());
    let unmapped = UnmappedArena::new(duplicate(arena.fd())).unwrap();
    let mut read = [0; 8];
    assert!(unmapped.read(102_392, &mut read));
    assert_eq!(u64::from_ne_bytes(read), 7);
    assert!(!unmapped.read(102_393, &mut read));
    assert!(!unmapped.read(u64::MAX, &mut read));
    assert!(unmapped.contains(102_392, 8));
    assert!(!unmapped.contains(102_393, 8));
    assert!(!unmapped.contains(u64::MAX, 8));
    // Peers cannot write: not even a mapping for it can be had.
    let large = Arena::create(small().shared_bytes(), Placement::default()).unwrap();
    let error = attach([duplicate(large.fd()), owner(&header())], None).unwrap_err();
    assert!(
        matches!(
            error,
            SegmentError::Map {
                errno: Errno::PERM,
                ..
            }
        ),
        "{error}"
    );

    let error = PeerArena::attach(arena.fd(), 102_399).unwrap_err();
    assert!(
        matches!(
            error,
            SegmentError::ArenaTooLarge {
                has: 102_400,
                most: 102_399
            }
        ),
        "{error}"
    );
    assert_eq!(
        Arena::create(0, Placement::default()).unwrap().bytes(),
        4096
    );
    let error = PeerArena::attach(forge(&[], 0, BOTH).as_fd(), usize::MAX).unwrap_err();
    assert!(
        matches!(error, SegmentError::Truncated { has: 0, .. }),
        "{error}"
    );
}
