//! The program of docs/c-api.md: the page shows it letter by letter, and it runs as the page says,
//! under both launchers.

mod stage;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use stage::{Language, missing, root, stage, succeed};

fn source() -> PathBuf {
    root().join("crates/capi/examples/hello.c")
}

#[test]
fn the_page_shows_the_program() {
    let page = std::fs::read_to_string(root().join("docs/c-api.md")).expect("docs/c-api.md");
    let program = std::fs::read_to_string(source()).expect("hello.c");
    assert!(
        page.contains(&format!("```c\n{program}```")),
        "docs/c-api.md does not show crates/capi/examples/hello.c as it is; copy it there"
    );
}

/// Both ranks greeted each other.
fn check(printed: &str) {
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "rank 0 of 2 got 'hello from rank 1' from rank 1",
            "rank 1 of 2 got 'hello from rank 0' from rank 0",
        ]
    );
}

/// Compiled once: a program that another test runs cannot be written.
fn program() -> Option<&'static PathBuf> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    if let Some(why) = missing(Language::C) {
        println!("SKIPPED: {why}");
        return None;
    }
    Some(PROGRAM.get_or_init(|| stage().compile(&source(), "limic", Language::C)))
}

#[test]
fn two_ranks_under_limic_run() {
    let Some(program) = program() else { return };
    check(&stage().run(2, program));
}

#[test]
fn two_ranks_under_hydra() {
    let Some(mpiexec) = hydra() else {
        println!(
            "SKIPPED: Hydra's mpiexec (of MPICH) is not in PATH; cargo xtask peers installs it"
        );
        return;
    };
    let Some(program) = program() else { return };
    let mut command = Command::new(mpiexec);
    command.args(["-n", "2"]).arg(program);
    stage().prepare(&mut command);
    check(&succeed(&mut command));
}

/// `cargo xtask test` names what `cargo xtask peers` installed; else it is looked for in PATH.
fn hydra() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("LIMIC_TEST_HYDRA") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join("mpiexec.hydra"));
    files.find(|file| file.is_file())
}
