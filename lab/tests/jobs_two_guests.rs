//! Jobs over two machines, started by the launchers that users have.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use limic_lab::in_guest;
use limic_tests::process::pass;
use limic_tests::skip;

/// Where the second machine waits for a command.
const PORT: u16 = 7118;

/// Hydra's mpiexec on the first machine starts two ranks on each, by PMI-1. In place of ssh it gets a script that hands the command for
/// the second machine to this test there.
#[test]
fn hydra_starts_ranks_on_both() {
    if !in_guest() {
        return;
    }
    let Some(mpiexec) = std::env::var_os("LIMIC_TEST_HYDRA").map(PathBuf::from) else {
        return skip("Hydra's mpiexec is not there; `cargo xtask peers` installs it");
    };
    let there = std::env::var("LIMIC_LAB_PEER").expect("two guests");
    if std::env::var("LIMIC_LAB_GUEST").as_deref() == Ok("1") {
        let listener = TcpListener::bind(("0.0.0.0", PORT)).expect("a port");
        // One job for each of the runs below.
        for _ in RUNS {
            serve(&listener);
        }
        return;
    }
    while TcpStream::connect((there.as_str(), PORT)).is_err() {
        pass(core::time::Duration::from_millis(50));
    }
    let here = "10.77.0.1";
    let shell = script(&there);
    for (example, connect) in RUNS {
        let status = Command::new(&mpiexec)
            .args(["-launcher", "ssh", "-launcher-exec"])
            .arg(&shell)
            .args(["-localhost", here, "-hosts"])
            .arg(format!("{here}:2,{there}:2"))
            .args(["-n", "4", "-genv", "LIMIC_VERBS_CONNECT", connect])
            .arg(limic_lab::program(&format!("examples/{example}")))
            .stdin(Stdio::null())
            .status();
        assert!(status.expect("mpiexec").success(), "{example}");
        println!("REPORT: {example} on two ranks of each machine, connected {connect}: ok");
    }
}

const RUNS: [(&str, &str); 3] = [
    ("hello", "on-demand"),
    ("halo", "static"),
    ("bucket_sort", "on-demand"),
];

/// Runs one command of the other machine, with its output sent there.
fn serve(listener: &TcpListener) {
    let mut command = String::new();
    // Who only wants to know whether somebody listens says nothing.
    let stream = loop {
        let (stream, _) = listener.accept().expect("the other machine comes");
        let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
        reader.read_line(&mut command).expect("a command");
        if !command.is_empty() {
            break stream;
        }
    };
    let output = || {
        Stdio::from(std::os::fd::OwnedFd::from(
            stream.try_clone().expect("a descriptor"),
        ))
    };
    let status = Command::new("sh")
        .args(["-c", &command])
        .stdin(Stdio::null())
        .stdout(output())
        .stderr(output())
        .status();
    assert!(status.expect("sh").success(), "{command}");
}

/// The program that mpiexec starts as `PROGRAM -x HOST COMMAND`.
fn script(there: &str) -> PathBuf {
    let path = Path::new("/tmp/limic-remote-shell");
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = -x ] && shift\nhost=$1\nshift\n\
         [ \"$host\" = {there} ] && {{ echo \"$*\" | nc {there} {PORT}; exit; }}\n\
         exec sh -c \"$*\"\n"
    );
    std::fs::write(path, text).expect("a script");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("executable");
    path.to_owned()
}
