//! The tests that are left out, and those of what limic does not offer, in files of the form that
//! fabtests' own exclude files have.

use std::fs;
use std::path::Path;

use limic_runner::Failure;
use limic_runner::folders::root;
use regex::Regex;

/// Tests that are left out. Each pattern has its reason in the comment above; so below.
pub(crate) const EXCLUDED: &str = "crates/ofi/fabtests/limic.exclude";
/// Tests that find that the provider does not offer what they test.
pub(crate) const NOT_OFFERED: &str = "crates/ofi/fabtests/limic.not-offered";

/// Patterns of tests.
pub(crate) struct Patterns(Vec<Regex>);

impl Patterns {
    /// Those of a file of the repository.
    pub(crate) fn committed(file: &str) -> Result<Self, Failure> {
        let path = root().join(file);
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

    /// Whether a test is among them.
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
        let excludes = Patterns::read(Path::new("x"), text).expect("patterns");
        assert!(excludes.hold("fi_msg") && excludes.hold("fi_msg -v"));
        assert!(!excludes.hold("fi_msg_bw") && !excludes.hold("fi_rdm"));
        assert!(Patterns::read(Path::new("x"), "fi_(").is_err());
    }

    #[test]
    fn each_committed_pattern_has_its_reason_above() {
        for file in [EXCLUDED, NOT_OFFERED] {
            Patterns::committed(file).expect("patterns");
            let text = fs::read_to_string(root().join(file)).expect("a file");
            let mut has_reason = false;
            for line in text.lines() {
                let is_comment = line.starts_with("# ");
                assert!(line.is_empty() || is_comment || has_reason, "{line}");
                has_reason = !line.is_empty() && (is_comment || has_reason);
            }
        }
    }
}
