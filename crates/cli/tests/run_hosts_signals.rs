//! `limic run --hosts`: signals to the launcher, at each time of a job, and readers that rest.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod launcher;

use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use launcher::login::{HERE, Login};
use launcher::*;
use rustix::process::Signal;

/// A job of two hosts, whose ranks have said that they are ready.
fn two_that_are_ready(script: &str) -> (Login, Child, Lines) {
    let login = Login::new(HERE);
    let mut child = login
        .run_script(&["--hosts=a,b", "-n2"], script)
        .spawn()
        .unwrap();
    let lines = Lines::of(&mut child);
    assert_eq!([lines.next(), lines.next()], ["ready", "ready"]);
    (login, child, lines)
}

#[test]
fn signals_are_passed_on_to_all_hosts() {
    let script = "trap 'echo got; exit 0' USR1; echo ready; while :; do sleep 0.01; done";
    let (_login, child, lines) = two_that_are_ready(script);
    signal(&child, Signal::USR1);
    assert_eq!([lines.next(), lines.next()], ["got", "got"]);
    assert!(collect(child).status.success());
}

#[test]
fn a_job_that_stops_goes_on_on_all_hosts() {
    let script = "trap 'echo on; exit 0' CONT; echo ready; while :; do sleep 0.01; done";
    let (_login, child, lines) = two_that_are_ready(script);
    signal(&child, Signal::TSTP);
    wait_for_stop(&child);
    signal(&child, Signal::CONT);
    assert!(collect(child).status.success());
    assert_eq!(lines.rest(), ["on", "on"]);
}

#[test]
fn a_signal_that_the_launcher_ignores_reaches_no_host() {
    let script = "trap 'exit 0' USR1; echo ready; while :; do sleep 0.01; done";
    let login = Login::new("exec env --default-signal=HUP sh -c \"$2\"");
    let command = login.run_script(&["--hosts=a", "-n1"], script);
    let mut child = ignoring("HUP", &command).spawn().unwrap();
    let lines = Lines::of(&mut child);
    assert_eq!(lines.next(), "ready");
    signal(&child, Signal::HUP);
    signal(&child, Signal::USR1);
    assert_eq!(collect(child).status.code(), Some(0));
}

/// Logs in to a host, says so, and takes a while.
fn slow_login(wait: &str) -> (Login, Child, Lines) {
    let login = Login::new(&format!("echo waiting >&2; {wait}; exec sh -c \"$2\""));
    let mut child = login
        .run(&["--hosts=a", "-n1", "echo", "hi"])
        .spawn()
        .unwrap();
    let errors = Lines::from(child.stderr.take().unwrap());
    assert_eq!(errors.next(), "waiting");
    (login, child, errors)
}

#[test]
fn a_signal_during_the_login_does_no_harm() {
    let (_login, child, errors) = slow_login("sleep 1");
    signal(&child, Signal::USR1);
    let output = collect(child);
    assert_eq!(output.status.code(), Some(0), "{:?}", errors.rest());
    assert_eq!(out(&output), "hi\n");
}

#[test]
fn a_signal_that_ends_comes_before_the_login_does() {
    for (name, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for wait in ["sleep 1", "sleep 1000"] {
            let (_login, child, errors) = slow_login(wait);
            signal(&child, name);
            let output = collect(child);
            assert_eq!(output.status.code(), Some(code), "{wait}");
            assert_eq!(out(&output), "");
            assert_eq!(errors.rest(), Vec::<String>::new());
        }
    }
}

/// One host is there and its rank fails; nobody waits for the other.
#[test]
fn a_failure_elsewhere_ends_a_login() {
    let script = "[ $1 = b ] && sleep 1000; exec sh -c \"$2\"";
    let login = Login::new(script);
    let begin = Instant::now();
    let output = finish(login.run_script(&["--hosts=a,b", "-n2"], "exit 7"));
    assert_eq!(output.status.code(), Some(7), "{}", err(&output));
    assert!(begin.elapsed() < Duration::from_secs(10));
}

/// A job of one rank that has ended, and printed what nobody has read.
fn unread(login: &Login, flag: &str) -> Child {
    let script = "echo $$ >&2; exec head -c 2000000 /dev/zero";
    let mut command = login.run_script(&["--hosts=a", "-n1", flag], script);
    let mut child = command.spawn().unwrap();
    let errors = Lines::from(child.stderr.take().unwrap());
    Watch::on(numbers(&errors.next())[0]).wait_for_end();
    child
}

#[test]
fn a_reader_that_rests_longer_than_the_time_of_grace_misses_nothing() {
    let login = Login::new(HERE);
    for grace in ["--grace=0", "--grace=0.2"] {
        let child = unread(&login, grace);
        // Nothing is to happen in this time, so there is no event to wait for.
        thread::sleep(Duration::from_secs(1));
        let output = collect(child);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(output.stdout.len(), 2_000_000);
    }
}

#[test]
fn a_launcher_of_hosts_that_nobody_reads_can_be_ended() {
    let login = Login::new(HERE);
    let mut child = unread(&login, "--bind=none");
    let reader = child.stdout.take();
    // The launcher hears of the rank's end when it likes.
    let launcher = Watch::on(child.id() as i32);
    let begin = Instant::now();
    while !launcher.ends_within(Duration::from_millis(100)) {
        assert!(begin.elapsed() < WATCHDOG, "the launcher is left");
        signal(&child, Signal::TERM);
    }
    assert_eq!(collect(child).status.code(), Some(143), "output is lost");
    drop(reader);
}
