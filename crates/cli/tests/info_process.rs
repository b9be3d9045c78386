//! `limic info --pid`, on this test's own process.

#![allow(
    clippy::unwrap_used,
    reason = "in a test, a failed unwrap is the report"
)]

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use limic::{Endpoint, HybridEndpoint, Settings};
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::Value;

mod launcher;
use launcher::{err, finish, out};

/// All tests of this file are one process, whose descriptors they look at.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn info(pid: u32, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_limic"));
    command
        .args(["info", "--pid", &pid.to_string()])
        .args(words);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command)
}

fn endpoint() -> HybridEndpoint {
    HybridEndpoint::with(Settings::default()).unwrap()
}

#[test]
fn counts_of_several_endpoints() {
    let _alone = alone();
    let (one, _other) = (endpoint(), endpoint());
    for len in [0, 8, 100_000] {
        let me = one.myself();
        one.send_recv(me, 1_u64, &vec![1; len], (me, 1), &mut vec![0; len])
            .unwrap();
    }
    let output = info(std::process::id(), &["--json"]);
    assert!(output.status.success(), "{}", err(&output));
    let json: Value = serde_json::from_str(&out(&output)).unwrap();
    let endpoints = json["endpoints"].as_array().unwrap();
    // They come in the order of their descriptors, which says nothing of who was first.
    let (busy, idle): (Vec<_>, Vec<_>) = endpoints
        .iter()
        .partition(|endpoint| endpoint["sent"] != serde_json::json!([]));
    assert_eq!((busy.len(), idle.len()), (1, 1), "{json}");
    let wanted = serde_json::json!([{ "path": "self", "messages": 3, "bytes": 100_008 }]);
    assert_eq!(busy[0]["sent"], wanted);
    assert_eq!(busy[0]["received"], wanted);
    assert_eq!(busy[0]["peers"][0]["sent"]["messages"], 3);

    let text = out(&info(std::process::id(), &[]));
    assert!(
        text.starts_with(&format!("process {}", std::process::id())),
        "{text}"
    );
    assert_eq!(text.matches("\nendpoint ").count(), 2, "{text}");
    assert!(text.contains("self"), "{text}");
}

#[test]
fn a_launcher_that_is_asked_leads_to_its_ranks() {
    let _alone = alone();
    let _endpoint = endpoint();
    let output = info(std::os::unix::process::parent_id(), &[]);
    assert_eq!(output.status.code(), Some(1), "{}", out(&output));
    let why = err(&output);
    let mine = format!("{}, ", std::process::id());
    assert!(
        why.contains("processes that it has started have: ") && why.contains(&mine),
        "{why}"
    );
}

#[test]
fn garbage_is_named_and_the_rest_is_shown() {
    let _alone = alone();
    let _good = endpoint();
    // Too short; no page; a page of which every word is wrong.
    let wild: Vec<u8> = (0..100_000_u32)
        .flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect();
    let mut page = wild.clone();
    page[..16].copy_from_slice(&[b"limiccnt".as_slice(), &3_u64.to_ne_bytes()].concat());
    let files = [b"short".to_vec(), wild, page].map(|bytes| {
        let fd = memfd_create("limic-counters", MemfdFlags::CLOEXEC).unwrap();
        let mut file = std::fs::File::from(fd);
        file.write_all(&bytes).unwrap();
        file
    });
    let output = info(std::process::id(), &[]);
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    assert_eq!(
        text.matches("is named like a page of counters, and is none")
            .count(),
        2
    );
    assert!(!text.contains('\x1b'));
    let json: Value = serde_json::from_str(&out(&info(std::process::id(), &["--json"]))).unwrap();
    let endpoints = json["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 4, "{json}");
    let errors = endpoints
        .iter()
        .filter(|endpoint| endpoint["error"].is_string());
    assert_eq!(errors.count(), 2);
    drop(files);
}

/// A job of known size, from its beginning to its end: 3 round trips that are checked, and 2 rounds
/// of 1 + 4.
#[test]
fn a_job_leaves_its_counters_by_rank() {
    const MESSAGES: u64 = 3 + 2 * (1 + 4);
    let directory = tempfile::tempdir().unwrap();
    let mut command = launcher::run(&["-n", "2", env!("CARGO_BIN_EXE_limic"), "perf", "latency"]);
    command.args([
        "--sizes",
        "1000",
        "--iterations",
        "4",
        "--warmup",
        "1",
        "--rounds",
        "2",
    ]);
    command.env("LIMIC_STATS", directory.path().join("%r.json"));
    let output = finish(command);
    assert!(output.status.success(), "{}", err(&output));
    for rank in 0..2_u64 {
        let text = std::fs::read_to_string(directory.path().join(format!("{rank}.json"))).unwrap();
        let json: Value = serde_json::from_str(&text).expect("one endpoint");
        assert_eq!(
            (&json["rank"], &json["closed"]),
            (&rank.into(), &true.into())
        );
        let wanted = serde_json::json!([{ "path": "eager", "messages": MESSAGES, "bytes": 1000 * MESSAGES }]);
        assert_eq!((&json["sent"], &json["received"]), (&wanted, &wanted));
        let sizes =
            serde_json::json!([{ "from_bytes": 512, "to_bytes": 1023, "messages": MESSAGES }]);
        assert_eq!(json["sizes"], sizes);
        let other = json["peers"].as_array().unwrap();
        assert_eq!((other.len(), &other[0]["peer"]), (1, &(1 - rank).into()));
        assert!(json["events"]["waited"].is_u64());
    }
}

#[test]
fn a_process_without_limic_says_so() {
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    let output = info(sleeper.id(), &[]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err(&output).contains("has no endpoint of limic"),
        "{}",
        err(&output)
    );

    let output = info(4_194_305, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err(&output).contains("there is no process"),
        "{}",
        err(&output)
    );
}
