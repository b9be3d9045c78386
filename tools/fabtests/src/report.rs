//! Counts the tests, and prints how they went.

use comfy_table::{CellAlignment, Table, presets};
use limic_runner::{Failure, console};

use crate::Class;
use crate::list::Test;
use crate::pair::Verdict;

/// How tests went.
#[derive(Default)]
pub(crate) struct Report {
    classes: Vec<Counts>,
    failed: Vec<String>,
}

struct Counts {
    class: Class,
    passed: usize,
    failed: usize,
    not_offered: usize,
    excluded: usize,
}

impl Report {
    /// Counts a test, and says how it went.
    pub(crate) fn add(&mut self, class: Class, test: &Test, verdict: Verdict) {
        let words = &test.words;
        let counts = self.counts(class);
        let how = match verdict {
            Verdict::Passed => {
                counts.passed += 1;
                "passed"
            }
            Verdict::NotOffered => {
                counts.not_offered += 1;
                "not offered"
            }
            Verdict::Excluded => {
                counts.excluded += 1;
                "excluded"
            }
            Verdict::Failed(lines) => {
                counts.failed += 1;
                self.failed.push(words.clone());
                console::error(&format_args!("{words}: FAILED\n{lines}"));
                return;
            }
        };
        println!("{how:<12} {words}");
    }

    fn counts(&mut self, class: Class) -> &mut Counts {
        let place = self.classes.iter().position(|counts| counts.class == class);
        let place = place.unwrap_or_else(|| {
            self.classes.push(Counts {
                class,
                passed: 0,
                failed: 0,
                not_offered: 0,
                excluded: 0,
            });
            self.classes.len() - 1
        });
        &mut self.classes[place]
    }

    /// Prints the table. It is a failure if a test has failed, or none has run, or nothing of a
    /// class is offered.
    pub(crate) fn end(self) -> Result<(), Failure> {
        if self.classes.is_empty() {
            return Err(Failure::Missing("no test has such a name".to_owned()));
        }
        println!("\n{}", self.table());
        let nothing = |counts: &&Counts| counts.passed == 0 && counts.not_offered > 0;
        if let Some(counts) = self.classes.iter().find(nothing) {
            return Err(Failure::Wrong(format!(
                "nothing of {} is offered: the provider was not loaded, most likely",
                counts.class.name()
            )));
        }
        if self.failed.is_empty() {
            Ok(())
        } else {
            Err(Failure::Checks(self.failed.join(", ")))
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["class", "passed", "failed", "not offered", "excluded"]);
        for counts in &self.classes {
            let numbers = [
                counts.passed,
                counts.failed,
                counts.not_offered,
                counts.excluded,
            ];
            let numbers = numbers.iter().map(ToString::to_string);
            table.add_row(std::iter::once(counts.class.name().to_owned()).chain(numbers));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}
