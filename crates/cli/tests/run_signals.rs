//! `limic run`: signals to the launcher reach the ranks.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod launcher;

use std::time::Duration;

use launcher::*;
use rustix::process::Signal;

/// Prints `got` at the signal, and goes on.
fn trapping(name: &str) -> String {
    format!("trap 'echo got' {name}; echo ready; while :; do sleep 1000 & wait $!; done")
}

#[test]
fn signals_are_passed_on_to_all_ranks() {
    for (sent, name) in [
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::CONT, "CONT"),
    ] {
        let script = trapping(name).replace("'echo got'", "'echo got; exit 0'");
        let mut child = run_script(&["-n", "2"], &script).spawn().unwrap();
        let lines = Lines::of(&mut child);
        assert_eq!([lines.next(), lines.next()], ["ready", "ready"]);
        signal(&child, sent);
        assert_eq!(collect(child).status.code(), Some(0), "{name}");
        assert_eq!(lines.rest(), ["got", "got"], "{name}");
    }
}

#[test]
fn sigterm_ends_the_job_with_its_code() {
    let mut child = run_script(&["-n", "2"], "echo ready; exec sleep 1000")
        .spawn()
        .unwrap();
    let lines = Lines::of(&mut child);
    lines.next();
    lines.next();
    signal(&child, Signal::TERM);
    assert_eq!(collect(child).status.code(), Some(143));
}

#[test]
fn a_second_interrupt_kills() {
    let mut child = run_script(&["-n", "2"], &trapping("INT")).spawn().unwrap();
    let lines = Lines::of(&mut child);
    assert_eq!([lines.next(), lines.next()], ["ready", "ready"]);
    signal(&child, Signal::INT);
    assert_eq!([lines.next(), lines.next()], ["got", "got"]);
    let launcher = Watch::on(child.id() as i32);
    assert!(!launcher.ends_within(Duration::from_millis(600)));
    signal(&child, Signal::INT);
    assert_eq!(collect(child).status.code(), Some(130));
}

/// As Ctrl-C under timeout(1), which passes on what the terminal has sent to all.
#[test]
fn two_interrupts_at_once_are_one() {
    let script = trapping("INT").replace("'echo got'", "'sleep 0.1; echo got; exit 0'");
    let mut child = run_script(&["-n", "2"], &script).spawn().unwrap();
    let lines = Lines::of(&mut child);
    assert_eq!([lines.next(), lines.next()], ["ready", "ready"]);
    // A launcher that is stopped has both when it goes on: the process's, and its one thread's.
    signal(&child, Signal::STOP);
    wait_for_stop(&child);
    signal(&child, Signal::INT);
    let number = child.id();
    // SAFETY: the call takes numbers alone. The thread is there: its process was not waited for.
    let code = unsafe { libc::syscall(libc::SYS_tgkill, number, number, libc::SIGINT) };
    assert_eq!(code, 0);
    signal(&child, Signal::CONT);
    assert_eq!(collect(child).status.code(), Some(0));
    assert_eq!(lines.rest(), ["got", "got"]);
}

#[test]
fn ranks_start_with_the_launchers_own_signal_mask() {
    let read = "grep -E '^Sig(Blk|Ign):' /proc/self/status";
    let plain = undisturbed("/bin/sh").args(["-c", read]).output().unwrap();
    let output = finish(run_script(&["-n", "1"], read));
    assert_eq!(out(&output), out(&plain));
}
