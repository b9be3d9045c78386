//! Jobs over two machines, started by the launchers that users have.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use limic_lab_tests::in_guest;
use limic_tests::process::pass;
use limic_tests::skip;

/// Where the second machine waits for a command.
const PORT: u16 = 7118;

/// This machine, the first one, as the other one reaches it.
const HERE: &str = "10.77.0.1";

/// Hydra's mpiexec on the first machine starts two ranks on each, by PMI-1.
#[test]
fn hydra_starts_ranks_on_both() {
    if !in_guest() {
        return;
    }
    let Some(mpiexec) = launcher("LIMIC_TEST_HYDRA") else {
        return skip("Hydra's mpiexec is not there; `cargo xtask peers` installs it");
    };
    start_from_the_first_machine(|shell, there| hydra(&mpiexec, shell, there));
}

/// An unmodified MPI over the libfabric provider: within a machine by shared memory, between the
/// two by verbs.
#[test]
fn mpich_runs_on_both_over_verbs() {
    // Long messages are read by the adapter.
    mpich_runs_on_both("verbs", &[" inline ", " network ", " network-read "]);
}

#[test]
fn mpich_runs_on_both_over_tcp() {
    mpich_runs_on_both("tcp", &[" inline ", " network "]);
}

/// `paths` are the names of those that each endpoint has to take.
fn mpich_runs_on_both(network: &str, paths: &[&str]) {
    if !in_guest() {
        return;
    }
    let (Some(mpiexec), Some(program), Some(provider)) = (
        launcher("LIMIC_TEST_HYDRA"),
        launcher("LIMIC_TEST_MPICH"),
        launcher("LIMIC_TEST_PROVIDER"),
    ) else {
        return skip("MPICH is not there; `cargo xtask peers` installs it");
    };
    on_the_first_machine(1, |shell, there| {
        let mut command = hydra(&mpiexec, shell, there);
        command
            .arg(&program)
            .env("FI_PROVIDER_PATH", provider.parent().expect("a folder"))
            .env("FI_PROVIDER", "limic")
            .env("MPIR_CVAR_CH4_NETMOD", "ofi")
            .env("MPIR_CVAR_NOLOCAL", "1")
            .env("LIMIC_FABRIC", network)
            .env("LIMIC_FI_STATS", "1");
        let output = command.stdin(Stdio::null()).output();
        let output = output.expect("the launcher starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{}: {said}", output.status);
        for words in ["lengths: right", "collectives: right", "threads: right"] {
            assert!(said.contains(words), "{said}");
        }
        // One line for each endpoint, whose paths say how its messages went.
        let counted = said
            .split("limic-fi: process ")
            .skip(1)
            .filter(|line| paths.iter().all(|path| line.contains(path)));
        assert_eq!(counted.count(), 4, "{said}");
        for line in said.lines().filter(|line| line.contains(": ")) {
            println!("REPORT: {line}");
        }
    });
}

/// Two ranks on each machine.
fn hydra(mpiexec: &Path, shell: &Path, there: &str) -> Command {
    let mut command = Command::new(mpiexec);
    command
        .args(["-launcher", "ssh", "-launcher-exec"])
        .arg(shell)
        .args(["-localhost", HERE, "-hosts"])
        .arg(format!("{HERE}:2,{there}:2"))
        .args(["-n", "4"]);
    command
}

/// PRRTE's prterun, which Open MPI 5's mpirun is, does so too: its daemons serve PMIx on both
/// machines.
#[test]
fn prterun_starts_ranks_on_both() {
    if !in_guest() {
        return;
    }
    let (Some(prterun), Some(library)) = (
        launcher("LIMIC_TEST_PRTERUN"),
        launcher("LIMIC_TEST_PMIX_LIBRARY"),
    ) else {
        return skip("Open MPI's prterun is not there; `cargo xtask peers` installs it");
    };
    // Where it was unpacked is not where it was built for.
    let prefix = prterun.ancestors().nth(2).expect("it lies in PREFIX/bin");
    start_from_the_first_machine(|shell, there| {
        let mut command = Command::new(&prterun);
        command
            .args(["--allow-run-as-root", "--leave-session-attached"])
            .arg("--prefix")
            .arg(prefix)
            .args(["--prtemca", "prte_if_include", "eth0"])
            .args(["--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent"])
            .arg(shell)
            .args(["--host", &format!("{HERE}:2,{there}:2")])
            .args(["--bind-to", "none", "-x", "LIMIC_PMIX_LIBRARY"])
            .args(["-x", "LIMIC_VERBS_CONNECT", "-n", "4"])
            .env("LIMIC_PMIX_LIBRARY", &library);
        command
    });
}

fn launcher(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

/// Runs the examples by the launcher that `command` gives, on the first machine.
fn start_from_the_first_machine(command: impl Fn(&Path, &str) -> Command) {
    on_the_first_machine(RUNS.len(), |shell, there| {
        for (example, connect) in RUNS {
            let start = Instant::now();
            let status = command(shell, there)
                .arg(limic_lab_tests::program(&format!("examples/{example}")))
                .env("LIMIC_VERBS_CONNECT", connect)
                .stdin(Stdio::null())
                .status();
            assert!(status.expect("the launcher starts").success(), "{example}");
            println!(
                "REPORT: {example} on two ranks of each machine, connected {connect}: ok after {} s",
                start.elapsed().as_secs()
            );
        }
    });
}

/// Starts so many jobs, which the first machine does by `jobs`. It is told a program to use in
/// place of ssh, which hands commands for the second machine to this test there, and that machine's
/// address.
fn on_the_first_machine(count: usize, jobs: impl FnOnce(&Path, &str)) {
    let there = std::env::var("LIMIC_LAB_PEER").expect("two guests");
    // Daemons on the second machine look for it too, although they start nothing by it.
    let shell = script(&there);
    if std::env::var("LIMIC_LAB_GUEST").as_deref() == Ok("1") {
        let listener = TcpListener::bind(("0.0.0.0", PORT)).expect("a port");
        for _ in 0..count {
            serve(&listener);
        }
        return;
    }
    while TcpStream::connect((there.as_str(), PORT)).is_err() {
        pass(core::time::Duration::from_millis(50));
    }
    jobs(&shell, &there);
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

/// The program that a launcher starts as `PROGRAM -x HOST COMMAND`, as it would ssh.
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
