//! Programs with `liblimic-heap.so` preloaded.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library, which cargo has built beside the tests.
fn library() -> PathBuf {
    let this = std::env::current_exe().expect("the path of this test");
    let built = this
        .ancestors()
        .map(|folder| folder.join("liblimic_heap_preload.so"));
    built
        .into_iter()
        .find(|file| file.exists())
        .expect("the library beside this test")
}

fn run(program: &Path, from: &str) -> (String, String) {
    let mut command = Command::new(program);
    command
        .env("LD_PRELOAD", library())
        .env("LIMIC_HEAP_FROM", from);
    let output = command.output().expect("a program that runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success(),
        "{}: {said}{complained}",
        output.status
    );
    (said, complained)
}

#[test]
fn all_of_mallocs_family_keeps_its_contracts() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("blocks");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blocks.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-fno-builtin", "-pthread", "-o"])
        .arg(&program)
        .arg(&source);
    match cc.status() {
        Ok(done) => assert!(done.success(), "cc: {done}"),
        Err(why) => return println!("SKIPPED: no C compiler: {why}"),
    }
    let there = "long blocks lie in memory of limic\n";
    let nowhere = "no block lies in memory of limic\n";
    for (from, says) in [("16K", there), ("1", there), ("0", nowhere)] {
        assert_eq!(
            run(&program, from),
            (says.to_owned(), String::new()),
            "{from}"
        );
    }
    let (said, complained) = run(&program, "much");
    assert_eq!(said, there);
    assert!(
        complained.contains("LIMIC_HEAP_FROM is no number of bytes"),
        "{complained}"
    );
}
