//! Single copy from another process by size, and the copy loops of the rings beside libc's
//! `memcpy`.
//!
//! The peer is this program started again, with a buffer that it only keeps.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use criterion::{Criterion, Throughput};
use limic_copy::{Cma, CmaPeer, CopyEngine, LocalSliceMut, ProbeWord, RemoteRange};

const ROLE: &str = "LIMIC_BENCH_COPY_PEER";
const LARGEST: usize = 4 << 20;

/// The peer: says where its buffer and its probe word are, and ends with its parent.
fn keep_a_buffer() {
    let word = ProbeWord::new(0x6265_6e63_6800 + u64::from(std::process::id()));
    // Not zeroes: they would all be the kernel's one zero page.
    let bytes = vec![1_u8; LARGEST];
    limic_copy::allow_peers();
    let address = bytes.as_ptr().expose_provenance();
    println!("{address} {} {}", word.address(), word.value());
    // End-of-file is the sign, and so is an error.
    let _ = std::io::stdin().read(&mut [0]);
}

/// Starts the peer; `None`, with the reason on standard error, if its memory cannot be read.
fn start_peer() -> Option<(Child, CmaPeer, u64)> {
    let program = std::env::current_exe().expect("this program has a path");
    let mut child = Command::new(program)
        .env(ROLE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be started again");
    let mut line = String::new();
    let output = child.stdout.take().expect("it is a pipe");
    BufReader::new(output)
        .read_line(&mut line)
        .expect("the peer speaks");
    let numbers: Vec<u64> = line
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    let [address, word, value] = numbers[..] else {
        panic!("the peer said {line:?}")
    };
    let pid = i32::try_from(child.id()).expect("a pid is an i32");
    match Cma::probe(pid, word, value) {
        Ok(peer) => Some((child, peer, address)),
        Err(refused) => {
            eprintln!("SKIPPED: CMA: {refused}");
            // Its end of the pipe closes, so it ends by itself.
            drop(child.stdin.take());
            child.wait().expect("the peer ends");
            None
        }
    }
}

fn reads(criterion: &mut Criterion) {
    let Some((mut child, peer, address)) = start_peer() else {
        return;
    };
    let mut group = criterion.benchmark_group("cma_read");
    let mut bytes = vec![0_u8; LARGEST];
    for len in [8_usize, 4096, 64 << 10, 1 << 20, LARGEST] {
        let remote = [RemoteRange {
            key: 0,
            address,
            len: len as u64,
        }];
        let local = [LocalSliceMut::from(&mut bytes[..len])];
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(len.to_string(), |bencher| {
            bencher.iter(|| {
                // SAFETY: `local` is a part of `bytes`, which nothing else touches meanwhile.
                let copied = unsafe { Cma.read(&peer, &remote, &local) };
                assert_eq!(copied, Ok(len as u64));
            });
        });
    }
    group.finish();
    drop(child.stdin.take());
    child.wait().expect("the peer ends");
}

fn loops(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("copy_loop");
    for len in [8_usize, 48, 200, 1024, 16 << 10, 256 << 10] {
        let (from, mut to) = (vec![1_u8; len], vec![0_u8; len]);
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(format!("ring/{len}"), |bencher| {
            bencher.iter(|| {
                let (from, to) = (black_box(&from[..]), black_box(&mut to[..]));
                // SAFETY: both have `len` bytes, in two allocations.
                unsafe { limic_shm::ring::copy_bytes(from.as_ptr(), to.as_mut_ptr(), from.len()) }
            });
        });
        group.bench_function(format!("memcpy/{len}"), |bencher| {
            bencher.iter(|| black_box(&mut to[..]).copy_from_slice(black_box(&from)));
        });
    }
    group.finish();
}

fn main() {
    if std::env::var_os(ROLE).is_some() {
        keep_a_buffer();
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    reads(&mut criterion);
    loops(&mut criterion);
    criterion.final_summary();
}
