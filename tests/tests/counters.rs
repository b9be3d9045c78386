//! Counters that others read: at the end of an endpoint or a process, and from outside while it
//! runs.

use std::path::Path as FilePath;

use limic::counters::{CountersError, Event, Found, Page, Traffic, of_process};
use limic::settings::Path;
use limic::{Endpoint, HybridEndpoint, Peer, Settings};
use limic_tests::process::idle_child;
use limic_tests::{Cast, Rank, content, skip};

const NOBODY: u32 = 65_534;
const LENGTHS: [usize; 6] = [0, 8, 40, 1000, 300_000, 1 << 20];

fn open(settings: &[(&str, &str)]) -> HybridEndpoint {
    let settings = Settings::builder().with_environment(settings.iter().copied());
    HybridEndpoint::with(settings.build().expect("settings")).expect("open")
}

/// Rank 0 sends one message of each length to rank 1.
fn exchange(rank: &Rank, endpoint: &HybridEndpoint) -> Peer {
    let other = rank.connect(endpoint)[1 - rank.rank as usize];
    for (tag, len) in (1_u64..).zip(LENGTHS) {
        if rank.rank == 0 {
            endpoint.send(other, tag, &content(tag, len)).expect("send");
        } else {
            endpoint
                .recv((other, tag), &mut vec![0; len])
                .expect("recv");
        }
    }
    rank.link.meet(endpoint);
    other
}

fn all() -> Traffic {
    Traffic {
        messages: LENGTHS.len() as u64,
        bytes: LENGTHS.iter().sum::<usize>() as u64,
    }
}

fn sum(paths: &[(Path, Traffic)]) -> Traffic {
    paths
        .iter()
        .fold(Traffic::default(), |sum, (_, part)| Traffic {
            messages: sum.messages + part.messages,
            bytes: sum.bytes + part.bytes,
        })
}

fn the_only(found: &[Found]) -> &Page {
    let [found] = found else {
        panic!("one endpoint: {found:?}");
    };
    found.page.as_ref().expect("a page")
}

fn pids(rank: &Rank) -> Vec<u32> {
    let pids = rank.link.exchange(&std::process::id().to_le_bytes());
    let pid = |bytes: Option<Vec<u8>>| {
        let bytes = bytes.expect("alive");
        u32::from_le_bytes(bytes[..].try_into().expect("4 bytes"))
    };
    pids.into_iter().map(pid).collect()
}

fn read(path: &FilePath) -> String {
    std::fs::read_to_string(path).expect("the counters were written")
}

/// Text and JSON, of what was closed, in the order of closing, and one that nobody closed.
#[test]
fn counters_are_written_at_the_end() {
    Cast::new("counters_are_written_at_the_end").run(|rank| {
        let file = |name: &str| rank.directory.join(name).display().to_string();
        let (text, json) = (file("%r.%p.txt"), file("%p.json"));
        let endpoint = open(&[("LIMIC_STATS", &text)]);
        exchange(rank, &endpoint);
        drop(endpoint);
        let name = file(&format!("0.{}.txt", std::process::id()));
        let text = read(name.as_ref());
        assert!(text.starts_with("limic counters: endpoint "), "{text}");
        assert!(text.contains(", closed\n"), "{text}");
        let title = ["sent by path", "received by path"][rank.rank as usize];
        assert!(text.contains(title), "{text}");
        assert!(text.contains("256K to <512K") == (rank.rank == 0), "{text}");

        // Two endpoints, one after the other, in one file.
        drop(open(&[("LIMIC_STATS", &json)]));
        let endpoint = open(&[("LIMIC_STATS", &json)]);
        exchange(rank, &endpoint);
        drop(endpoint);
        let json = read(json.replace("%p", &std::process::id().to_string()).as_ref());
        let lines: Vec<&str> = json.lines().collect();
        assert_eq!(lines.len(), 2, "{json}");
        assert!(
            lines.iter().all(|line| line.contains(r#""closed":true"#)),
            "{json}"
        );
        assert!(lines[0].contains(r#""sent":[],"received":[]"#), "{json}");
        assert!(lines[1].contains(r#""messages":"#), "{json}");
    });
}

/// What `exit` wrote is looked at by the next process.
#[test]
fn counters_of_an_endpoint_that_nobody_closed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("stats.json");
    if let Some(target) = std::env::var_os("LIMIC_TEST_STATS") {
        let endpoint = open(&[("LIMIC_STATS", target.to_str().expect("UTF-8"))]);
        let me = endpoint.myself();
        endpoint.send(me, 1_u64, &[1; 100]).expect("send");
        endpoint.recv((me, 1), &mut [0; 100]).expect("recv");
        std::mem::forget(endpoint);
        std::process::exit(0);
    }
    let ended = std::process::Command::new(std::env::current_exe().expect("a path"))
        .args(["counters_of_an_endpoint_that_nobody_closed", "--exact"])
        .env("LIMIC_TEST_STATS", &path)
        .output()
        .expect("this program starts again");
    assert!(ended.status.success(), "{ended:?}");
    let text = read(&path);
    assert_eq!(text.lines().count(), 1, "{text}");
    for part in [
        r#""closed":false"#,
        r#""sent":[{"path":"self","messages":1,"bytes":100}]"#,
        r#""received":[{"path":"self","messages":1,"bytes":100}]"#,
        r#""sizes":[{"from_bytes":64,"to_bytes":127,"messages":1}]"#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_at_once() {
    let settings = Settings::builder().with_environment([("LIMIC_STATS", "/dev/null/x")]);
    let opened = HybridEndpoint::with(settings.build().expect("settings"));
    let error = opened.expect_err("no such directory").to_string();
    assert!(error.contains("LIMIC_STATS: /dev/null/x: "), "{error}");
}

/// Rank 1 stops rank 0, reads what it has counted, and lets it go on.
#[test]
fn a_stopped_process_is_read() {
    Cast::new("a_stopped_process_is_read").run(|rank| {
        let endpoint = open(&[]);
        let other = exchange(rank, &endpoint);
        let pids = pids(rank);
        if rank.rank == 1 {
            let sender = nix::unistd::Pid::from_raw(pids[0] as i32);
            nix::sys::signal::kill(sender, nix::sys::signal::Signal::SIGSTOP).expect("kill");
            wait_until_stopped(pids[0]);
            let found = of_process(pids[0]);
            nix::sys::signal::kill(sender, nix::sys::signal::Signal::SIGCONT).expect("kill");
            let found = found.expect("a process of the same user");
            let page = the_only(&found);
            assert_eq!((page.process, page.closed), (pids[0], false));
            assert_eq!(sum(&page.counters.sent_paths), all());
            assert_eq!(sum(&page.counters.received_paths), Traffic::default());
            assert_eq!(page.counters.sizes.iter().sum::<u64>(), all().messages);
            assert_eq!(page.peers.len(), 1);
            assert_eq!((page.peers[0].peer.index(), page.peers[0].sent), (1, all()));
            assert!(!found[0].inherited);
            // The own page, from outside and from inside.
            let mine = of_process(pids[1]).expect("this process");
            let mine = the_only(&mine);
            let counters = endpoint.counters();
            assert_eq!(mine.counters.received_paths, counters.received_paths);
            assert_eq!(sum(&counters.received_paths), all());
            assert_eq!(counters.event(Event::Attached), 1);
        }
        rank.link.meet(&endpoint);
        // It still works.
        if rank.rank == 0 {
            endpoint.send(other, 99_u64, &[1; 8]).expect("send");
        } else {
            endpoint.recv((other, 99), &mut [0; 8]).expect("recv");
        }
        rank.link.meet(&endpoint);
    });
}

fn wait_until_stopped(pid: u32) {
    let stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        stat.rsplit(')')
            .next()
            .expect("a state")
            .trim()
            .starts_with('T')
    };
    // The harness's watchdog bounds it.
    while !stopped() {
        std::thread::yield_now();
    }
}

#[test]
fn another_users_process_is_refused() {
    let root = nix::unistd::geteuid().is_root();
    if !root && std::env::var_os("LIMIC_TEST_RANK").is_none() {
        return skip("only root can become another user");
    }
    Cast::new("another_users_process_is_refused").run(|rank| {
        let endpoint = open(&[]);
        let pids = pids(rank);
        if rank.rank == 1 {
            nix::unistd::setgroups(&[]).expect("setgroups");
            nix::unistd::setgid(NOBODY.into()).expect("setgid");
            nix::unistd::setuid(NOBODY.into()).expect("setuid");
            let error = of_process(pids[0]).expect_err("another user's");
            assert!(
                matches!(error, CountersError::Refused { pid, owner: 0 } if pid == pids[0]),
                "{error:?}"
            );
            assert!(error.to_string().contains("CAP_SYS_PTRACE"), "{error}");
        }
        rank.link.meet(&endpoint);
    });
}

/// A child that was forked has its parent's descriptors, and nothing to report.
#[test]
fn a_child_has_inherited_its_parents_counters() {
    Cast::new("a_child_has_inherited_its_parents_counters")
        .ranks(1)
        .run(|rank| {
            let file = rank.directory.join("stats.txt");
            let endpoint = open(&[("LIMIC_STATS", file.to_str().expect("UTF-8"))]);
            let child = idle_child();
            let found = of_process(child as u32).expect("an own child");
            assert_eq!(the_only(&found).process, std::process::id());
            assert!(found[0].inherited);
            let child = nix::unistd::Pid::from_raw(child);
            nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).expect("kill");
            nix::sys::wait::waitpid(child, None).expect("it has ended");
            drop(endpoint);
            assert_eq!(read(&file).matches("limic counters:").count(), 1);
        });
}

/// Why a path is not taken is told, and peers that failed.
#[test]
fn reasons_are_told() {
    Cast::new("reasons_are_told").dies(1).run(|rank| {
        let endpoint = open(&[]);
        let other = exchange(rank, &endpoint);
        if rank.rank == 1 {
            nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).expect("raise");
        }
        endpoint.recv((other, 1), &mut [0; 8]).expect_err("it died");
        let counters = endpoint.counters();
        assert_eq!(counters.event(Event::PeersFailed), 1);
        let reason = counters.reasons.iter().find(|reason| reason.path.is_none());
        let reason = reason.expect("why the peer failed");
        assert_eq!((reason.peer, reason.times), (Some(other), 1));
    });
}
