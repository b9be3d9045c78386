//! The tests that are left out, in a file of the form that fabtests' own exclude files have.

use std::fs;
use std::path::Path;

use limic_runner::Failure;
use limic_runner::folders::root;
use regex::Regex;

/// Each pattern in it has its reason in the comment above.
const FILE: &str = "crates/ofi/fabtests/limic.exclude";

/// Patterns of tests.
pub(crate) struct Excludes(Vec<Regex>);

impl Excludes {
    /// Those of the repository.
    pub(crate) fn committed() -> Result<Self, Failure> {
        let path = root().join(FILE);
        let text = fs::read_to_string(&path).map_err(|why| Failure::file("read", &path, why))?;
        Self::read(&path, &text)
    }

    fn read(path: &Path, text: &str) -> Result<Self, Failure> {
        let lines = text.lines().map(str::trim);
        let patterns = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let patterns = patterns.map(Regex::new).collect::<Result<_, _>>();
        patterns.map(Self).map_err(|why| Failure::Unreadable {
            command: path.display().to_string(),
            why: why.to_string(),
        })
    }

    /// Whether a test is left out.
    pub(crate) fn hold(&self, test: &str) -> bool {
        self.0.iter().any(|pattern| pattern.is_match(test))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_patterns() {
        let text = "# fi_rdm does not work\n\n^fi_msg( |$)\n";
        let excludes = Excludes::read(Path::new("x"), text).expect("patterns");
        assert!(excludes.hold("fi_msg") && excludes.hold("fi_msg -v"));
        assert!(!excludes.hold("fi_msg_bw") && !excludes.hold("fi_rdm"));
        assert!(Excludes::read(Path::new("x"), "fi_(").is_err());
    }

    #[test]
    fn each_committed_pattern_has_its_reason_above() {
        Excludes::committed().expect("patterns");
        let text = fs::read_to_string(root().join(FILE)).expect("a file");
        let mut above = "";
        for line in text.lines() {
            let pattern = !line.is_empty() && !line.starts_with('#');
            assert!(!pattern || above.starts_with("# "), "no reason for {line}");
            above = line;
        }
    }
}
