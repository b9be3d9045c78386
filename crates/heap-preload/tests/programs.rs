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

/// Compiles a program of this folder, whose functions libraries find. False: there is no compiler.
fn compile(name: &str, program: &Path) -> bool {
    compile_with(name, program, &["-pthread", "-rdynamic"])
}

fn compile_with(name: &str, program: &Path, options: &[&str]) -> bool {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-fno-builtin", "-o"])
        .arg(program)
        .arg(folder.join(name))
        .args(options);
    match cc.status() {
        Ok(done) => assert!(done.success(), "cc: {done}"),
        Err(why) => println!("SKIPPED: no C compiler: {why}"),
    }
    program.exists()
}

/// What a program says that complains of nothing.
fn only(text: &str) -> (String, String) {
    (text.to_owned(), String::new())
}

/// Runs a program of this folder, which says this and nothing else.
fn says(name: &str, text: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join(name);
    if compile(&format!("{name}.c"), &program) {
        assert_eq!(run(&program, "16K"), only(text));
    }
}

#[test]
fn realloc_inside_of_the_heap_keeps_the_block() {
    says("inside", "the block is whole\n");
}

#[test]
fn a_fork_waits_for_no_library_that_allocates() {
    says("atfork", "each fork has ended\n");
}

#[test]
fn a_fork_waits_for_nobody_who_allocates_with_a_file_locked() {
    says("stdio", "each fork has ended\n");
}

#[test]
fn a_thread_is_not_cancelled_within_the_heap() {
    says("cancel", "each thread was cancelled without the lock\n");
}

#[test]
fn another_allocator_is_not_asked_for_the_c_librarys_blocks() {
    let folder = tempfile::tempdir().expect("a folder");
    let (program, allocator) = (
        folder.path().join("linked"),
        folder.path().join("allocator"),
    );
    let linked = ["-Wl,--no-as-needed", allocator.to_str().expect("a path")];
    if compile_with("allocator.c", &allocator, &["-shared", "-fPIC"])
        && compile_with("linked.c", &program, &linked)
    {
        assert_eq!(run(&program, "16K"), only("the block has grown\n"));
    }
}

#[test]
fn all_of_mallocs_family_keeps_its_contracts() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("blocks");
    if !compile("blocks.c", &program) {
        return;
    }
    let there = "long blocks lie in memory of limic\n";
    let nowhere = "no block lies in memory of limic\n";
    for (from, says) in [("16K", there), ("4K", there), ("", there), ("0", nowhere)] {
        assert_eq!(run(&program, from), only(says), "{from}");
    }
    // Shorter blocks than of 4K hold what the C library itself writes during a fork.
    for wrong in ["much", "1", "4095"] {
        let (said, complained) = run(&program, wrong);
        assert_eq!(said, there);
        assert!(
            complained.contains("LIMIC_HEAP_FROM is no number of bytes from 4K on"),
            "{wrong}: {complained}"
        );
    }
}
