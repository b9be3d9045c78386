//! limic's start-up under real launchers: `limic run` itself, Hydra's mpiexec and prterun.
//!
//! The ranks are this test binary again: the test `rank_program` does a rank's part when a launcher
//! started it, told by LIMIC_TEST_PART.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod launcher;

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use launcher::login::{HERE, Login};
use launcher::*;
use limic::bootstrap::detect;
use limic::{HybridEndpoint, World};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};

#[test]
fn rank_program() {
    let Ok(part) = std::env::var("LIMIC_TEST_PART") else {
        return;
    };
    match part.as_str() {
        "fork" => return a_child_drops_the_world(),
        "open" => return a_rank_opens_no_endpoints(),
        _ => {}
    }
    let mut job = detect().unwrap();
    let (rank, size) = (job.rank(), job.size());
    // Lengths differ by rank, and the longer ones need several PMI-1 values.
    let blob = |rank: u32, round: u32| vec![(rank + round) as u8; rank as usize * 1500];
    match part.as_str() {
        "gather" => {
            for round in 0..3 {
                let all = job.all_gather(&blob(rank, round)).unwrap();
                let expected: Vec<_> = (0..size).map(|rank| blob(rank, round)).collect();
                assert_eq!(all, expected);
                job.barrier().unwrap();
            }
            println!("gathered {rank} of {size} by {}", job.kind());
            job.finalize().unwrap();
        }
        // It asks and asks, and reads no answer, or all of them.
        "flood" | "flood and read" => {
            let socket = pmi_socket();
            println!("flooding {rank}");
            std::thread::scope(|threads| {
                if part == "flood and read" {
                    threads.spawn(|| std::io::copy(&mut &socket, &mut std::io::sink()));
                }
                let asks = "cmd=get key=a\n".repeat(1000);
                while (&socket).write_all(asks.as_bytes()).is_ok() {}
            });
        }
        // It asks far more than fits on the way to the launcher and back, and reads all answers.
        "ask and read" => {
            const ASKS: usize = 3000;
            let socket = pmi_socket();
            let put = format!("cmd=put key=a value={}\n", "x".repeat(4000));
            let ask = format!("cmd=get key=a pad={}\n", "x".repeat(200));
            std::thread::scope(|threads| {
                let answers = BufReader::new(&socket).lines();
                let read = threads.spawn(|| answers.take(ASKS + 1).filter(Result::is_ok).count());
                (&socket).write_all(put.as_bytes()).unwrap();
                for _ in 0..ASKS {
                    (&socket).write_all(ask.as_bytes()).unwrap();
                }
                println!("answered {rank}: {}", read.join().unwrap());
            });
        }
        // It asks more than anybody may have to keep the answers of, and reads none.
        "ask much" => {
            const MUCH: usize = 32 << 20;
            let socket = pmi_socket();
            let patience = Duration::from_secs(2);
            socket.set_write_timeout(Some(patience)).unwrap();
            let asks = "cmd=get key=a\n".repeat(1000);
            let mut asked = 0;
            while asked < MUCH && (&socket).write_all(asks.as_bytes()).is_ok() {
                asked += asks.len();
            }
            println!("held back {rank}: {}", asked < MUCH);
        }
        "leave a flood" => {
            // Several, so that more always waits.
            for _ in 0..4 {
                let mut yes = Command::new("yes");
                yes.arg("cmd=get key=a");
                let yes = yes.stdout(OwnedFd::from(pmi_socket())).spawn();
                println!("flooding {}", yes.unwrap().id());
            }
        }
        "leave" if rank == 1 => {}
        "leave" => {
            let error = job.all_gather(b"x").unwrap_err().to_string();
            assert!(error.contains("rank_1_left"), "{error}");
            println!("told {rank}");
        }
        "abort" => {
            if rank == 1 {
                job.abort(9, "no more work");
            }
            // The launcher ends all ranks, this one too; nothing else ends the wait.
            job.barrier().unwrap_err();
            std::thread::sleep(WATCHDOG);
        }
        other => panic!("unknown part {other}"),
    }
}

/// A child of each rank drops what it has a copy of, and the ranks go on with the launcher.
fn a_child_drops_the_world() {
    let mut world = World::init().unwrap();
    // SAFETY: the child runs on in this thread alone, and ends without another destructor.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(world);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let child = Pid::from_raw(child).unwrap();
    let ended = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(ended.1.exit_status(), Some(0));
    // Behind this, the child of no rank is alive.
    world.barrier().unwrap();
    world.endpoints(1, HybridEndpoint::open).unwrap();
    println!(
        "gathered {} of {} by {}",
        world.rank(),
        world.size(),
        world.launcher()
    );
    world.finalize().unwrap();
}

/// One rank cannot open what it is to open for its threads, and goes on without it.
fn a_rank_opens_no_endpoints() {
    let mut world = World::init().unwrap();
    let (rank, mut opened) = (world.rank(), 0);
    let error = world.endpoints(2, || {
        opened += 1;
        match (rank, opened) {
            (1, 2) => Err(limic::Error::NoMemory("as wanted".to_owned())),
            _ => HybridEndpoint::open(),
        }
    });
    let error = error.unwrap_err().to_string();
    world.barrier().unwrap();
    assert_eq!(world.endpoints(1, HybridEndpoint::open).unwrap().len(), 1);
    println!("told {rank}: {error}");
    world.finalize().unwrap();
}

/// The socket to the launcher, beside the library.
fn pmi_socket() -> UnixStream {
    let number = std::env::var("PMI_FD").unwrap().parse().unwrap();
    // SAFETY: the launcher gave it to this process, and it is open while the library's own part of
    // it, which this process keeps, is.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    socket.try_clone_to_owned().unwrap().into()
}

fn part(command: Command, part: &str) -> Output {
    finish(with_part(command, part))
}

fn with_part(mut command: Command, part: &str) -> Command {
    command.arg(std::env::current_exe().unwrap());
    command.args(["rank_program", "--exact", "--nocapture"]);
    command.env("LIMIC_TEST_PART", part);
    for name in ["PMI_FD", "PMI_PORT", "PMIX_NAMESPACE", "LIMIC_BOOTSTRAP"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What ranks printed, without the words of the test harness around it.
fn words(output: &Output, first: &str) -> Vec<String> {
    let text = out(output);
    let lines = text
        .lines()
        .filter_map(|line| line.find(first).map(|at| line[at..].to_owned()));
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

fn assert_gathered(output: &Output, kind: &str) {
    let expected: Vec<_> = (0..3)
        .map(|rank| format!("gathered {rank} of 3 by {kind}"))
        .collect();
    assert_eq!(
        words(output, "gathered"),
        expected,
        "{}{}",
        out(output),
        err(output)
    );
    assert_eq!(output.status.code(), Some(0), "{}", err(output));
}

#[test]
fn limic_run_serves_the_exchange() {
    assert_gathered(&part(run(&["-n", "3"]), "gather"), "pmi1");
    assert_gathered(&part(run(&["-n", "3", "--label"]), "gather"), "pmi1");
}

#[test]
fn libfabric_is_told_how_many_endpoints_there_are_unless_it_is_said() {
    let told = |set: Option<&str>| {
        let mut command = run_script(&["-n", "2"], r#"echo "universe $FI_UNIVERSE_SIZE""#);
        command.env_remove("FI_UNIVERSE_SIZE");
        command.envs(set.map(|size| ("FI_UNIVERSE_SIZE", size)));
        words(&finish(command), "universe")
    };
    assert_eq!(told(None), ["universe 64"; 2]);
    assert_eq!(told(Some("3")), ["universe 3"; 2]);
}

#[test]
fn ranks_are_told_when_one_left_before_the_exchange() {
    let output = part(run(&["-n", "3"]), "leave");
    assert_eq!(
        words(&output, "told"),
        ["told 0", "told 2"],
        "{}",
        err(&output)
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_forked_child_that_drops_the_world_leaves_the_job_to_its_parent() {
    assert_gathered(&part(run(&["-n", "3"]), "fork"), "pmi1");
}

#[test]
fn ranks_are_told_when_one_opens_no_endpoints() {
    let output = part(run(&["-n", "3"]), "open");
    let told = words(&output, "told");
    assert_eq!(told.len(), 3, "{told:?}{}", err(&output));
    assert_eq!(told[1], "told 1: out of memory: as wanted");
    for other in [0, 2] {
        let wanted = format!("told {other}: start-up: rank 1 has opened 0 endpoints where rank");
        assert!(told[other].starts_with(&wanted), "{told:?}");
    }
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}

#[test]
fn an_abort_ends_the_job_with_its_code_and_text() {
    let output = part(run(&["-n", "3"]), "abort");
    assert_eq!(output.status.code(), Some(9), "{}", err(&output));
    assert!(err(&output).contains("rank 1 (pid "), "{}", err(&output));
    assert!(err(&output).contains("no more work"), "{}", err(&output));
}

#[test]
fn a_rank_that_floods_the_launcher_holds_up_no_signal() {
    for flood in ["flood", "flood and read"] {
        let mut command = with_part(run(&["-n", "2"]), flood);
        let mut child = command.spawn().unwrap();
        let lines = Lines::of(&mut child);
        for _ in 0..2 {
            while !lines.next().contains("flooding") {}
        }
        signal(&child, Signal::TERM);
        assert_eq!(collect(child).status.code(), Some(143), "{flood}");
    }
}

/// Launcher and host wait for each other at no time.
#[test]
fn a_flood_over_hosts_is_answered() {
    let login = Login::new(HERE);
    let output = part(login.run(&["--hosts=a", "-n4"]), "ask and read");
    let expected = [0, 1, 2, 3].map(|rank| format!("answered {rank}: 3001"));
    assert_eq!(words(&output, "answered"), expected, "{}", err(&output));
}

#[test]
fn a_rank_that_reads_no_answers_is_not_read_for_ever() {
    let output = part(run(&["-n", "2"]), "ask much");
    let expected = ["held back 0: true", "held back 1: true"];
    assert_eq!(words(&output, "held back"), expected, "{}", err(&output));
}

#[test]
fn of_a_rank_that_sends_nonsense_the_user_is_warned_once() {
    let script = "for i in 1 2 3; do echo nonsense >&$PMI_FD; done";
    let output = finish(run_script(&["-n", "1"], script));
    assert_eq!(output.status.code(), Some(0));
    let text = err(&output);
    assert!(
        text.contains("rank 0 sent") && text.lines().count() == 1,
        "{text}"
    );
}

#[test]
fn a_flood_that_a_rank_leaves_behind_ends_with_the_job() {
    let output = part(run(&["-n", "2"]), "leave a flood");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    for line in words(&output, "flooding ") {
        let pid = numbers(&line)[0];
        assert!(!in_process_table(pid), "process {pid} is left");
    }
}

#[test]
fn alone_it_is_a_job_of_one() {
    let mut command = Command::new("/usr/bin/env");
    command.env_remove("PMI_RANK").env_remove("PMI_SIZE");
    let output = part(command, "gather");
    assert_eq!(
        words(&output, "gathered"),
        ["gathered 0 of 1 by single"],
        "{}",
        err(&output)
    );
}

/// A program in PATH.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

/// A file that a variable names: `cargo xtask test` tells so what `cargo xtask peers` installed.
fn named(variable: &str) -> Option<PathBuf> {
    let file = PathBuf::from(std::env::var_os(variable)?);
    assert!(
        file.is_file(),
        "{variable}={}: no such file",
        file.display()
    );
    Some(file)
}

fn hydra() -> Option<PathBuf> {
    named("LIMIC_TEST_HYDRA")
        .or_else(|| find("mpiexec.hydra"))
        .or_else(|| {
            let mpiexec = find("mpiexec")?;
            let version = Command::new(&mpiexec).arg("--version").output().ok()?;
            out(&version).contains("HYDRA").then_some(mpiexec)
        })
}

#[test]
fn hydras_mpiexec_serves_the_exchange() {
    let Some(mpiexec) = hydra() else {
        println!(
            "SKIPPED: Hydra's mpiexec (of MPICH) is not in PATH; cargo xtask peers installs it"
        );
        return;
    };
    for port in [false, true] {
        let mut command = Command::new(&mpiexec);
        if port {
            command.arg("-pmi-port");
        }
        command.args(["-n", "3"]);
        assert_gathered(&part(command, "gather"), "pmi1");
    }
}

#[test]
fn prterun_serves_the_exchange() {
    let Some(prterun) = named("LIMIC_TEST_PRTERUN").or_else(|| find("prterun")) else {
        println!(
            "SKIPPED: prterun (of PRRTE or Open MPI) is not in PATH; cargo xtask peers installs it"
        );
        return;
    };
    let mut command = Command::new(prterun);
    if rustix::process::geteuid().is_root() {
        command.arg("--allow-run-as-root");
    }
    if let Some(library) = named("LIMIC_TEST_PMIX_LIBRARY") {
        command.env("LIMIC_PMIX_LIBRARY", library);
    }
    command.args(["--map-by", ":OVERSUBSCRIBE", "-n", "3"]);
    let output = part(command, "gather");
    let text = out(&output) + &err(&output);
    if text.contains("libpmix could not be loaded") {
        println!("SKIPPED: prterun is in PATH, but libpmix.so.2 is not where the loader looks");
        return;
    }
    assert_gathered(&output, "pmix");
}
