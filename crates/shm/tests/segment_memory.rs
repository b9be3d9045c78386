//! Where the memory comes from, when it goes, and what is said when there is none.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

use std::process::Command;
use std::sync::atomic::Ordering;

use limic_shm::ring::{Mapped, Memory};
use limic_shm::segment::{
    Arena, Geometry, Grant, MAX_SEGMENT_BYTES, MemoryLimit, OwnSegment, Placement, SegmentError,
    Shape,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Mappings of the file with this inode number in this process.
fn mappings(inode: u64) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    // "start-end rights offset device inode path"; device 00:01 is that of memfds.
    let inode = inode.to_string();
    maps.lines()
        .filter(|line| line.contains("memfd:limic"))
        .filter(|line| line.split_whitespace().nth(4) == Some(&inode))
        .count()
}

#[test]
fn the_mapping_ends_with_its_last_view() {
    let own = OwnSegment::create(Geometry::DEFAULT, Placement::default()).unwrap();
    let first: Mapped = own.staging();
    let inode = rustix::fs::fstat(own.fds()[0]).unwrap().st_ino;
    assert_eq!(mappings(inode), 1);
    let second = first.sub(64, 64);
    drop(own);
    drop(first);
    second.word64(0).store(3, Ordering::Relaxed);
    assert_eq!(second.word64(0).load(Ordering::Relaxed), 3);
    assert_eq!(mappings(inode), 1);
    // Another thread may drop the last one.
    std::thread::spawn(move || drop(second)).join().unwrap();
    assert_eq!(mappings(inode), 0);
}

#[test]
fn the_space_is_reserved_before_use() {
    let own = OwnSegment::create(Geometry::DEFAULT, Placement::default()).unwrap();
    let stat = rustix::fs::fstat(own.fds()[0]).unwrap();
    assert_eq!(stat.st_size as usize, Geometry::DEFAULT.shared_bytes());
    assert!(stat.st_blocks as u64 * 512 >= stat.st_size as u64);
}

#[test]
fn absurd_sizes_are_refused_with_the_limit() {
    for bytes in [1_usize << 50, usize::MAX - 5000, usize::MAX] {
        let error = Arena::create(bytes, Placement::default()).unwrap_err();
        let SegmentError::NoMemory {
            bytes: asked,
            limit,
        } = &error
        else {
            panic!("{error}")
        };
        assert!(*asked >= 1 << 50);
        assert!(!matches!(limit, MemoryLimit::FileSize { .. }));
        let text = error.to_string();
        assert!(
            text.contains("cannot reserve") && text.contains(&asked.to_string()),
            "{text}"
        );
    }
}

#[test]
fn absurd_geometries_are_refused_with_the_field() {
    let most = Shape {
        private_rings: 1024,
        ring_bytes: 1 << 24,
        ..Shape::DEFAULT
    };
    let error = Geometry::new(most).unwrap_err();
    assert!(error.given >= MAX_SEGMENT_BYTES, "{error}");
    let error = Geometry::new(Shape {
        shared_slots: 1000,
        ..Shape::DEFAULT
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "shared_slots is 1000, but must be a power of two from 8 to 65536"
    );
}

#[test]
fn wishes_that_are_not_granted_do_no_harm() {
    let wishes = Placement {
        numa_node: Some(1_000_000),
        huge_pages: true,
    };
    let own = OwnSegment::create(Geometry::DEFAULT, wishes).unwrap();
    let granted = own.granted();
    assert!(
        matches!(&granted.numa_node, Grant::Refused(reason) if reason.contains("out of range")),
        "{granted:?}"
    );
    assert_ne!(granted.huge_pages, Grant::NotAsked);
    // The mapping is there, whole, and begins on a border of huge pages.
    assert_eq!((own.sleep().pointer(0).addr() - 128) % (2 << 20), 0);
    let last = own.staging();
    last.word64(last.len() - 8).store(1, Ordering::Relaxed);
    let huge = own.huge_bytes().unwrap();
    match &granted.huge_pages {
        Grant::Granted => println!("huge pages: {huge} bytes"),
        refused => {
            println!("SKIPPED: content of huge pages: {refused}");
            assert_eq!(huge, 0);
        }
    }

    let own = OwnSegment::create(
        Geometry::DEFAULT,
        Placement {
            numa_node: Some(0),
            huge_pages: false,
        },
    )
    .unwrap();
    match &own.granted().numa_node {
        Grant::Granted => {}
        refused => println!("SKIPPED: placement on NUMA node 0: {refused}"),
    }
    assert_eq!(own.granted().huge_pages, Grant::NotAsked);
}

const ROLE: &str = "LIMIC_TEST_ROLE";

fn in_child(role: &str) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "second_process", "--ignored", "--nocapture"])
        .env(ROLE, role)
        .status()
        .unwrap();
    assert!(status.success(), "{role}: {status}");
}

#[test]
fn a_file_size_limit_is_an_error_and_not_a_signal() {
    in_child("file size");
}

#[test]
fn an_address_space_limit_is_an_error() {
    in_child("address space");
}

#[test]
#[ignore = "the second process of the other tests"]
fn second_process() {
    let limit = |resource, bytes| {
        let maximum = getrlimit(resource).maximum;
        setrlimit(
            resource,
            Rlimit {
                current: Some(bytes),
                maximum,
            },
        )
        .unwrap();
    };
    match std::env::var(ROLE).as_deref() {
        Ok("file size") => {
            limit(Resource::Fsize, 1 << 20);
            let error = OwnSegment::create(Geometry::DEFAULT, Placement::default()).unwrap_err();
            let SegmentError::NoMemory { limit, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!(*limit, MemoryLimit::FileSize { limit: 1 << 20 });
            assert!(error.to_string().contains("ulimit -f"), "{error}");
        }
        Ok("address space") => {
            limit(Resource::As, 200 << 20);
            for huge_pages in [false, true] {
                let wishes = Placement {
                    numa_node: None,
                    huge_pages,
                };
                let error = Arena::create(400 << 20, wishes).unwrap_err();
                assert!(
                    matches!(
                        error,
                        SegmentError::Map { .. } | SegmentError::NoMemory { .. }
                    ),
                    "{error}"
                );
                assert!(error.to_string().contains("ulimit -v"), "{error}");
            }
        }
        _ => println!("SKIPPED: only as a second process"),
    }
}
