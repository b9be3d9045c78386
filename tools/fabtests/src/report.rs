//! Counts the tests, and prints how they went.

use comfy_table::{CellAlignment, Table, presets};
use limic_runner::{Failure, console};

use crate::Class;
use crate::list::Test;
use crate::verdict::Verdict;

/// How tests went.
pub(crate) struct Report {
    /// The names of the providers; the first has to pass.
    providers: Vec<String>,
    classes: Vec<(Class, Vec<Counts>)>,
    failed: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    passed: usize,
    failed: usize,
    no_result: usize,
    not_offered: usize,
    excluded: usize,
}

impl Report {
    /// One about nothing yet. The first of the providers has to pass.
    pub(crate) fn new(providers: Vec<String>) -> Self {
        Self {
            providers,
            classes: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Counts a test, and says how it went.
    pub(crate) fn add(&mut self, class: Class, provider: usize, test: &Test, verdict: Verdict) {
        let name = format!("{} {}", self.providers[provider], test.words);
        let counts = self.counts(class, provider);
        let failure = match verdict {
            Verdict::Passed => {
                counts.passed += 1;
                println!("{:<12} {name}", "passed");
                None
            }
            Verdict::NotOffered => {
                counts.not_offered += 1;
                println!("{:<12} {name}", "not offered");
                None
            }
            Verdict::Excluded => {
                counts.excluded += 1;
                println!("{:<12} {name}", "excluded");
                None
            }
            Verdict::NoResult(lines) => {
                counts.no_result += 1;
                Some(("NO RESULT", lines))
            }
            Verdict::Cases(cases) => {
                counts.passed += cases.passed;
                counts.no_result += cases.no_result;
                counts.not_offered += cases.not_offered;
                counts.failed += cases.failed.len();
                counts.excluded += cases.known.len();
                println!("{:<12} {name}: {cases}", "ended");
                let lines = [cases.failed, cases.lost].concat();
                (!lines.is_empty()).then(|| ("FAILED", lines.join("\n")))
            }
            Verdict::Failed(lines) => {
                counts.failed += 1;
                Some(("FAILED", lines))
            }
        };
        if let Some((how, lines)) = failure {
            console::error(&format_args!("{name}: {how}\n{lines}"));
            if provider == 0 {
                self.failed.push(test.words.clone());
            }
        }
    }

    fn counts(&mut self, class: Class, provider: usize) -> &mut Counts {
        let place = self.classes.iter().position(|(of, _)| *of == class);
        let place = place.unwrap_or_else(|| {
            let none = vec![Counts::default(); self.providers.len()];
            self.classes.push((class, none));
            self.classes.len() - 1
        });
        &mut self.classes[place].1[provider]
    }

    /// Prints the table. It is a failure if a test has failed or has no result, or none has run, or
    /// nothing of a class is offered.
    pub(crate) fn end(self) -> Result<(), Failure> {
        if self.classes.is_empty() {
            return Err(Failure::Missing("no test has such a name".to_owned()));
        }
        println!("\n{}", self.table());
        let nothing = |counts: &Counts| counts.passed == 0 && counts.not_offered > 0;
        if let Some((class, _)) = self.classes.iter().find(|(_, of)| nothing(&of[0])) {
            return Err(Failure::Wrong(format!(
                "nothing of {} is offered: the provider was not loaded, most likely",
                class.name()
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
        let columns = ["passed", "failed", "no result", "not offered", "excluded"];
        let columns = self
            .providers
            .iter()
            .flat_map(|provider| columns.map(|column| format!("{provider}: {column}")));
        table.set_header(std::iter::once("class".to_owned()).chain(columns));
        for (class, counts) in &self.classes {
            let numbers = counts.iter().flat_map(|counts| {
                let Counts {
                    passed,
                    failed,
                    no_result,
                    not_offered,
                    excluded,
                } = *counts;
                [passed, failed, no_result, not_offered, excluded].map(|number| number.to_string())
            });
            table.add_row(std::iter::once(class.name().to_owned()).chain(numbers));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}
