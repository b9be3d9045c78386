//! `limic run`: output, input, environment and binding of the ranks.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod launcher;

use std::fs::File;
use std::io::Write;
use std::process::Stdio;
use std::time::Instant;

use launcher::login::{HERE, Login};
use launcher::*;
use rustix::process::Signal;

#[test]
fn labels_lead_whole_lines_on_both_streams() {
    let script = "echo out; echo err >&2; printf 'no end'";
    let output = finish(run_script(&["-n", "2", "--label"], script));
    assert_eq!(
        sorted(&output),
        ["[0] no end", "[0] out", "[1] no end", "[1] out"]
    );
    let mut errors: Vec<String> = err(&output).lines().map(str::to_owned).collect();
    errors.sort();
    assert_eq!(errors, ["[0] err", "[1] err"]);
}

#[test]
fn labelled_lines_are_never_mixed_and_binary_safe() {
    let script =
        "i=0; while [ $i -lt 300 ]; do printf 'a%0500d\\377\\n' $PMI_RANK; i=$((i+1)); done";
    let output = finish(run_script(&["-n", "4", "-l"], script));
    let lines: Vec<&[u8]> = output
        .stdout
        .split_inclusive(|&byte| byte == b'\n')
        .collect();
    assert_eq!(lines.len(), 4 * 300);
    for line in lines {
        let rank = char::from(line[1]);
        let expected = format!("[{rank}] a{}{rank}", "0".repeat(499));
        assert_eq!(line, [expected.as_bytes(), b"\xff\n"].concat());
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_job() {
    let mut child = run(&["-n", "2", "-l", "yes"]).spawn().unwrap();
    let mut first = [0; 4];
    let mut out = child.stdout.take().unwrap();
    std::io::Read::read_exact(&mut out, &mut first).unwrap();
    drop(out);
    assert_eq!(
        collect(child).status.code(),
        Some(141),
        "SIGPIPE, as in a shell's pipeline"
    );
}

/// The launcher writes for its ranks, with labels or for hosts, where they have ended long before.
#[test]
fn a_full_disk_fails_the_job_and_is_named() {
    let login = Login::new(HERE);
    let script = "echo lost";
    for mut command in [
        run_script(&["-n2", "-l"], script),
        login.run_script(&["--hosts=a,b", "-n2"], script),
    ] {
        command.stdout(File::options().write(true).open("/dev/full").unwrap());
        let output = finish(command);
        assert_eq!(output.status.code(), Some(125), "{}", err(&output));
        let text = err(&output);
        let named = "limic run: standard output: No space left on device";
        assert_eq!(text.matches(named).count(), 1, "{text}");
    }
}

/// Nothing reads what the launcher and its rank print, onto one pipe.
fn ends_without_a_reader(test: &str, words: &[&str], fill: &str) {
    let (reader, writer) = std::io::pipe().unwrap();
    ends_in_time(test, words, fill, (reader, writer.into()));
}

#[test]
fn the_time_limit_holds_where_nobody_reads() {
    ends_without_a_reader("no-reader", &[], "exec yes");
}

#[test]
fn the_time_limit_holds_where_nobody_reads_labelled_lines() {
    ends_without_a_reader("no-reader-label", &["-l"], "yes & exec yes >&2");
}

#[test]
fn a_launcher_that_nobody_reads_can_be_ended() {
    for (name, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let fifo = Fifo::new(&format!("unread-{code}"));
        let script = "echo $$ >$FIFO; exec head -c 500000 /dev/zero";
        let mut child = run_script(&["-n1", "-l", &fifo.variable()], script)
            .spawn()
            .unwrap();
        let rank: i32 = fifo.line().parse().unwrap();
        let begin = Instant::now();
        while in_process_table(rank) {
            assert!(begin.elapsed() < WATCHDOG, "the rank is left");
            std::thread::yield_now();
        }
        let reader = child.stdout.take();
        signal(&child, name);
        assert_eq!(collect(child).status.code(), Some(code), "output is lost");
        drop(reader);
    }
}

#[test]
fn without_labels_the_output_is_the_launchers_own() {
    let output = finish(run_script(
        &["-n", "1"],
        "readlink /proc/$$/fd/1; echo e >&2",
    ));
    assert!(out(&output).starts_with("pipe:"));
    assert_eq!(err(&output), "e\n");
}

#[test]
fn rank_0_reads_the_input_and_the_others_nothing() {
    let mut command = run(&["-n", "3", "-l", "cat"]);
    command.stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo").unwrap();
    let output = collect(child);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(out(&output), "[0] one\n[0] two\n");
}

#[test]
fn ranks_see_their_place_and_the_given_variables() {
    let script = "echo $PMI_RANK $PMI_SIZE $PMI_SPAWNED $LIMIC_LOCAL_RANK $LIMIC_LOCAL_SIZE \
                  $A $B ${PMIX_NAMESPACE-none} ${PMI_PORT-none}";
    let mut command = run_script(&["-n", "2", "--env", "A=1=2", "--env", "B=b"], script);
    command
        .env("PMIX_NAMESPACE", "outer")
        .env("PMI_PORT", "outer:1");
    let output = finish(command);
    assert_eq!(
        sorted(&output),
        ["0 2 0 0 2 1=2 b none none", "1 2 0 1 2 1=2 b none none"]
    );
}

#[test]
fn arguments_of_the_program_are_its_own() {
    let output = finish(run(&["-n", "1", "echo", "-n", "--label", "--", "x"]));
    assert_eq!(out(&output), "--label -- x");
    let output = finish(run(&["-n", "1", "--", "echo", "y"]));
    assert_eq!(out(&output), "y\n");
}

/// The CPUs of each rank, in rank order.
fn bound(words: &[&str]) -> Vec<String> {
    let output = finish(run_script(
        words,
        "echo $PMI_RANK $(grep Cpus_allowed_list /proc/self/status)",
    ));
    let lines = sorted(&output);
    let last = |line: &String| line.rsplit(' ').next().unwrap().to_owned();
    lines.iter().map(last).collect()
}

#[test]
fn ranks_are_bound_round_robin_if_there_are_enough_cpus_or_asked_for() {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    let allowed: Vec<String> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .map(|cpu| cpu.to_string())
        .collect();
    let all = bound(&["-n", "1", "--bind", "none"]).remove(0);
    assert_eq!(bound(&["-n", "1"]), allowed[..1]);

    // More than nine ranks would not sort by their number.
    let many = allowed.len() + 1;
    if many > 9 {
        println!(
            "SKIPPED: {} CPUs are too many to start one rank more",
            allowed.len()
        );
        return;
    }
    let count = many.to_string();
    assert_eq!(bound(&["-n", &count]), vec![all; many]);
    let round: Vec<String> = allowed.iter().cycle().take(many).cloned().collect();
    assert_eq!(bound(&["-n", &count, "--bind", "cpu"]), round);
}
