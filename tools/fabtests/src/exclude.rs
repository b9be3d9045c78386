//! The tests that are left out, and those of what limic does not offer, in files of the form that
//! fabtests' own exclude files have. A pattern for one version begins with it: `^2\.\S+ fi_rdm`.

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
#[derive(Default)]
pub(crate) struct Patterns(Vec<Regex>);

impl Patterns {
    /// Those of a file of the repository.
    pub(crate) fn committed(file: &str) -> Result<Self, Failure> {
        let path = root().join(file);
        let text = fs::read_to_string(&path).map_err(|why| Failure::file("read", &path, why))?;
        Self::read(&path, &text)
    }

    /// Those that fabtests leave out themselves for a provider; none if they have no list for it.
    pub(crate) fn of_provider(source: &Path, provider: &str) -> Result<Self, Failure> {
        let list = format!("test_configs/{provider}/{provider}.exclude");
        let path = source.join(list);
        if !path.is_file() {
            return Ok(Self::default());
        }
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

    /// Whether a test of a version is among them.
    pub(crate) fn hold(&self, version: &str, test: &str) -> bool {
        let with_version = format!("{version} {test}");
        let is_meant = |pattern: &Regex| pattern.is_match(test) || pattern.is_match(&with_version);
        self.0.iter().any(is_meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_patterns() {
        let text = "# fi_rdm does not work\n\n^fi_msg( |$)\n";
        let excludes = Patterns::read(Path::new("x"), text).expect("patterns");
        let hold = |test| excludes.hold("1.17.0", test);
        assert!(hold("fi_msg") && hold("fi_msg -v"));
        assert!(!hold("fi_msg_bw") && !hold("fi_rdm"));
        assert!(Patterns::read(Path::new("x"), "fi_(").is_err());
    }

    #[test]
    fn a_pattern_may_be_for_one_version() {
        let patterns = Patterns::read(Path::new("x"), r"^2\.\S+ fi_msg -v$").expect("a pattern");
        assert!(patterns.hold("2.6.0", "fi_msg -v"));
        assert!(!patterns.hold("1.17.0", "fi_msg -v") && !patterns.hold("2.6.0", "fi_msg"));
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
