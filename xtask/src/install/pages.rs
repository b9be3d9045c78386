//! Man pages of section 3, made of `limic.h`: one for each function, and `limic` for the rest.

use std::fmt::Write;

/// A page: its name, and its text for groff.
pub(super) type Page = (String, String);

/// A function of the header.
struct Function<'a> {
    name: &'a str,
    /// The section of the header that it is in.
    section: &'a str,
    comment: Vec<&'a str>,
    declaration: String,
}

/// The pages of a header.
pub(super) fn of(header: &str, version: &str) -> Vec<Page> {
    let functions = functions(header);
    let mut pages: Vec<Page> = functions
        .iter()
        .map(|function| {
            (
                function.name.to_owned(),
                page(function, &functions, version),
            )
        })
        .collect();
    pages.push(("limic".to_owned(), overview(header, &functions, version)));
    pages
}

fn functions(header: &str) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    let (mut section, mut comment) = ("", Vec::new());
    let mut lines = header.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("/* ---- ") {
            section = title.trim_end_matches("*/").trim_end_matches(['-', ' ']);
        } else if let Some(first) = line.strip_prefix("/**") {
            comment = match first.strip_suffix("*/") {
                Some(text) => vec![text.trim()],
                None => { lines.by_ref() }
                    .take_while(|line| *line != " */")
                    .map(|line| line.strip_prefix(" * ").unwrap_or_default())
                    .collect(),
            };
        } else if let Some(name) = name_of(line) {
            let mut declaration = line.to_owned();
            while !declaration.ends_with(';') {
                let Some(more) = lines.next() else { break };
                declaration.push('\n');
                declaration += more;
            }
            let comment = std::mem::take(&mut comment);
            found.push(Function {
                name,
                section,
                comment,
                declaration,
            });
        }
    }
    found
}

/// The function that a line begins to declare.
fn name_of(line: &str) -> Option<&str> {
    let (before, _) = line.split_once('(')?;
    let is_declaration = before.starts_with(|first: char| first.is_ascii_lowercase());
    let name = before.rsplit([' ', '*']).next()?;
    (is_declaration && name.starts_with("limic_") && !before.starts_with("typedef")).then_some(name)
}

fn page(function: &Function<'_>, all: &[Function<'_>], version: &str) -> String {
    let mut out = head(function.name, version);
    let whole = function.comment.join(" ");
    let brief = whole.split(['.', ':', ';']).next().unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = writeln!(out, ".SH NAME\n{} \\- {}", function.name, plain(brief));
    let declaration = plain(&function.declaration);
    let _ = writeln!(
        out,
        ".SH SYNOPSIS\n.nf\n#include <limic.h>\n\n{declaration}\n.fi"
    );
    out += ".SH DESCRIPTION\n";
    text(&function.comment, &mut out);
    let beside: Vec<String> = { all.iter() }
        .filter(|other| other.section == function.section && other.name != function.name)
        .map(|other| format!("{} (3)", other.name))
        .chain(["limic (3)".to_owned()])
        .collect();
    let _ = writeln!(out, ".SH SEE ALSO\n.BR {}", beside.join(" ,\n.BR "));
    out
}

/// What the header says at its top, and the list of functions.
fn overview(header: &str, functions: &[Function<'_>], version: &str) -> String {
    let mut out = head("limic", version);
    let top: Vec<&str> = { header.lines().skip(1) }
        .take_while(|line| *line != " */")
        .map(|line| line.strip_prefix(" * ").unwrap_or_default())
        .collect();
    let brief = top.first().and_then(|line| line.split_once(": "));
    let brief = brief.map_or("messages", |(_, brief)| brief.trim_end_matches('.'));
    let _ = writeln!(out, ".SH NAME\nlimic \\- {}", plain(brief));
    out += ".SH SYNOPSIS\n.nf\n#include <limic.h>\n.fi\n";
    for line in top
        .iter()
        .skip(1)
        .filter(|line| !line.starts_with("Made from"))
    {
        match line.strip_prefix("  ") {
            Some(line) => text(&[line], &mut out),
            None if line.is_empty() => {}
            None => {
                let _ = writeln!(out, ".SH {line}");
            }
        }
    }
    out += ".SH FUNCTIONS\n";
    let mut section = "";
    for function in functions {
        if function.section != section {
            section = function.section;
            let _ = writeln!(out, ".SS {}", plain(section));
        }
        let _ = writeln!(out, ".BR {} (3)\n.br", function.name);
    }
    out
}

fn head(name: &str, version: &str) -> String {
    format!(".TH {name} 3 \"\" \"limic {version}\" \"C interface of limic\"\n")
}

/// A comment's paragraphs, lists and examples.
fn text(comment: &[&str], out: &mut String) {
    let mut example = false;
    for line in comment {
        let is_example = line.starts_with("    ") || example && line.is_empty();
        if is_example != example {
            *out += if is_example { ".PP\n.EX\n" } else { ".EE\n" };
            example = is_example;
        }
        // What an example ends with may be the line before a paragraph.
        let _ = match (line.strip_prefix("- "), line.strip_prefix("Errors: ")) {
            (Some(entry), _) => writeln!(out, ".IP \\(bu 2\n{}", plain(entry)),
            (_, Some(errors)) => writeln!(out, ".SH ERRORS\n{}", plain(errors)),
            _ if line.is_empty() && !example => writeln!(out, ".PP"),
            _ => match line.strip_prefix("Requires: ") {
                Some(promise) => {
                    let promise =
                        promise.replacen("as ", "As ", usize::from(promise.starts_with("as ")));
                    writeln!(out, ".SH REQUIRES\n{}", plain(&promise))
                }
                None if is_example => writeln!(out, "{}", plain(line)),
                None => writeln!(out, "{}", plain(line.trim_start())),
            },
        };
    }
    if example {
        *out += ".EE\n";
    }
}

/// Text in which groff sees no orders.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        match line.starts_with(['.', '\'']) {
            true => format!("\\&{line}"),
            false => line,
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "/*
 * limic: messages.
 *
 * MEMORY
 *   A buffer is yours.
 */

/* ---- Ends --------- */

/** The text of a code: one line. */
const char *limic_text(int code);

/**
 * Ends it. There is more.
 *
 * - what: the thing,
 *   whole.
 *
 *     limic_end(\"a\\n\");
 *
 *     limic_end(x);
 *
 * Errors: LIMIC_ERR_SIZE; misuse.
 *
 * Requires: what is readable.
 */
int limic_end(const char *what,
        int more);
";

    #[test]
    fn a_function_has_a_page() {
        let pages = of(HEADER, "1.1");
        let names: Vec<&str> = pages.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["limic_text", "limic_end", "limic"]);
        let end = &pages[1].1;
        for part in [
            ".SH NAME\nlimic_end \\- Ends it\n",
            "int limic_end(const char *what,\n        int more);\n.fi\n",
            ".IP \\(bu 2\nwhat: the thing,\nwhole.\n",
            ".EX\n    limic_end(\"a\\en\");\n\n    limic_end(x);\n",
            ".SH ERRORS\nLIMIC_ERR_SIZE; misuse.\n",
            ".SH REQUIRES\nwhat is readable.\n",
            ".SH SEE ALSO\n.BR limic_text (3) ,\n.BR limic (3)\n",
        ] {
            assert!(end.contains(part), "{part}: {end}");
        }
        let all = &pages[2].1;
        assert!(all.contains(".SH MEMORY\nA buffer is yours.\n"), "{all}");
        assert!(all.contains(".SS Ends\n.BR limic_text (3)\n"), "{all}");
    }
}
