//! What comments and pages name is there: files of Rust, and what pages link to.

use std::path::{Component, Path, PathBuf};

/// It ends like a file, and is a site.
const SITE: &str = "docs.rs";

/// Numbers of the lines that name a file which is not there, each with the name. `tracked` are the
/// files of the repository, of which a name may be the end.
pub(crate) fn missing<'a>(file: &str, text: &'a str, tracked: &[&str]) -> Vec<(usize, &'a str)> {
    let is_page = Path::new(file).extension() == Some("md".as_ref());
    let is_tracked = |name: &str| {
        let mut before = tracked.iter().filter_map(|path| path.strip_suffix(name));
        before.any(|folder| folder.is_empty() || folder.ends_with('/'))
    };
    let is_linked = |link: &str| {
        let path = linked(file, link);
        let holds = |path| {
            tracked
                .iter()
                .any(|file| Path::new(file).starts_with(&path))
        };
        path.is_some_and(holds)
    };
    let mut missing = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if !is_page && !line.trim_start().starts_with(['/', '*']) {
            continue;
        }
        let in_name = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        for word in line.split(|c| !in_name(c)) {
            let name = word.trim_start_matches(['.', '/']).trim_end_matches('.');
            if name.ends_with(".rs") && name != SITE && !is_tracked(name) {
                missing.push((number, name));
            }
        }
        let links = line.split("](").skip(1).filter(|_| is_page);
        for link in links.filter_map(|rest| rest.split([')', '#']).next()) {
            if !link.contains(':') && !is_linked(link) {
                missing.push((number, link));
            }
        }
    }
    missing
}

/// What a link of a page leads to, a file or a folder, from the root of the repository on. `None`
/// outside of it.
fn linked(page: &str, link: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for part in Path::new(page).parent()?.join(link).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir if path.pop() => {}
            _ => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_links_that_are_nowhere_are_found_and_others_are_not() {
        let tracked = ["crates/a/src/ring.rs", "xtask/src/main.rs"];
        let code = "// See `a/src/ring.rs`, and docs.rs.\n/// `at_ring.rs`\nlet a = \"b.rs\";\n";
        assert_eq!(missing("a.rs", code, &tracked), [(2, "at_ring.rs")]);
        let page = "[x](main.rs), [y](y.md#part), [z](https://a.b)\n../src/main.rs, main.rs.\n";
        assert_eq!(missing("xtask/src/a.md", page, &tracked), [(1, "y.md")]);
        let page = "[in the page](#part), [a folder](../../crates/a/), [the root](../..)\n\
            [not of the repository](counts)\n[outside](../../../xtask)\n[root](/xtask)\n";
        let found = missing("xtask/src/a.md", page, &tracked);
        assert_eq!(found, [(2, "counts"), (3, "../../../xtask"), (4, "/xtask")]);
    }
}
