//! Comments and pages are at most 100 columns wide, and name files that are there; code in pages is
//! fenced: `cargo xtask lines`.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use limic_runner::folders::root;
use limic_runner::{Failure, Job};

use crate::named_files;

/// The width of a line, in characters.
const COLUMNS: usize = 100;

/// Pages that a program writes: how their paths begin.
const WRITTEN: [&str; 2] = ["crates/capi/include/limic.h", "docs/compare"];

/// Refuses lines of tracked files that are wider, name a file that is not there, or are fences that
/// do not part text from code.
pub(crate) fn run() -> Result<(), Failure> {
    let files = Job::new("git", 1).args(["ls-files"]).capture()?;
    let files: Vec<_> = files.lines().collect();
    let is_text = |file: &&&str| {
        let kind = Path::new(file).extension().and_then(OsStr::to_str);
        let written = WRITTEN.iter().any(|path| file.starts_with(path));
        matches!(kind, Some("rs" | "c" | "h" | "md")) && !written
    };
    let (mut wide, mut missing, mut fences) = (String::new(), String::new(), String::new());
    for file in files.iter().filter(is_text) {
        let text = std::fs::read_to_string(root().join(file))
            .map_err(|why| Failure::Missing(format!("{file}: {why}")))?;
        for number in wide_lines(Path::new(file), &text) {
            // Writing to a string cannot fail.
            let _ = writeln!(wide, "{file}:{number}");
        }
        for (number, name) in named_files::missing(file, &text, &files) {
            let _ = writeln!(missing, "{file}:{number}: {name}");
        }
        if is_page(Path::new(file)) {
            for number in broken_fences(&text) {
                let _ = writeln!(fences, "{file}:{number}");
            }
        }
    }
    if !wide.is_empty() {
        return Err(Failure::Checks(format!(
            "comments and pages are at most {COLUMNS} columns wide, but these lines are wider:\n\
             {wide}"
        )));
    }
    if !fences.is_empty() {
        return Err(Failure::Checks(format!(
            "a fence of code has a line of its own, and another one ends it, but these do not:\n\
             {fences}"
        )));
    }
    if !missing.is_empty() {
        return Err(Failure::Checks(format!(
            "comments and pages name files that are not there:\n{missing}"
        )));
    }
    Ok(())
}

fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "md")
}

/// Numbers of the lines of a page whose fence has text beside it, and of a fence that nothing ends.
fn broken_fences(page: &str) -> Vec<usize> {
    let mut open = None;
    let mut broken = Vec::new();
    for (number, line) in (1..).zip(page.lines()) {
        let Some((before, after)) = line.split_once("```") else {
            continue;
        };
        let is_language =
            |c: char| open.is_none() && (c.is_ascii_alphanumeric() || "_,".contains(c));
        if !before.trim().is_empty() || !after.trim_end().chars().all(is_language) {
            broken.push(number);
        } else {
            open = open.is_none().then_some(number);
        }
    }
    broken.extend(open);
    broken
}

/// Numbers of the lines that are too wide. Code is rustfmt's to wrap; a table and an address cannot
/// be.
fn wide_lines(file: &Path, text: &str) -> Vec<usize> {
    let is_page = is_page(file);
    let mut fenced = false;
    let mut wide = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words = line.trim_start();
        if is_page && words.starts_with("```") {
            fenced = !fenced;
        }
        let content = words.trim_start_matches(['/', '!', '*', ' ']);
        let is_text = if is_page {
            !fenced
        } else {
            ["//", "/*", "* "]
                .iter()
                .any(|mark| words.starts_with(mark))
        };
        let is_table = content.starts_with('|');
        let breaks = content.trim_start_matches(['-', ' ']).contains(' ');
        if is_text && !is_table && breaks && line.chars().count() > COLUMNS {
            wide.push(number);
        }
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_refused_and_tables_code_and_addresses_are_not() {
        let long = "word ".repeat(30);
        let page = format!(
            "{long}\n| {long} |\n```sh\n{long}\n```\n- {}\n",
            "x".repeat(120)
        );
        assert_eq!(wide_lines(Path::new("a.md"), &page), [1]);
        let code = format!("let a = \"{long}\";\n// {long}\n    /// {long}\n * {long}\n");
        assert_eq!(wide_lines(Path::new("a.rs"), &code), [2, 3, 4]);
    }

    #[test]
    fn fences_with_text_beside_them_or_without_an_end_are_found() {
        assert!(broken_fences("```sh,no_run\na\n```\n- b\n  ```\n  c\n  ```\n").is_empty());
        assert_eq!(broken_fences("```sh\na b ```\nc\n"), [2, 1]);
        assert_eq!(broken_fences("```\na\n```\n\n```text\nb\n"), [5]);
        assert_eq!(broken_fences("```sh a\nb\n"), [1]);
        assert_eq!(broken_fences("```\na\n```sh\nb\n```\n"), [3]);
    }
}
