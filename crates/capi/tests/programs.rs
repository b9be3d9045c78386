//! One C program per group of functions, as C11 under the sanitizers and as C++11, with real
//! processes.

mod stage;

use std::path::{Path, PathBuf};

use stage::{Language, missing, stage, succeed};

fn source(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    folder.join(name).with_extension("c")
}

fn program(name: &str, ranks: u32) {
    for language in [Language::Sanitized, Language::Cpp] {
        if let Some(why) = missing(language) {
            println!("SKIPPED: {name}: {why}");
            continue;
        }
        let stage = stage();
        let program = stage.compile(&source(name), "limic", language);
        stage.run(ranks, &program);
    }
}

macro_rules! programs {
    ($($name:ident: $ranks:expr),* $(,)?) => {$(
        #[test]
        fn $name() {
            program(stringify!($name), $ranks);
        }
    )*};
}

programs! {
    errors: 1,
    endpoint: 1,
    world: 3,
    messages: 3,
    vectored: 2,
    requests: 2,
    probe: 2,
    tagged: 2,
    send_flags: 2,
    patience: 1,
    loans: 2,
    buffers: 2,
    regions: 2,
    stopped: 1,
    progress: 2,
    counters: 2,
    growth: 1,
    misuse: 1,
    threads: 1,
    any_thread: 1,
    let_in: 2,
    let_go: 2,
    several: 1,
    log: 1,
}

/// The launcher ends the other rank, tells the message, and has the code.
#[test]
fn an_abort_waits_for_nobody() {
    if let Some(why) = missing(Language::C) {
        println!("SKIPPED: {why}");
        return;
    }
    let stage = stage();
    let program = stage.compile(&source("abort"), "limic", Language::C);
    let mut command = std::process::Command::new(&stage.limic);
    command.args(["run", "-n", "2"]).arg(program);
    stage.prepare(&mut command);
    let output = stage::finish(&mut command);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("enough"), "{said}");
}

/// The header for C++.
#[test]
fn objects_end_by_themselves() {
    if let Some(why) = missing(Language::Cpp) {
        println!("SKIPPED: {why}");
        return;
    }
    let source = source("raii").with_extension("cpp");
    stage().run(2, &stage().compile(&source, "limic", Language::Cpp));
}

#[test]
fn the_static_library_does_the_same() {
    if let Some(why) = missing(Language::Static) {
        println!("SKIPPED: {why}");
        return;
    }
    let program = stage().compile(&source("messages"), "limic", Language::Static);
    let needed = succeed(
        std::process::Command::new("readelf")
            .arg("-d")
            .arg(&program),
    );
    assert!(!needed.contains("liblimic"), "{needed}");
    stage().run(2, &program);
}

/// The ping-pong that users copy, and `cargo xtask c-latency` measures: a line per length.
#[test]
fn the_ping_pong_tells_its_times() {
    if let Some(why) = missing(Language::C) {
        println!("SKIPPED: {why}");
        return;
    }
    let source = stage::root().join("crates/capi/examples/latency.c");
    let printed = stage().run(2, &stage().compile(&source, "limic", Language::C));
    let lines: Vec<(usize, f64)> = printed
        .lines()
        .filter_map(|line| {
            let (bytes, us) = line.split_once(' ')?;
            Some((bytes.parse().ok()?, us.parse().ok()?))
        })
        .collect();
    assert!(
        matches!(lines[..], [(8, small), (1024, large)] if small > 0.0 && large > 0.0),
        "{printed}"
    );
}

/// The node of limic.map that names a function.
fn version_of(name: &str) -> &'static str {
    let mut node = "";
    for line in include_str!("../limic.map").lines() {
        if let Some(begun) = line.strip_suffix(" {") {
            node = begun;
        } else if line.trim().strip_suffix(';') == Some(name) {
            return node;
        }
    }
    panic!("limic.map does not have {name}")
}

/// Every function of the header is exported, under the version that limic.map gives it, and nothing
/// else is.
#[test]
fn the_shared_library_exports_the_header() {
    let header = std::fs::read_to_string(stage().prefix.join("include/limic.h")).expect("limic.h");
    let mut declared: Vec<String> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '#', '/', '}']) && line.contains('('))
        .filter_map(|line| {
            let name = line.split('(').next()?.rsplit([' ', '*']).next()?;
            name.starts_with("limic_")
                .then(|| format!("{name}@@{}", version_of(name)))
        })
        .collect();
    declared.sort();
    assert!(declared.len() > 40, "{declared:?}");
    let library = stage().prefix.join("lib/liblimic.so");
    let mut nm = std::process::Command::new("nm");
    let listed = succeed(
        nm.args(["-D", "--defined-only", "--with-symbol-versions"])
            .arg(&library),
    );
    let mut exported: Vec<String> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .filter(|name| !name.starts_with("LIMIC_"))
        .map(str::to_owned)
        .collect();
    exported.sort();
    assert_eq!(exported, declared);
    let dynamic = succeed(
        std::process::Command::new("readelf")
            .arg("-d")
            .arg(&library),
    );
    assert!(dynamic.contains("soname: [liblimic.so.1]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}
