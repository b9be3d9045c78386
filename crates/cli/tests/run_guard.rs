//! `limic run`: what becomes of a job whose launcher is killed, and of one without /proc.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod launcher;

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use launcher::*;
use rustix::process::{Signal, kill_process_group};

const TWO: &[&str] = &["-n", "2"];

/// Kills the launcher of two ranks that run this script, and waits for the end of the processes
/// whose numbers these print.
fn killed_launcher(words: &[&str], script: &str) {
    let mut command = run_script(words, script);
    let mut child = command.process_group(0).spawn().unwrap();
    let lines = Lines::of(&mut child);
    let watches: Vec<Watch> = (0..2)
        .map(|_| Watch::on(lines.next().parse().unwrap()))
        .collect();
    // With its group, as shells do it.
    kill_process_group(pid(&child), Signal::KILL).unwrap();
    watches.iter().for_each(Watch::wait_for_end);
    collect(child);
}

#[test]
fn ranks_die_with_a_launcher_that_is_killed() {
    killed_launcher(TWO, "echo $$; exec sleep 1000");
}

#[test]
fn what_ranks_have_started_dies_with_a_launcher_that_is_killed() {
    killed_launcher(TWO, "sh -c 'echo $$; exec sleep 1000'; true");
}

#[test]
fn sessions_of_their_own_die_with_a_launcher_that_is_killed() {
    killed_launcher(TWO, "setsid sh -c 'sleep 1000 & echo $!; wait'; true");
}

#[test]
fn a_launcher_below_a_launcher_that_is_killed_dies_with_all_below() {
    let limic = env!("CARGO_BIN_EXE_limic");
    killed_launcher(
        TWO,
        &format!("{limic} run -n 1 sh -c 'sh -c \"echo \\$\\$; exec sleep 1000\"; true'; true"),
    );
}

#[test]
fn variables_of_the_user_hide_no_process_from_the_guard() {
    let words = [TWO, &["--env=PMI_JOBID=x", "--env=LIMIC_JOB=x"]].concat();
    killed_launcher(
        &words,
        "[ $PMI_JOBID = x ] && setsid sh -c 'sleep 1000 & echo $!; wait'; true",
    );
}

#[test]
fn the_guard_takes_names_of_jobs_alone() {
    for name in ["", "limic_", "root", "/root", "x_limic_1"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_limic"));
        command.args(["guard", name]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(command);
        assert_eq!(output.status.code(), Some(2), "{name:?}");
        assert!(err(&output).contains("begins with limic_"), "{name:?}");
    }
}

/// `limic run` of a shell script in namespaces of its own, in which the shell words `prepare` run
/// first. None where users may not have namespaces.
fn in_namespaces(flags: &str, prepare: &str, words: &[&str], script: &str) -> Option<Command> {
    let user = "--user --map-root-user".split(' ');
    let unshare = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(user.clone()).args(flags.split(' '));
        command.args(["sh", "-c", program]);
        command
    };
    if !unshare(prepare)
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("SKIPPED: unshare {flags} is not there, or not allowed");
        return None;
    }
    let mut command = unshare(&format!(
        "{prepare}; limic=$0; \"$limic\" run \"$@\"; exit $?"
    ));
    command.arg(env!("CARGO_BIN_EXE_limic")).args(words);
    command.args(["sh", "-c", script]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

/// A job without /proc, or with that of another PID namespace, runs and says so once. Where one
/// rank fails, the other ends.
#[test]
fn a_job_runs_where_proc_cannot_be_used_and_says_so() {
    for (flags, prepare) in [
        ("--mount", "mount -t tmpfs none /proc"),
        ("--pid --fork", "true"),
    ] {
        let script = "echo $PMI_RANK; [ $PMI_RANK = 1 ] && exit 7; exec sleep 1000";
        let Some(command) = in_namespaces(flags, prepare, TWO, script) else {
            return;
        };
        let output = finish(command);
        assert_eq!(output.status.code(), Some(7), "{flags}: {}", err(&output));
        let errors = err(&output);
        assert_eq!(errors.matches("/proc is not there").count(), 1, "{errors}");
        assert_eq!(errors.lines().count(), 2, "{errors}");
    }
}
