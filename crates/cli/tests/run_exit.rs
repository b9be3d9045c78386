//! `limic run`: exit codes, and that a job ends with all its processes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod launcher;

use std::process::Stdio;

use launcher::login::{HERE, Login};
use launcher::*;
use rustix::process::{Pid, Signal, kill_process};

fn code(words: &[&str], script: &str) -> (Option<i32>, String) {
    let output = finish(run_script(words, script));
    (output.status.code(), err(&output))
}

#[test]
fn all_zero_is_zero_and_silent() {
    assert_eq!(code(&["-n", "3"], "exit 0"), (Some(0), String::new()));
}

#[test]
fn the_first_failure_is_the_exit_code_and_is_named() {
    let (code, err) = code(&["-n", "3"], "[ $PMI_RANK = 1 ] && exit 7; exit 0");
    assert_eq!(code, Some(7));
    assert!(
        err.contains("rank 1 (pid ") && err.contains("code 7"),
        "{err}"
    );
}

#[test]
fn a_signal_is_128_and_its_number_and_is_named() {
    let (code, err) = code(&["-n", "2"], "[ $PMI_RANK = 1 ] && kill -SEGV $$; exit 0");
    assert_eq!(code, Some(139));
    assert!(
        err.contains("rank 1 (pid ") && err.contains("signal 11 (SIGSEGV)"),
        "{err}"
    );
}

#[test]
fn the_number_of_ranks_may_stand_anyhow() {
    for ranks in [
        &["-n2"][..],
        &["-n=2"],
        &["-n", "2"],
        &["--np", "2"],
        &["--ranks=2"],
    ] {
        let (code, printed) = {
            let output = finish(run_script(ranks, "echo $PMI_SIZE"));
            (output.status.code(), out(&output))
        };
        assert_eq!((code, &*printed), (Some(0), "2\n2\n"), "{ranks:?}");
    }
}

/// What follows the program is the program's, hyphens and all.
#[test]
fn options_behind_the_program_are_its_own() {
    let output = finish(run(&["-n1", "echo", "-n", "--label", "x"]));
    assert_eq!(out(&output), "--label x");
}

#[test]
fn what_cannot_be_started_is_told() {
    for (words, code, text) in [
        (&["-n", "2", "/nonexistent/program"][..], 127, "not found"),
        (&["-n", "2", "limic-no-such-program"], 127, "not found"),
        (&["-n", "2", "/etc/passwd"], 126, "cannot be executed"),
        (&["-n", "2", "/"], 126, "cannot be executed"),
        (&["-n", "0", "true"], 2, "0 is not in 1..="),
        (&["-n", "99999999", "true"], 2, "is not in 1..="),
        (&["-n", "-3", "true"], 2, "-3"),
        (&["-n", "2"], 2, "PROGRAM"),
        (&["-np", "2", "true"], 2, "write -n N, or --np N"),
        (&["-n", "2", "--labl", "true"], 2, "'--label'"),
        (&["-n", "1", "--", "-no-such-program"], 127, "not found"),
        (&["-n", "2", "--env", "A", "true"], 2, "KEY=VALUE"),
        (
            &["-n", "2", "--timeout", "soon", "true"],
            2,
            "number of seconds",
        ),
    ] {
        let output = finish(run(words));
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        assert!(err(&output).contains(text), "{words:?}: {}", err(&output));
    }
}

/// Every rank starts a child, prints both numbers, and tells rank 1, which then does `act`.
fn ending_of_one(test: &str, act: &str, others: &str) -> (Option<i32>, String) {
    let fifo = Fifo::new(test);
    let script = format!(
        "{others} exec 3<>$FIFO; sleep 1000 & echo $$ $!; echo x >&3; \
         if [ $PMI_RANK = 1 ]; then read a <&3; read a <&3; read a <&3; {act}; fi; \
         while :; do wait; done"
    );
    let output = finish(run_script(
        &["-n", "3", "--grace", "0.2", &fifo.variable()],
        &script,
    ));
    let pids = numbers(&out(&output));
    assert_eq!(pids.len(), 6, "{}", out(&output));
    for pid in pids {
        assert!(!in_process_table(pid), "process {pid} is left");
    }
    (output.status.code(), err(&output))
}

#[test]
fn a_failing_rank_ends_all_others_with_their_children() {
    let (code, err) = ending_of_one("fail", "exit 5", "");
    assert_eq!(code, Some(5));
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn a_killed_rank_ends_all_others_even_those_that_ignore_sigterm() {
    let (code, _) = ending_of_one("kill", "kill -KILL $$", "trap '' TERM;");
    assert_eq!(code, Some(137));
}

/// The one that exits has noticed the other's crash, which takes a while.
#[test]
fn a_crash_counts_though_another_rank_has_exited_first() {
    let fifo = Fifo::new("crash");
    let script = "exec 3<>$FIFO; [ $PMI_RANK = 0 ] && { read a <&3; exit 1; }; \
                  trap 'kill -ABRT $$' TERM; echo x >&3; while :; do sleep 0.01; done";
    let login = Login::new(HERE);
    let words = ["-n2", "--grace=60", &fifo.variable()];
    for command in [
        run_script(&words, script),
        login.run_script(&[&["--hosts=a,b"], &words[..]].concat(), script),
    ] {
        let output = finish(command);
        let text = err(&output);
        assert_eq!(output.status.code(), Some(134), "{text}");
        let first = text.find("exited with code 1; ending the job");
        let second = text.find("was killed by signal 6 (SIGABRT); the job was ending");
        assert!(first.is_some() && first < second, "{text}");
        assert_eq!(text.matches("limic run: ").count(), 2, "{text}");
    }
}

/// Each of two ranks runs `start`, which prints a number and tells the rank, and exits at once.
fn left_behind(test: &str, start: &str) {
    let fifo = Fifo::new(test);
    let script = format!("exec 3<>$FIFO; {start} & read a <&3");
    let output = finish(run_script(&["-n", "2", &fifo.variable()], &script));
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let pids = numbers(&out(&output));
    assert_eq!(pids.len(), 2, "{}", out(&output));
    for pid in pids {
        assert!(!in_process_table(pid), "process {pid} is left");
    }
}

#[test]
fn orphans_in_sessions_of_their_own_end_with_the_job() {
    left_behind(
        "session",
        "setsid sh -c 'echo $$; echo x >&3; exec sleep 1000'",
    );
}

#[test]
fn orphans_in_groups_without_a_leader_end_with_the_job() {
    left_behind(
        "leaderless",
        "setsid sh -c 'sleep 1000 & echo $!; echo x >&3'",
    );
}

#[test]
fn keep_going_leaves_the_others_running() {
    let fifo = Fifo::new("keep-going");
    let script = "exec 3<>$FIFO; case $PMI_RANK in \
                  1) echo $$ >&3; kill -KILL $$;; \
                  0) read pid <&3; while kill -0 $pid 2>/dev/null; do sleep 0.02; done; \
                     echo survived; exit 3;; \
                  esac";
    for flag in ["--keep-going", "--no-kill"] {
        let output = finish(run_script(&["-n", "3", flag, &fifo.variable()], script));
        assert_eq!(output.status.code(), Some(137), "the first failure counts");
        assert_eq!(out(&output), "survived\n");
        assert!(err(&output).contains("going on"), "{}", err(&output));
    }
}

#[test]
fn the_time_limit_ends_the_job() {
    let (code, err) = code(&["-n", "2", "--timeout", "0.2"], "sleep 1000");
    assert_eq!(code, Some(124));
    assert!(err.contains("within 0.2 s"), "{err}");
}

/// A shell may have started a process before it became the launcher.
#[test]
fn children_from_before_the_job_outlive_it() {
    let script = "sleep 1000 >/dev/null 2>&1 & echo $!; exec \"$0\" run -n 1 true";
    let mut command = undisturbed("/bin/sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_limic")]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command);
    let number = numbers(&out(&output))[0];
    assert!(output.status.success(), "{}", err(&output));
    assert!(in_process_table(number), "process {number} was ended");
    kill_process(Pid::from_raw(number).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_parent_that_ignores_the_ends_of_children_changes_nothing() {
    let command = run_script(&["-n", "1"], "exit 7");
    let output = finish(ignoring("CHLD", &command));
    assert_eq!(output.status.code(), Some(7), "{}", err(&output));
}
