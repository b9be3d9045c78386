//! Whether KASAN is awake, by the kernel's own faulty code: only on the image that has it.

use std::path::Path;
use std::process::Command;

use limic_lab_tests::in_guest;

/// Which of the faulty code runs, as the kernel's unit tests are told.
const FILTER: &str = "/sys/module/kunit/parameters/filter_glob";
const RESULTS: &str = "/sys/kernel/debug/kunit/kasan/results";

/// An access behind the end of an object, one to a freed object, one behind the end of memory from
/// vmalloc, one by a system call's copy from user memory, and a freed vector in Rust. Each passes
/// only if KASAN has reported it; the lab looks for the report too.
const FAULTS: [&str; 5] = [
    "kmalloc_oob_right",
    "kmalloc_uaf",
    "vmalloc_oob",
    "copy_user_test_oob",
    "rust_uaf",
];

#[test]
fn kasan_reports_faults_in_c_and_in_rust() {
    if !in_guest() {
        return;
    }
    let code =
        std::env::var("LIMIC_LAB_KASAN_TEST").expect("the lab says where the faulty code is");
    assert!(Path::new(&code).exists(), "no {code}");
    for fault in FAULTS {
        std::fs::write(FILTER, format!("kasan.{fault}")).expect("root may");
        run("insmod", &code);
        let results = std::fs::read_to_string(RESULTS).expect("the kernel's verdict");
        // `    ok 1 rust_uaf`
        let passed = results.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.len() == 3 && words[0] == "ok" && words[2] == fault
        });
        assert!(passed, "KASAN did not see {fault}:\n{results}");
        println!("REPORT: seen: {fault}");
        run("rmmod", "kasan_test");
    }
}

fn run(program: &str, word: &str) {
    let status = Command::new(program).arg(word).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "{program} {word}"
    );
}
