//! Programs that `cargo xtask` has started end when it is told to end.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// Much longer than the grace that programs have.
const LIMIT: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

/// A pipe has something to read, or a process has ended.
fn is_ready(what: &impl AsFd) -> bool {
    let mut ready = [PollFd::new(what, PollFlags::IN)];
    poll(&mut ready, Some(&LIMIT)).expect("it can be waited for") == 1
}

/// A program in place of cargo writes its process id and stays, in spite of a request to end.
#[test]
fn a_request_to_end_ends_what_was_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let (cargo, fifo) = (folder.path().join("cargo"), folder.path().join("fifo"));
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).expect("a pipe with a name");
    let script = format!(
        "#!/bin/sh\ntrap '' TERM\necho $$ > {}\nwhile :; do sleep 1000; done\n",
        fifo.display()
    );
    fs::write(&cargo, script).expect("writable");
    fs::set_permissions(&cargo, Permissions::from_mode(0o700)).expect("its owner may");
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("loom")
        .env("CARGO", &cargo)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let told = Pid::from_child(&xtask);
    let watched = pidfd_open(told, PidfdFlags::empty()).expect("it is there");
    // Opened for both, because to open it for reading alone waits for a writer.
    let said = File::options().read(true).write(true).open(&fifo);
    let said = said.expect("a pipe");
    assert!(is_ready(&said), "nothing was started");
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line).expect("a line");
    let started = line.trim().parse().ok().and_then(Pid::from_raw);
    let started = pidfd_open(started.expect("a number"), PidfdFlags::empty()).expect("it is there");
    kill_process(told, Signal::TERM).expect("it may be told");
    let (ended, also) = (is_ready(&watched), is_ready(&started));
    if !ended {
        let _ = xtask.kill();
    }
    assert!(
        ended && also,
        "xtask ended: {ended}, what it started: {also}"
    );
    let status = xtask.wait().expect("a child");
    assert_eq!(status.code(), Some(128 + 15));
}
