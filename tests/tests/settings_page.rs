//! `docs/settings.md` is what the code says. `cargo xtask settings` writes it; without
//! `LIMIC_TEST_WRITE` this test says whether it is up to date. Whatever the code reads is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use limic::Settings;
use limic::settings::{Group, OTHER_VARIABLES};

const BEGINNING: &str = "\
# Settings

`cargo xtask settings` makes this page from the sources.

A setting comes from the first of these places that names it: the program (`limic::Settings`,
`limic_options` in C), a variable of the environment, the file that `LIMIC_CONFIG` names, the host's
profile ([profile.md](profile.md)), limic itself. An endpoint reads its settings when it opens;
`limic info --all` shows the values that hold now, and where each comes from.

In a file the name is that of the variable without `LIMIC_`, in lower case: `eager_max = \"16K\"` is
`LIMIC_EAGER_MAX=16K`. An empty variable counts as not set. A value that is not accepted is an error
that says what is accepted. A variable that nothing reads is a warning on standard error, once in a
process, which `LIMIC_LOG=off` ends.

The [glossary](architecture.md#glossary) has words such as segment, staging buffer or unexpected,
and [counters.md](counters.md#paths) says what each path is.
";

const OTHERS: &str = "\
## Other variables

The part of limic that is named in brackets reads these. They have no place in a file.
";

#[test]
fn the_page_is_up_to_date() {
    let made = page();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
    if std::env::var_os("LIMIC_TEST_WRITE").is_some() {
        return fs::write(&path, made).expect("docs/settings.md can be written");
    }
    let committed = fs::read_to_string(&path).expect("docs/settings.md is there");
    assert!(
        committed == made,
        "docs/settings.md is not what the sources say; write it: cargo xtask settings"
    );
}

#[test]
fn what_the_crates_read_is_known() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut names = BTreeSet::new();
    for of_one in fs::read_dir(crates).expect("the folder of the crates") {
        quoted_names(&of_one.expect("a crate").path().join("src"), &mut names);
    }
    assert!(names.contains("LIMIC_HEAP_FROM") && names.contains("LIMIC2_PATH"));
    names.retain(|name| !is_known(name));
    assert!(
        names.is_empty(),
        "no setting, and not in OTHER_VARIABLES: {names:?}"
    );
}

/// Whether a program whose environment has the variable says nothing of it.
fn is_known(name: &str) -> bool {
    let settings = || {
        Settings::builder()
            .with_environment([(name, "off")])
            .build()
    };
    let is_unknown = |warning: &String| warning.starts_with("unknown variable");
    OTHER_VARIABLES.iter().any(|other| other.name == name)
        || name.starts_with("LIMIC_")
            && !settings().is_ok_and(|read| read.warnings().iter().any(is_unknown))
}

/// The names of variables that stand in quotes in the sources of a folder, but for its tests.
fn quoted_names(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let is_test = path.file_stem().is_some_and(|name| name == "tests");
        if path.is_dir() && !is_test {
            quoted_names(&path, names);
        } else if path.extension().is_some_and(|kind| kind == "rs") && !is_test {
            let text = fs::read_to_string(&path).expect("a source");
            let code = text.split("mod tests {").next().unwrap_or_default();
            let is_name = |text: &&str| {
                let in_name = |c: char| c == '_' || c.is_ascii_uppercase() || c.is_ascii_digit();
                let begins = text.starts_with("LIMIC_") || text.starts_with("LIMIC2_");
                begins && !text.ends_with('_') && text.chars().all(in_name)
            };
            names.extend(code.split('"').filter(is_name).map(str::to_owned));
        }
    }
}

fn page() -> String {
    let mut page = BEGINNING.to_owned();
    let variables = Settings::default().variables();
    for group in Group::ALL {
        page += &format!("\n## {group}\n\n{}\n", wrapped(group.about(), ""));
        for variable in variables.iter().filter(|variable| variable.group == group) {
            let name = format!("`{}`", variable.name);
            page += &entry(&name, variable.meaning, &variable.value, variable.accepted);
        }
    }
    page += &format!("\n{OTHERS}");
    for other in &OTHER_VARIABLES {
        let name = format!("`{}` ({})", other.name, other.read_by);
        page += &entry(&name, other.meaning, other.default, other.accepted);
    }
    page
}

fn entry(name: &str, meaning: &str, default: &str, accepted: &str) -> String {
    let text = format!("- {name}: {meaning}. Default: {default}. Accepted: {accepted}.");
    format!("\n{}\n", wrapped(&text, "  "))
}

/// The text in lines of at most 100 columns, which begin with `indent` from the second on.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            None => lines.push(word.to_owned()),
            Some(line) if line.len() + 1 + word.len() <= 100 => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n")
}
