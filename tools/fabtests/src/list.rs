//! The lists of tests in fabtests' script, `scripts/runfabtests.sh`.

use std::fs;
use std::path::{Path, PathBuf};

use limic_runner::Failure;

use crate::Class;

/// A test: how it is started, and how it has to end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Test {
    /// The program and its arguments, as in the script.
    pub(crate) words: String,
    /// How many processes run it, and what they have to say.
    pub(crate) kind: Kind,
}

/// How many processes a test has, and what they have to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One process.
    Alone,
    /// One process, which has to find that there is no such thing.
    Negative,
    /// A server and a client.
    Pair,
    /// As many processes as it says, all alike.
    Ranks(usize),
    /// A server, and a client with a list of cases: this file of `test_configs/shm`, whose cases
    /// suit any provider.
    Cases(&'static str),
}

/// The processes of a test for many, as in the script.
const RANKS: usize = 3;

/// The lists of cases: times of each call and operation, of the second with counters too; and each
/// of them with its bytes looked at.
const CASES: [&str; 3] = ["all.test", "quick.test", "verify.test"];

/// The script.
pub(crate) struct TestLists {
    path: PathBuf,
    script: String,
}

impl TestLists {
    /// Reads the script of a source folder.
    pub(crate) fn read(source: &Path) -> Result<Self, Failure> {
        let path = source.join("scripts/runfabtests.sh");
        let script = fs::read_to_string(&path).map_err(|why| Failure::file("read", &path, why))?;
        Ok(Self { path, script })
    }

    /// The tests of a class.
    pub(crate) fn of(&self, class: Class) -> Result<Vec<Test>, Failure> {
        let name = class.name();
        match class {
            Class::Unit => {
                let mut tests = self.array(name, Kind::Alone)?;
                tests.extend(self.array("neg_unit", Kind::Negative)?);
                Ok(tests)
            }
            Class::Multinode => self.array(name, Kind::Ranks(RANKS)),
            Class::Complex => {
                let programs = self.array(name, Kind::Pair)?;
                let with_cases = programs.iter().flat_map(|program| {
                    CASES.map(|cases| Test {
                        words: format!("{} {cases}", program.words),
                        kind: Kind::Cases(cases),
                    })
                });
                Ok(with_cases.collect())
            }
            Class::Functional | Class::Short | Class::Standard | Class::Threaded => {
                self.array(name, Kind::Pair)
            }
        }
    }

    fn array(&self, name: &str, kind: Kind) -> Result<Vec<Test>, Failure> {
        let tests = array(&self.script, name).ok_or_else(|| Failure::Unreadable {
            command: self.path.display().to_string(),
            why: format!("it has no list {name}_tests"),
        })?;
        Ok(tests.map(|words| Test { words, kind }).collect())
    }
}

/// The strings of a bash array with one string a line.
fn array(script: &str, name: &str) -> Option<impl Iterator<Item = String>> {
    let begin = format!("{name}_tests=(");
    let mut lines = script.lines();
    lines.find(|line| line.starts_with(&begin))?;
    let strings = lines
        .take_while(|line| line.trim() != ")")
        .filter_map(|line| line.trim().strip_prefix('"')?.split('"').next());
    Some(strings.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_what_stands_between_its_brackets() {
        let script = "\
neg_unit_tests=(\n\t\"fi_rdm g00n13s\"\n)\n
unit_tests=( \\\n\t\"fi_eq_test\"\n\t# \"fi_old\"\n\t\"fi_dom_test -n 2\"\n)\n
complex_tests=(\n\t\"fi_ubertest\"\n)\n\nmultinode_tests=(\n\t\"fi_multinode -x rma\"\n)\n
function main {\n\techo \"unit\"\n}\n";
        let lists = TestLists {
            path: PathBuf::from("runfabtests.sh"),
            script: script.to_owned(),
        };
        let test = |words: &str, kind| Test {
            words: words.to_owned(),
            kind,
        };
        let expected = vec![
            test("fi_eq_test", Kind::Alone),
            test("fi_dom_test -n 2", Kind::Alone),
            test("fi_rdm g00n13s", Kind::Negative),
        ];
        assert_eq!(lists.of(Class::Unit).expect("a list"), expected);
        let ranks = vec![test("fi_multinode -x rma", Kind::Ranks(3))];
        assert_eq!(lists.of(Class::Multinode).expect("a list"), ranks);
        let complex = lists.of(Class::Complex).expect("a list");
        assert_eq!(complex.len(), CASES.len());
        let first = test("fi_ubertest all.test", Kind::Cases("all.test"));
        assert_eq!(complex[0], first);
        let why = lists.of(Class::Short).expect_err("no such list");
        assert!(why.to_string().contains("short_tests"), "{why}");
    }
}
