//! Each system call of a rank that opens an endpoint, meets another rank, sends, receives and
//! closes fails once. Either no endpoint is opened, and it says why; or all messages arrive.
//! Nothing leaks.

use std::time::{Duration, Instant};

use libc::{c_int, c_long};
use limic::settings::{Path, Settings};
use limic::{Address, Endpoint, Error, HybridEndpoint, Peer};
use limic_tests::failing::FailingCalls;
use limic_tests::process::{mappings, open_descriptors};
use limic_tests::{Cast, Rank, check, content, skip};

const LENGTHS: [usize; 3] = [8, 5000, 300_000];
/// The message to the rank whose calls fail.
const BACK: u64 = 9;
/// Far beyond what anything takes here.
const PATIENCE: Duration = Duration::from_secs(20);

const CALLS: &[(&str, c_long, c_int)] = &[
    ("memfd_create", libc::SYS_memfd_create, libc::EMFILE),
    ("ftruncate", libc::SYS_ftruncate, libc::ENOMEM),
    ("mmap", libc::SYS_mmap, libc::ENOMEM),
    ("fallocate", libc::SYS_fallocate, libc::ENOMEM),
    ("pread64", libc::SYS_pread64, libc::ENOMEM),
    ("socketpair", libc::SYS_socketpair, libc::EMFILE),
    ("epoll_create1", libc::SYS_epoll_create1, libc::EMFILE),
    ("epoll_ctl", libc::SYS_epoll_ctl, libc::ENOMEM),
    ("socket", libc::SYS_socket, libc::EMFILE),
    ("bind", libc::SYS_bind, libc::ENOMEM),
    ("listen", libc::SYS_listen, libc::ENOMEM),
    ("connect", libc::SYS_connect, libc::EAGAIN),
    ("accept4", libc::SYS_accept4, libc::EMFILE),
    ("sendmsg", libc::SYS_sendmsg, libc::EAGAIN),
    ("sendmsg, memory", libc::SYS_sendmsg, libc::ENOBUFS),
    ("recvmsg", libc::SYS_recvmsg, libc::EAGAIN),
    ("recvmsg, memory", libc::SYS_recvmsg, libc::ENOMEM),
    ("recvfrom", libc::SYS_recvfrom, libc::ENOMEM),
    ("fcntl", libc::SYS_fcntl, libc::EMFILE),
    // One of the two, as the kernel has it.
    ("pidfd_open", libc::SYS_pidfd_open, libc::EMFILE),
    ("getsockopt", libc::SYS_getsockopt, libc::EMFILE),
    ("setsockopt", libc::SYS_setsockopt, libc::ENOPROTOOPT),
    ("sendto", libc::SYS_sendto, libc::EAGAIN),
    ("sendto, memory", libc::SYS_sendto, libc::ENOBUFS),
    ("process_vm_readv", libc::SYS_process_vm_readv, libc::ENOMEM),
    (
        "process_vm_readv, split",
        libc::SYS_process_vm_readv,
        libc::ENOMEM,
    ),
    (
        "process_vm_writev, split",
        libc::SYS_process_vm_writev,
        libc::ENOMEM,
    ),
    ("membarrier", libc::SYS_membarrier, libc::EPERM),
    ("madvise", libc::SYS_madvise, libc::EINVAL),
    ("munmap", libc::SYS_munmap, libc::ENOMEM),
    ("openat", libc::SYS_openat, libc::EMFILE),
    ("read", libc::SYS_read, libc::EIO),
    ("epoll_pwait", libc::SYS_epoll_pwait, libc::EINTR),
    ("ppoll", libc::SYS_ppoll, libc::EINTR),
    ("getrandom", libc::SYS_getrandom, libc::EINTR),
];

/// The kernel always says what a socket is, and who is at its other end. Where it does not, the
/// peer is given up.
const GIVES_UP: &str = "getsockopt";

/// With this in the name of a case, both ranks copy long messages.
const SPLIT: &str = "split";

fn open(what: &str) -> Result<HybridEndpoint, Error> {
    let settings = Settings::builder();
    let settings = match what.contains(SPLIT) {
        true => settings.long_path(Path::SplitCopy),
        false => settings,
    };
    HybridEndpoint::with(settings.build().expect("settings"))
}

/// What the rank whose calls fail does. `true`: it has an endpoint.
fn fails(rank: &Rank, what: &str) -> bool {
    let gives_up = what.starts_with(GIVES_UP);
    let endpoint = match open(what) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            println!("REPORT: {what}: open: {error}");
            let _ = rank.link.exchange(&[]);
            return false;
        }
    };
    let blobs = rank.link.exchange(&endpoint.address().to_bytes());
    let address = blobs[1].as_deref().expect("the other rank lives");
    let other = endpoint.connect(address).expect("an address");
    let sent: Vec<u8> = (0..)
        .zip(LENGTHS)
        .map(|(tag, len)| {
            let attempt = || send(&endpoint, other, tag, len, what);
            u8::from(attempt() || attempt())
        })
        .collect();
    let receive = endpoint.irecv((other, BACK), vec![0; LENGTHS[2]]);
    match receive {
        Ok(mut receive) => {
            let done = receive.wait_timeout(PATIENCE);
            assert!(done, "{what}: a receive does not end");
            match receive.wait() {
                Ok((_, bytes)) => check(BACK, &bytes),
                Err(error) => assert!(gives_up, "{what}: receive: {error}"),
            }
        }
        Err(error) => assert!(gives_up, "{what}: receive: {error}"),
    }
    let all = sent.iter().all(|sent| *sent == 1);
    assert!(all || gives_up, "{what}: {sent:?} were sent");
    let _ = rank.link.exchange_while(&sent, || {
        endpoint.progress();
    });
    true
}

/// Whether the message is sent. It ends in any case.
fn send(endpoint: &HybridEndpoint, to: Peer, tag: u64, len: usize, what: &str) -> bool {
    let outcome = endpoint
        .isend(to, tag, content(tag, len))
        .and_then(|mut send| {
            let done = send.wait_timeout(PATIENCE);
            assert!(done, "{what}: a send of {len} bytes does not end");
            send.wait()
        });
    if let Err(error) = &outcome {
        println!("REPORT: {what}: {len} bytes: {error}");
    }
    outcome.is_ok()
}

/// What the other rank does meanwhile.
fn works(rank: &Rank, name: &str) {
    let endpoint = open(name).expect("open");
    let blobs = rank.link.exchange(&endpoint.address().to_bytes());
    let address = blobs[0].as_deref().expect("the other rank lives");
    let Ok(address) = Address::from_bytes(address) else {
        return;
    };
    let other = endpoint.connect(&address.to_bytes()).expect("an address");
    let receives = (0..).zip(LENGTHS).map(|(tag, len)| {
        let receive = endpoint.irecv((other, tag), vec![0; len]);
        receive.expect("nothing is known of it yet")
    });
    let receives: Vec<_> = receives.collect();
    let back = endpoint.isend(other, BACK, content(BACK, LENGTHS[2]));
    let blobs = rank.link.exchange_while(&[], || {
        endpoint.progress();
        // So that others have to ring.
        endpoint.sleep(Some(Duration::from_millis(2)));
    });
    let sent = blobs[0].as_deref().expect("the other rank lives");
    for (tag, mut receive) in (0..).zip(receives) {
        if sent[tag as usize] == 1 {
            assert!(receive.wait_timeout(PATIENCE), "message {tag} is missing");
            match receive.wait() {
                Ok((_, bytes)) => check(tag, &bytes),
                Err(Error::PeerFailed { why, .. }) if name == GIVES_UP => {
                    println!("REPORT: message {tag}: {why}");
                }
                Err(other) => panic!("{name}: message {tag}: {other}"),
            }
        }
    }
    drop(back);
}

#[test]
fn every_system_call_may_fail_once() {
    let cast = Cast::new("every_system_call_may_fail_once").limit(6 * Duration::from_secs(60));
    cast.run(|rank| {
        let numbers = CALLS.iter().map(|call| call.1);
        let numbers: Vec<c_long> = numbers.filter(|n| *n != libc::SYS_mmap).collect();
        let failing = match rank.rank {
            0 => Some(FailingCalls::of_this_thread(&numbers)),
            _ => None,
        };
        let possible = !matches!(failing, Some(Err(_)));
        if rank.link.exchange(&[u8::from(possible)])[0].as_deref() != Some(&[1]) {
            return skip("seccomp has no notifications here");
        }
        let mut failures = 0;
        for &(name, call, errno) in CALLS {
            for nth in 1.. {
                let Some(Ok(failing)) = &failing else {
                    works(rank, name);
                    if rank.link.exchange(&[])[0].as_deref() == Some(&[0]) {
                        break;
                    }
                    continue;
                };
                let what = format!("{name} {nth}");
                let before = (open_descriptors(), mappings());
                failing.fail(call, nth, errno);
                let is_open = fails(rank, &what);
                let has_failed = failing.end();
                // Where the kernel does not say what a descriptor is, a thread closes it.
                let begin = Instant::now();
                while open_descriptors() > before.0 && begin.elapsed() < PATIENCE {
                    std::thread::yield_now();
                }
                let after = (open_descriptors(), mappings());
                println!("{what}: {before:?} {after:?}");
                assert!(
                    after.0 <= before.0,
                    "{what}: descriptors, {before:?} {after:?}"
                );
                assert!(
                    after.1 <= before.1 + 8,
                    "{what}: mappings, {before:?} {after:?}"
                );
                assert!(has_failed || is_open, "{what}: no call failed");
                let _ = rank.link.exchange(&[u8::from(has_failed)]);
                if !has_failed {
                    println!("REPORT: {name} failed {} times, once each", nth - 1);
                    failures += nth - 1;
                    break;
                }
            }
        }
        assert!(rank.rank == 1 || failures >= 20, "{failures} calls failed");
    });
}
