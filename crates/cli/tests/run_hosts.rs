//! `limic run --hosts`, where programs that log in to nothing but this machine stand for ssh.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod launcher;

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use launcher::login::{HERE, Login};
use launcher::*;
use limic_tests::namespaces;
use rustix::process::Signal;

#[test]
fn ranks_come_in_blocks_and_know_their_place() {
    let script = "echo $PMI_RANK $PMI_SIZE $LIMIC_LOCAL_RANK $LIMIC_LOCAL_SIZE $WORD $(pwd)";
    let folder = fs::canonicalize(std::env::temp_dir()).unwrap();
    let words = ["--hosts", "a:2,localhost:4", "-n3", "--env=WORD=x=y"];
    let login = Login::new(HERE);
    let mut command = login.run_script(&words, script);
    let output = finish_in(&mut command, &folder);
    let expected = ["0 3 0 2", "1 3 1 2", "2 3 0 1"];
    let expected = expected.map(|line| format!("{line} x=y {}", folder.display()));
    assert_eq!(sorted(&output), expected, "{}", err(&output));
    assert!(output.status.success());
}

fn finish_in(command: &mut Command, folder: &std::path::Path) -> std::process::Output {
    collect(command.current_dir(folder).spawn().unwrap())
}

#[test]
fn messages_pass_between_hosts() {
    let limic = env!("CARGO_BIN_EXE_limic");
    let words = ["--hosts=a,b", "-n4", limic, "perf", "barrier"];
    let output = finish(Login::new(HERE).run(&words));
    assert!(output.status.success(), "{}", err(&output));
}

#[test]
fn machines_that_share_no_memory_speak_tcp() {
    let Some(machines) = namespaces::make("hosts") else {
        return;
    };
    let login = Login::new("exec ip netns exec \"$1\" sh -c \"$2\"");
    let [a, b] = machines.names();
    let limic = env!("CARGO_BIN_EXE_limic");
    let hosts = format!("--hosts={a},{b}");
    let words = [&hosts, "-n2", limic, "perf", "latency", "--sizes=64"];
    let output = finish(login.run(&words));
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("(network)"), "{}", out(&output));
}

#[test]
fn input_and_output_go_through_whole_however_long_they_are() {
    let login = Login::new(HERE);
    let mut command = login.run_script(
        &["--hosts=a,b", "-n2"],
        "[ $PMI_RANK = 1 ] && exec cat >&2; exec cat",
    );
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|i| (i % 251) as u8).collect();
    let (mut input, sent) = (child.stdin.take().unwrap(), bytes.clone());
    let writer = thread::spawn(move || input.write_all(&sent));
    let output = collect(child);
    writer.join().unwrap().unwrap();
    assert_eq!(err(&output), "", "rank 1 has no input");
    assert!(output.stdout == bytes, "{} bytes", output.stdout.len());
}

#[test]
fn a_rank_that_reads_nothing_holds_nobody_up() {
    let script = "[ $PMI_RANK = 1 ] && echo one; exec true";
    let login = Login::new(HERE);
    let mut command = login.run_script(&["--hosts=a,b", "-n2"], script);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    assert_eq!(out(&collect(child)), "one\n");
    drop(input);
}

#[test]
fn lines_are_labelled_by_rank() {
    let words = ["--hosts=a,b", "-n2", "-l"];
    let output = finish(Login::new(HERE).run_script(&words, "echo out; echo err >&2"));
    assert_eq!(sorted(&output), ["[0] out", "[1] out"]);
    let mut lines: Vec<String> = err(&output).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["[0] err", "[1] err"]);
}

#[test]
fn a_rank_that_fails_ends_those_of_all_hosts() {
    let script = "[ $PMI_RANK = 2 ] && exit 7; exec sleep 1000";
    let output = finish(Login::new(HERE).run_script(&["--hosts=a,b", "-n3"], script));
    assert_eq!(output.status.code(), Some(7));
    let text = err(&output);
    assert!(text.contains("rank 2 (pid "), "{text}");
    assert!(
        text.contains(" on b) exited with code 7; ending the job"),
        "{text}"
    );
}

#[test]
fn an_abort_ends_those_of_all_hosts() {
    let script = "[ $PMI_RANK = 1 ] && echo 'cmd=abort exitcode=9 message=no_more' >&$PMI_FD; \
                  exec sleep 1000";
    let output = finish(Login::new(HERE).run_script(&["--hosts=a,b", "-n2"], script));
    assert_eq!(output.status.code(), Some(9));
    let text = err(&output);
    assert!(
        text.contains("rank 1 (on b) aborted the job with code 9: no more"),
        "{text}"
    );
}

#[test]
fn what_ignores_the_end_is_killed_after_the_time_of_grace() {
    let script = "[ $PMI_RANK = 1 ] && exit 1; trap '' TERM; echo $$; while :; do sleep 1000; done";
    let words = ["--hosts=a,b", "-n2", "--grace=0.1"];
    let output = finish(Login::new(HERE).run_script(&words, script));
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
}

#[test]
fn a_program_that_is_not_there_is_named_with_its_host() {
    let output = finish(Login::new(HERE).run(&["--hosts=a,b", "-n2", "no-such-program"]));
    assert_eq!(output.status.code(), Some(127));
    let text = err(&output);
    let host = &text["limic run: ".len()..][..1];
    assert!(["a", "b"].contains(&host), "{text}");
    assert!(text.contains(": no-such-program: not found"), "{text}");
}

#[test]
fn a_host_that_cannot_be_reached_ends_the_job() {
    let script = "[ $1 = b ] && { echo no route >&2; exit 255; }; exec sh -c \"$2\"";
    let output = finish(Login::new(script).run_script(&["--hosts=a,b", "-n2"], "sleep 1000"));
    assert_eq!(output.status.code(), Some(125));
    let text = err(&output);
    assert!(
        text.contains("b: the login exited with code 255 before limic"),
        "{text}"
    );
    assert!(text.contains("no route"), "{text}");
}

/// It says nothing of a failure, and has started nothing.
#[test]
fn a_program_that_does_not_log_in_is_named() {
    let output = finish(run(&["--launcher=true", "--hosts=a", "-n1", "true"]));
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(out(&output), "");
    let text = err(&output);
    assert!(
        text.contains("a: the login exited with code 0 before limic"),
        "{text}"
    );
}

#[test]
fn a_shell_that_prints_at_the_login_is_named() {
    let script = "echo Welcome to $1; exec sh -c \"$2\"";
    let output = finish(Login::new(script).run(&["--hosts=a", "-n1", "true"]));
    assert_eq!(output.status.code(), Some(125));
    assert!(
        err(&output).contains("a says \"Welcome to a\""),
        "{}",
        err(&output)
    );
}

#[test]
fn a_program_to_log_in_that_is_not_there_is_named() {
    let words = ["--launcher=no-such-ssh", "--hosts=a", "-n1", "true"];
    let output = finish(run(&words));
    assert_eq!(output.status.code(), Some(125));
    assert!(
        err(&output).contains("no-such-ssh: cannot be started"),
        "{}",
        err(&output)
    );
}

#[test]
fn too_few_places_are_refused() {
    let output = finish(run(&["--hosts=a:1,b:1", "-n3", "true"]));
    assert_eq!(output.status.code(), Some(125));
    assert!(
        err(&output).contains("3 ranks, and room for 2"),
        "{}",
        err(&output)
    );
}

/// Starts two ranks on two hosts, which print their numbers and wait, and watches them.
fn two_that_wait(login: &Login) -> (Child, Vec<i32>, Vec<Watch>) {
    let script = "echo $$; exec sleep 1000";
    let mut child = login
        .run_script(&["--hosts=a,b", "-n2"], script)
        .spawn()
        .unwrap();
    let lines = Lines::of(&mut child);
    let numbers: Vec<i32> = (0..2).map(|_| lines.next().parse().unwrap()).collect();
    let watches = numbers.iter().map(|&number| Watch::on(number)).collect();
    (child, numbers, watches)
}

#[test]
fn ranks_of_all_hosts_die_with_a_launcher_that_is_killed() {
    let login = Login::new(HERE);
    let (child, _, watches) = two_that_wait(&login);
    signal(&child, Signal::KILL);
    watches.iter().for_each(Watch::wait_for_end);
    collect(child);
}

#[test]
fn a_connection_that_breaks_ends_the_ranks_at_both_ends() {
    // What is between the launcher and the host can be killed by itself.
    let script = "[ $1 = a ] && exec sh -c \"$2\"; cat | sh -c \"$2\" | { echo $$ >&2; exec cat; }";
    let login = Login::new(script);
    let (mut child, _, watches) = two_that_wait(&login);
    let mut text = [0; 64];
    let count = child.stderr.as_mut().unwrap().read(&mut text).unwrap();
    let login = numbers(&String::from_utf8_lossy(&text[..count]))[0];
    let login = rustix::process::Pid::from_raw(login).unwrap();
    rustix::process::kill_process_group(login, Signal::KILL).unwrap();
    watches.iter().for_each(Watch::wait_for_end);
    let output = collect(child);
    assert_eq!(output.status.code(), Some(125));
    let text = err(&output);
    assert!(
        text.contains("the connection to b ended before its ranks did"),
        "{text}"
    );
}

/// What is between the launcher and the host stops in the middle of the output, or ends there.
#[test]
fn output_that_is_lost_is_no_success() {
    // It keeps nothing back, as head does; and with cat before it, it has pipes that wait.
    let head = "dd bs=16 count=93750 status=none";
    for stop in ["exec sleep 1000", "exit 0"] {
        let script = format!("cat | sh -c \"$2\" | {{ {head}; {stop}; }}");
        let login = Login::new(&script);
        let words = ["--hosts=a", "-n1", "head", "-c", "2000000", "/dev/zero"];
        let output = finish(login.run(&words));
        assert_eq!(output.status.code(), Some(125), "{stop}");
        let text = err(&output);
        assert!(text.contains("a did not send all that its"), "{text}");
        assert!((1_000_000..1_500_000).contains(&output.stdout.len()));
    }
}

/// Nothing is lost where only the login lingers.
#[test]
fn a_login_that_lingers_is_no_failure() {
    let login = Login::new("sh -c \"$2\"; exec sleep 1000");
    let output = finish(login.run(&["--hosts=a", "-n1", "echo", "hi"]));
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!((out(&output), err(&output)), ("hi\n".into(), "".into()));
}

/// They are more than the files that a process may open at first.
#[test]
fn many_hosts_raise_the_limit_on_open_files() {
    let login = Login::new("exit 9");
    let hosts: Vec<String> = (0..70).map(|number| format!("h{number}")).collect();
    let command = login.run(&["-n70", "--hosts", &hosts.join(","), "true"]);
    let mut limited = undisturbed("/bin/sh");
    limited.args(["-c", "ulimit -Sn 100; exec \"$@\"", "sh"]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(limited);
    let text = err(&output);
    assert!(text.contains("the login exited with code 9"), "{text}");
    assert!(!text.contains("open files"), "{text}");
}

/// A login begins in another folder, and tells it to what it starts.
#[test]
fn ranks_are_told_the_folder_that_they_run_in() {
    let folder = tempfile::tempdir().unwrap();
    let folder = fs::canonicalize(folder.path()).unwrap();
    let login = Login::new(&format!("cd /; {HERE}"));
    let mut command = login.run(&["--hosts=a", "-n1", "printenv", "PWD"]);
    let output = finish_in(&mut command, &folder);
    assert_eq!(out(&output).trim_end(), folder.to_str().unwrap());
}

/// Names of folders are bytes.
#[test]
fn ranks_run_in_a_folder_whatever_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join(OsStr::from_bytes(b"not\xffutf-8"));
    fs::create_dir(&folder).unwrap();
    let login = Login::new(HERE);
    let mut command = login.run_script(&["--hosts=a", "-n1"], "pwd");
    let output = finish_in(&mut command, &folder);
    assert!(output.status.success(), "{}", err(&output));
    assert!(
        output.stdout.ends_with(b"/not\xffutf-8\n"),
        "{}",
        out(&output)
    );
}
