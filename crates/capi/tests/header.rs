//! `include/limic.h` is what cbindgen makes of `src`. `cargo xtask header` writes it; without
//! `LIMIC_WRITE_HEADER` this test says whether it is up to date.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The files with the C interface, in the order of the header.
const SOURCES: [&str; 20] = [
    "errors",
    "handles",
    "arguments",
    "status",
    "options",
    "endpoint",
    "world",
    "messages",
    "vectored",
    "waiting",
    "requests",
    "request_lists",
    "probe",
    "tagged",
    "buffers",
    "loans",
    "regions",
    "progress",
    "counters",
    "log",
];

/// Columns of the header.
const WIDTH: usize = 100;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn source(name: &str) -> PathBuf {
    folder().join("src").join(name).with_extension("rs")
}

#[test]
fn the_header_is_up_to_date() {
    let made = header();
    let path = folder().join("include/limic.h");
    if std::env::var_os("LIMIC_WRITE_HEADER").is_some() {
        std::fs::write(&path, made).expect("include/limic.h can be written");
        return;
    }
    let committed = std::fs::read_to_string(&path).expect("include/limic.h is there");
    let differs = committed
        .lines()
        .zip(made.lines())
        .position(|(a, b)| a != b);
    assert!(
        committed == made,
        "include/limic.h is not what src says, from line {} on; write it: cargo xtask header",
        differs.map_or(committed.lines().count().min(made.lines().count()), |at| at) + 1
    );
}

#[test]
fn no_line_of_the_header_is_wider_than_a_page() {
    let wide: Vec<String> = header()
        .lines()
        .filter(|line| line.chars().count() > WIDTH)
        .map(str::to_owned)
        .collect();
    assert!(wide.is_empty(), "over {WIDTH} columns: {wide:#?}");
}

fn header() -> String {
    let config =
        cbindgen::Config::from_file(folder().join("cbindgen.toml")).expect("cbindgen.toml");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for name in SOURCES {
        builder = builder.with_src(source(name));
    }
    let mut bytes = Vec::new();
    builder
        .generate()
        .expect("the sources parse")
        .write(&mut bytes);
    let made = String::from_utf8(bytes).expect("a header is text");
    lay_out(&made)
}

/// Titles by the first function of each file: the first line of its documentation.
fn titles() -> Vec<(String, String)> {
    let of = |name: &&str| {
        let text = std::fs::read_to_string(source(name)).expect("the sources are there");
        let (_, after) = text.split_once("extern \"C\" fn ")?;
        let function = after.split('(').next()?.to_owned();
        let title = text.lines().next()?.trim_start_matches("//! ").to_owned();
        Some((function, title.trim_end_matches('.').to_owned()))
    };
    SOURCES.iter().filter_map(of).collect()
}

/// cbindgen's text with sections, filled comments, and C's words for numbers.
fn lay_out(made: &str) -> String {
    let titles = titles();
    let mut out = String::new();
    let mut lines = made.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim_start() == "/**" {
            let indent = &line[..line.len() - line.trim_start().len()];
            let mut comment = Vec::new();
            for line in lines.by_ref() {
                if line.trim() == "*/" {
                    break;
                }
                let text = line.trim_start().trim_start_matches('*');
                let text = text.strip_prefix(' ').unwrap_or(text);
                comment.push(match text.starts_with("```") {
                    true => FENCE.to_owned(),
                    false => text.replace('`', ""),
                });
            }
            let next = lines.peek().copied().unwrap_or_default();
            let title = titles
                .iter()
                .find(|(name, _)| next.contains(&format!("{name}(")));
            if let Some((_, title)) = title {
                let rule = "-".repeat(70_usize.saturating_sub(title.len()));
                let _ = writeln!(out, "/* ---- {title} {rule} */\n");
            }
            out += &filled(&comment, indent);
        } else if let Some(version) = line.strip_prefix("#define LIMIC_VERSION ") {
            let number: u32 = version.parse().expect("the version is a number");
            let _ = writeln!(out, "#define LIMIC_VERSION {number:#010x}");
        } else if line.starts_with("#define LIMIC_") {
            let line = line
                .replace(" 4294967295", " UINT32_MAX")
                .replace(" 4294967294", " (UINT32_MAX - 1)")
                .replace(" 18446744069414584319ull", " UINT64_C(0xfffffffeffffffff)")
                .replace(" -1", " (-1)");
            out += &line;
            out.push('\n');
        } else if line.starts_with(" *") {
            // The comment at the top, which cbindgen.toml lays out.
            out += line;
            out.push('\n');
        } else {
            out += &wrapped(line);
        }
    }
    out
}

/// A declaration, on as many lines as it takes.
fn wrapped(line: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for part in line.split_inclusive(", ") {
        if column > 0 && column + part.trim_end().len() > WIDTH {
            out.truncate(out.trim_end().len());
            out += "\n        ";
            column = 8;
        }
        column += part.len();
        out += part;
    }
    out + "\n"
}

/// Stands before and after the lines of an example.
const FENCE: &str = "\u{c}";

/// A comment: paragraphs and list entries, filled to the width, and examples as they are.
fn filled(comment: &[String], indent: &str) -> String {
    let mut pieces: Vec<String> = Vec::new();
    let mut fresh = true;
    let mut promise = false;
    let mut example = false;
    for line in comment {
        if line == FENCE {
            example = !example;
            continue;
        }
        if example {
            pieces.push(format!("    {line}"));
            continue;
        }
        let line = line.trim();
        if line == "# Safety" {
            promise = true;
            fresh = true;
        } else if line.is_empty() {
            if !promise {
                pieces.push(String::new());
            }
            fresh = true;
        } else if fresh || line.starts_with("- ") {
            pieces.push(if std::mem::take(&mut promise) {
                let line = line.replacen("As ", "as ", usize::from(line.starts_with("As ")));
                format!("Requires: {line}")
            } else {
                line.to_owned()
            });
            fresh = false;
        } else if let Some(last) = pieces.last_mut() {
            last.push(' ');
            last.push_str(line);
        }
    }
    if let [one] = &pieces[..]
        && indent.len() + one.len() + 7 <= WIDTH
    {
        return format!("{indent}/** {one} */\n");
    }
    let mut out = format!("{indent}/**\n");
    for piece in &pieces {
        if piece.is_empty() {
            let _ = writeln!(out, "{indent} *");
            continue;
        }
        if piece.starts_with("    ") {
            let _ = writeln!(out, "{}", format!("{indent} * {piece}").trim_end());
            continue;
        }
        let hang = if piece.starts_with("- ") { "  " } else { "" };
        let mut row = String::new();
        for word in piece.split_whitespace() {
            if !row.trim().is_empty() && indent.len() + 4 + row.len() + word.len() > WIDTH {
                let _ = writeln!(out, "{indent} * {row}");
                row = hang.to_owned();
            } else if !row.trim().is_empty() {
                row.push(' ');
            }
            row.push_str(word);
        }
        let _ = writeln!(out, "{indent} * {row}");
    }
    let _ = writeln!(out, "{indent} */");
    out
}
