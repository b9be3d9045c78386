//! A stand-in for what MVAPICH2 does with LiMIC2, and the program of docs/limic2.md, against the
//! installed library.

#[path = "../../capi/tests/stage/mod.rs"]
mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;

use stage::{Language, missing, root, stage, succeed};

fn run(source: &Path, language: Language) -> Option<String> {
    if let Some(why) = missing(language) {
        println!("SKIPPED: {why}");
        return None;
    }
    if let Err(why) = limic_copy::explain().available {
        println!("SKIPPED: cross-memory attach: {why}");
        return None;
    }
    let program = stage().compile(source, "limic2", language);
    let mut command = Command::new(program);
    stage().prepare(&mut command);
    Some(succeed(&mut command))
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn mpi(language: Language) {
    if let Some(printed) = run(&source("tests/c/mpi.c"), language) {
        assert!(printed.contains("same bytes"), "{printed}");
    }
}

#[test]
fn an_mpis_use_of_it_under_sanitizers() {
    mpi(Language::Sanitized);
}

#[test]
fn an_mpis_use_of_it_in_cpp() {
    mpi(Language::Cpp);
}

#[test]
fn an_mpis_use_of_it_with_the_static_library() {
    mpi(Language::Static);
}

#[test]
fn the_page_shows_a_program_that_runs() {
    let page = std::fs::read_to_string(root().join("docs/limic2.md")).expect("docs/limic2.md");
    let program = std::fs::read_to_string(source("examples/bulk.c")).expect("bulk.c");
    assert!(
        page.contains(&format!("```c\n{program}```")),
        "docs/limic2.md does not show crates/limic2/examples/bulk.c as it is; copy it there"
    );
    if let Some(printed) = run(&source("examples/bulk.c"), Language::C) {
        assert_eq!(printed, "child: 8388608 bytes, the last one is 'x'\n");
    }
}

/// MVAPICH2's configure looks for `limic.h` and for `limic_open` in `-llimic2`.
#[test]
fn the_five_functions_are_exported_and_nothing_else() {
    let library = stage().prefix.join("lib/liblimic2.so");
    let mut nm = Command::new("nm");
    let listed = succeed(nm.args(["-D", "--defined-only"]).arg(&library));
    let mut names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .filter_map(|name| name.split('@').next())
        .filter(|name| !name.starts_with("LIMIC2"))
        .collect();
    names.sort_unstable();
    let five = [
        "limic_close",
        "limic_open",
        "limic_rx_comp",
        "limic_tx_comp",
        "limic_tx_init",
    ];
    assert_eq!(names, five);
    assert!(stage().prefix.join("include/limic2/limic.h").is_file());
}
