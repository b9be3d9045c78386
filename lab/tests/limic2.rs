//! liblimic2 over the kernel module: what an MPI does with LiMIC2, with each way that copies can
//! take.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use limic_lab_tests::in_guest;

const FOLDER: &str = "/sys/kernel/debug/limic";

/// The stand-in for an MPI, which `cargo xtask lab test` builds beside the command.
fn stand_in(path: &str) -> Command {
    let here = std::env::current_exe().expect("this program's path");
    let folder: PathBuf = here
        .ancestors()
        .nth(2)
        .expect("the target directory")
        .into();
    let mut command = Command::new(folder.join("limic2-mpi"));
    command.env("LIMIC2_PATH", path);
    command
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// A figure of the module's.
fn counter(name: &str) -> u64 {
    let text = fs::read_to_string(format!("{FOLDER}/counters")).expect("the counters");
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find(|(found, _)| *found == name);
    found
        .and_then(|(_, number)| number.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in:\n{text}"))
}

/// Runs the stand-in to its good end; gives the bytes that the module copied for it.
fn bytes_by_the_module(path: &str) -> u64 {
    fs::write(format!("{FOLDER}/measure"), "1").expect("the switch");
    let output = stand_in(path).output().expect("the program starts");
    assert!(
        output.status.success(),
        "LIMIC2_PATH={path}: {}",
        said(&output)
    );
    assert!(said(&output).contains("same bytes"), "{}", said(&output));
    let bytes = counter("bytes");
    fs::write(format!("{FOLDER}/measure"), "0").expect("the switch");
    assert_eq!(
        (counter("exposures"), counter("pinned_pages")),
        (0, 0),
        "its buffers went with it"
    );
    bytes
}

/// Bytes of the longest message of the stand-in.
const LONGEST: u64 = 60 << 20;

#[test]
fn an_mpis_use_of_it_through_the_module_alone() {
    if in_guest() {
        assert!(bytes_by_the_module("kmod") > LONGEST);
    }
}

#[test]
fn the_module_is_taken_where_it_is() {
    if in_guest() {
        assert!(bytes_by_the_module("auto") > LONGEST);
    }
}

#[test]
fn the_same_without_the_module() {
    if in_guest() {
        assert_eq!(bytes_by_the_module("cma"), 0);
    }
}

/// Who may pin next to nothing is served by cross-memory attach.
#[test]
fn little_locked_memory_is_no_failure() {
    if !in_guest() {
        return;
    }
    let words = "chmod 666 /dev/limic; ulimit -l 64; export LIMIC_LOG=warn; exec su one -c \"$0\"";
    let program = stand_in("auto");
    let output = Command::new("sh")
        .args(["-c", words])
        .arg(program.get_program())
        .env("LIMIC2_PATH", "auto")
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{}", said(&output));
    let said = said(&output);
    assert!(said.contains("same bytes"), "{said}");
    assert!(said.contains("cross-memory attach instead"), "{said}");
}

#[test]
fn a_way_that_is_none_is_refused() {
    if in_guest() {
        let output = stand_in("carrier-pigeon").output().expect("it starts");
        assert!(!output.status.success());
        let said = said(&output);
        assert!(
            said.contains("LIMIC2_PATH=carrier-pigeon is none of auto, kmod and cma"),
            "{said}"
        );
    }
}
