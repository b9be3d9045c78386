//! Reading and writing a peer's memory.

use std::sync::atomic::{AtomicU64, Ordering};

use limic_copy::{Access, Cma, CmaPeer, CopyEngine, CopyError, LocalSlice, LocalSliceMut};
use limic_copy::{ProbeWord, RemoteRange};

use crate::available;
use crate::peer::{HALF, Peer, pattern, sum};

const MIB: usize = 1 << 20;

/// A part of `range`.
fn part(range: RemoteRange, offset: usize, len: usize) -> RemoteRange {
    RemoteRange {
        key: range.key,
        address: range.address + offset as u64,
        len: len as u64,
    }
}

/// `bytes` cut into slices of `size`, which may leave a shorter last one.
fn cut_mut(bytes: &mut [u8], size: usize) -> Vec<LocalSliceMut> {
    bytes.chunks_mut(size).map(LocalSliceMut::from).collect()
}

fn cut(bytes: &[u8], size: usize) -> Vec<LocalSlice> {
    bytes.chunks(size).map(LocalSlice::from).collect()
}

fn cut_remote(range: RemoteRange, size: u64) -> Vec<RemoteRange> {
    let slices = 0..range.len.div_ceil(size);
    slices
        .map(|slice| RemoteRange {
            key: 0,
            address: range.address + slice * size,
            len: size.min(range.len - slice * size),
        })
        .collect()
}

fn read(
    peer: &CmaPeer,
    remote: &[RemoteRange],
    bytes: &mut [u8],
    size: usize,
) -> Result<u64, CopyError> {
    let local = cut_mut(bytes, size);
    // SAFETY: the slices are those of `bytes`, borrowed mutably for the whole call.
    unsafe { Cma.read(peer, remote, &local) }
}

fn write(
    peer: &CmaPeer,
    remote: &[RemoteRange],
    bytes: &[u8],
    size: usize,
) -> Result<u64, CopyError> {
    let local = cut(bytes, size);
    // SAFETY: the slices are those of `bytes`, borrowed for the whole call; the peer expects the
    // write.
    unsafe { Cma.write(peer, remote, &local) }
}

#[test]
fn reads_of_all_sizes_and_alignments() {
    if !available("reads_of_all_sizes_and_alignments") {
        return;
    }
    let (_peer, target, range) = Peer::with_buffer(&format!("buffer {}", 8 * MIB + 64));
    for len in [1, 7, 64, 4095, 4096, 4097, 65_539, MIB, 8 * MIB] {
        for offset in [0, 1, 13] {
            let mut bytes = vec![0; len + 2];
            let remote = [part(range, offset, len)];
            let copied = read(&target, &remote, &mut bytes[1..=len], len).unwrap();
            assert_eq!(copied, len as u64);
            assert_eq!((bytes[0], bytes[len + 1]), (0, 0));
            let right = |(index, &byte)| byte == pattern(offset + index);
            assert!(
                bytes[1..=len].iter().enumerate().all(right),
                "{len} at {offset}"
            );
        }
    }
}

#[test]
fn writes_of_all_sizes_change_what_they_should_and_no_more() {
    if !available("writes_of_all_sizes_change_what_they_should_and_no_more") {
        return;
    }
    let total = 8 * MIB + 64;
    let (mut peer, target, range) = Peer::with_buffer(&format!("buffer {total}"));
    let mut model: Vec<u8> = (0..total).map(pattern).collect();
    for (round, len) in [1, 7, 4095, 4097, 65_539, MIB, 8 * MIB]
        .into_iter()
        .enumerate()
    {
        let offset = 3 * round + 1;
        let bytes = vec![round as u8 ^ 0x5a; len];
        assert_eq!(
            write(&target, &[part(range, offset, len)], &bytes, len),
            Ok(len as u64)
        );
        model[offset..offset + len].copy_from_slice(&bytes);
        assert_eq!(peer.sum(0, total), sum(&model), "{len} at {offset}");
    }
}

#[test]
fn lists_of_different_shapes() {
    if !available("lists_of_different_shapes") {
        return;
    }
    let total = 300_007;
    let (mut peer, target, range) = Peer::with_buffer(&format!("buffer {total}"));
    let expected: Vec<u8> = (0..total).map(pattern).collect();
    // Up to 42 858 slices on a side, far over the 1024 of one system call.
    for (remote_size, local_size) in [
        (7, total),
        (total, 7),
        (100, 33),
        (33, 100),
        (50_000, 20_000),
    ] {
        let remote = cut_remote(range, remote_size as u64);
        let mut bytes = vec![0; total];
        assert_eq!(
            read(&target, &remote, &mut bytes, local_size),
            Ok(total as u64)
        );
        assert!(bytes == expected, "read {remote_size} into {local_size}");

        bytes.reverse();
        assert_eq!(
            write(&target, &remote, &bytes, local_size),
            Ok(total as u64)
        );
        assert_eq!(
            peer.sum(0, total),
            sum(&bytes),
            "write {local_size} into {remote_size}"
        );
        assert_eq!(
            write(&target, &remote, &expected, local_size),
            Ok(total as u64)
        );
    }
}

#[test]
fn a_long_message_in_bounded_steps() {
    if !available("a_long_message_in_bounded_steps") {
        return;
    }
    let total = MIB + 11;
    let (_peer, target, range) = Peer::with_buffer(&format!("buffer {total}"));
    let remote = cut_remote(range, 70_001);
    let mut bytes = vec![0; total];
    let local = cut_mut(&mut bytes, 50_003);
    let (mut done, mut steps) = (0, 0);
    loop {
        // SAFETY: the slices are those of `bytes`, which nothing else touches meanwhile.
        let copied = unsafe { Cma.read_at(&target, &remote, &local, done, 100_000) }.unwrap();
        if copied == 0 {
            break;
        }
        done += copied;
        steps += 1;
    }
    assert_eq!((done, steps), (total as u64, 11));
    assert!(
        bytes
            .iter()
            .enumerate()
            .all(|(index, &byte)| byte == pattern(index))
    );
}

#[test]
fn memory_that_is_not_mapped_tells_how_far_it_went() {
    if !available("memory_that_is_not_mapped_tells_how_far_it_went") {
        return;
    }
    let (_peer, target, range) = Peer::with_buffer("half");
    for offset in [0, 1, 4096, 5000] {
        let len = 2 * HALF - offset;
        let error = Err(CopyError::BadAddress {
            copied: (HALF - offset) as u64,
        });
        let mut bytes = vec![0; len];
        let remote = [part(range, offset, len)];
        assert_eq!(read(&target, &remote, &mut bytes, len), error);
        assert!(bytes[..HALF - offset].iter().all(|&byte| byte == 7));
        assert_eq!(write(&target, &remote, &vec![7; len], 999), error);
    }
    let mut bytes = [0; 8];
    let error = read(&target, &[part(range, HALF, 8)], &mut bytes, 8).unwrap_err();
    assert_eq!((error.copied(), error.errno()), (0, Some(libc::EFAULT)));
}

#[test]
fn a_killed_peer_is_gone() {
    if !available("a_killed_peer_is_gone") {
        return;
    }
    let (mut peer, target, range) = Peer::with_buffer("buffer 4096");
    let mut bytes = [0; 4096];
    assert_eq!(read(&target, &[range], &mut bytes, 4096), Ok(4096));
    peer.kill();
    assert_eq!(
        read(&target, &[range], &mut bytes, 4096),
        Err(CopyError::PeerGone)
    );
    peer.reap();
    assert_eq!(
        write(&target, &[range], &bytes, 4096),
        Err(CopyError::PeerGone)
    );
}

#[test]
fn another_process_with_the_pid_of_a_peer_is_not_read() {
    if !available("another_process_with_the_pid_of_a_peer_is_not_read") {
        return;
    }
    let word = AtomicU64::new(7);
    let pid = i32::try_from(std::process::id()).unwrap();
    let target = Cma::probe(pid, word.as_ptr().expose_provenance() as u64, 7).unwrap();
    let theirs = vec![1_u8; MIB];
    let range = RemoteRange {
        key: 0,
        address: theirs.as_ptr().expose_provenance() as u64,
        len: MIB as u64,
    };
    let mut bytes = vec![0; MIB];
    assert_eq!(read(&target, &[range], &mut bytes, 1000), Ok(MIB as u64));
    // As where the peer has ended, or runs another program.
    word.store(8, Ordering::Relaxed);
    for size in [MIB, 1000] {
        assert_eq!(
            read(&target, &[range], &mut bytes, size),
            Err(CopyError::PeerGone)
        );
    }
}

#[test]
fn mistakes_in_a_call_are_told() {
    if !available("mistakes_in_a_call_are_told") {
        return;
    }
    let word = ProbeWord::new(5);
    let pid = i32::try_from(std::process::id()).unwrap();
    let this = Cma::probe(pid, word.address(), 5).unwrap();
    let source = *b"single copy";
    let slices = [
        LocalSlice::from(&source[..6]),
        LocalSlice::from(&source[6..]),
    ];
    let mut ranges = [RemoteRange::default(); 2];
    // SAFETY: `source` lives to the end of the test and is only read.
    let exposed = unsafe { Cma.expose(&slices, Access::Read, &mut ranges) };
    assert_eq!(exposed, Ok(2));
    // SAFETY: as above.
    let exposed = unsafe { Cma.expose(&slices, Access::Read, &mut ranges[..1]) };
    assert_eq!(exposed, Err(CopyError::ListTooShort { have: 1, need: 2 }));

    let mut target = [0; 11];
    let error = read(&this, &ranges, &mut target[..10], 10);
    assert_eq!(
        error,
        Err(CopyError::LengthMismatch {
            remote: 11,
            local: 10
        })
    );
    let local = [LocalSliceMut::from(&mut target[..])];
    // SAFETY: `target` is borrowed by nobody else.
    let error = unsafe { Cma.read_at(&this, &ranges, &local, 12, 1) };
    assert_eq!(
        error,
        Err(CopyError::SkipTooLong {
            skip: 12,
            total: 11
        })
    );
    assert_eq!(read(&this, &ranges, &mut target, 4), Ok(11));
    assert_eq!(target, source);
    assert_eq!(Cma.revoke(&ranges), Ok(()));
}
