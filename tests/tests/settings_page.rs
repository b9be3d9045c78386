//! `docs/settings.md` is what the code says. `cargo xtask settings` writes it; without
//! `LIMIC_TEST_WRITE` this test says whether it is up to date.

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
`LIMIC_EAGER_MAX=16K`. An empty variable is as good as none. A value that is not accepted is an
error that says what is accepted. A variable that nothing reads is a warning on standard error, once
in a process, which `LIMIC_LOG=off` ends.
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
        return std::fs::write(&path, made).expect("docs/settings.md can be written");
    }
    let committed = std::fs::read_to_string(&path).expect("docs/settings.md is there");
    assert!(
        committed == made,
        "docs/settings.md is not what the sources say; write it: cargo xtask settings"
    );
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
