//! Programs of version 1.0 go on working: its constants, its binary interface, and programs that
//! were compiled with its header.

mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;

use stage::{Language, missing, root, stage, succeed};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/abi")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn old_header() -> PathBuf {
    folder().join("1.0/limic.h")
}

fn new_header() -> PathBuf {
    root().join("crates/capi/include/limic.h")
}

/// What a compiler puts into programs: a library cannot take it back.
#[test]
fn constants_are_those_of_version_1_0() {
    let (old, new) = (read(&old_header()), read(&new_header()));
    let grown = ["LIMIC_VERSION ", "LIMIC_STATUS_INIT "];
    let constants: Vec<&str> = { old.lines() }
        .filter(|line| line.starts_with("#define LIMIC_") || line.starts_with("    LIMIC_"))
        .filter(|line| !grown.iter().any(|name| line.contains(name)))
        .collect();
    assert!(constants.len() > 40, "{constants:#?}");
    for constant in constants {
        assert!(new.lines().any(|line| line == constant), "{constant}");
    }
}

/// A library in C with the functions of a header, and nothing in them.
fn stub(header: &Path, folder: &Path) -> PathBuf {
    let mut source = String::new();
    for line in read(header).lines() {
        let is_code = !line.starts_with([' ', '/']) || line.starts_with("        ");
        let ends = is_code && line.ends_with(");") && !line.starts_with("typedef");
        source += if ends {
            line.trim_end_matches(';')
        } else {
            line
        };
        source += if ends {
            "{ __builtin_trap(); }\n"
        } else {
            "\n"
        };
    }
    assert!(source.matches("__builtin_trap").count() > 50, "{source}");
    let file = folder.join("stub.c");
    std::fs::write(&file, source).expect("a file");
    let library = folder.join("liblimic.so.1");
    let mut compile = Command::new("cc");
    compile.args(["-g", "-shared", "-fPIC", "-w"]).arg(&file);
    succeed(compile.arg("-o").arg(&library));
    library
}

/// Types and arguments, by their debug information in C: that of Rust names them otherwise. Which
/// functions are exported, and under which version, is a test of the programs.
#[test]
fn types_are_those_of_version_1_0() {
    if Command::new("abidiff").arg("--version").output().is_err() {
        println!("SKIPPED: abidiff (of abigail-tools) is not in PATH");
        return;
    }
    let (old, new) = (tempfile::tempdir(), tempfile::tempdir());
    let (old, new) = (old.expect("a folder"), new.expect("a folder"));
    let mut compare = Command::new("abidiff");
    compare.args(["--no-added-syms", "--suppressions"]);
    compare.arg(folder().join("grown"));
    compare.arg(stub(&old_header(), old.path()));
    compare.arg(stub(&new_header(), new.path()));
    let said = succeed(&mut compare);
    assert!(said.is_empty() || said.contains("0 Removed"), "{said}");
}

/// Compiled with the header of 1.0, and run with this library.
#[test]
fn programs_of_version_1_0_run() {
    if let Some(why) = missing(Language::Sanitized) {
        println!("SKIPPED: {why}");
        return;
    }
    let sources = root().join("crates/capi/tests/c");
    for (name, ranks) in [
        ("messages", 3),
        ("requests", 2),
        ("probe", 2),
        ("loans", 2),
        ("regions", 2),
        ("counters", 2),
        ("threads", 1),
    ] {
        let source = sources.join(name).with_extension("c");
        let header = old_header();
        let extra = ["-include", &*header.to_string_lossy()];
        let program = stage().compile_with(&source, "limic", Language::Sanitized, &extra);
        stage().run(ranks, &program);
    }
}
