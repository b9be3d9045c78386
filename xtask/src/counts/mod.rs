//! Instructions of the hot paths, counted by callgrind and compared with the committed counts: a
//! regression shows on a busy machine as well as on a quiet one.

mod dump;
mod provider;
mod reference;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use comfy_table::{CellAlignment, Table, presets};
use limic_runner::folders::{root, target};
use limic_runner::packages::runs;
use limic_runner::{Failure, Job, Summary, console};

use self::reference::{Conditions, Reference};
use crate::optional;

/// Instructions of one operation, by case.
type Counts = BTreeMap<String, f64>;

/// More than this fraction above the committed count is a regression. Counts repeat exactly; this
/// leaves room for changes elsewhere that move a spill or a jump.
const TOLERANCE: f64 = 0.03;

/// Counts, shows the comparison, and fails if a hot path has become longer. With `update` it writes
/// the counts down as the committed ones instead.
pub(crate) fn run(update: bool, summary: &mut Summary) -> Result<(), Failure> {
    optional::valgrind();
    optional::libfabric();
    if !runs("valgrind") {
        summary.skip_check("counts: there is no valgrind; install it: apt-get install valgrind");
        return Ok(());
    }
    if !cfg!(target_arch = "x86_64") {
        summary.skip_check("counts: the committed counts are those of x86-64");
        return Ok(());
    }
    let (conditions, mut counts) = measure()?;
    let without = provider::missing();
    if let Some(why) = without {
        summary.skip_check(&format!("counts of the libfabric provider: {why}"));
    } else {
        counts.extend(provider::measure()?);
    }
    let path = root().join("benches/counts.json");
    if update {
        if without.is_some() {
            return Err(Failure::Missing(
                "the file would be without the provider's counts".to_owned(),
            ));
        }
        let old = Reference::read(&path).ok();
        print!(
            "{}",
            table(old.as_ref().map(|old| &old.instructions), &counts)
        );
        return Reference {
            conditions,
            instructions: counts,
        }
        .write(&path);
    }
    let mut reference = Reference::read(&path)?;
    if without.is_some() {
        let own = |case: &String| !case.starts_with(provider::CASES);
        reference.instructions.retain(|case, _| own(case));
    }
    print!("{}", table(Some(&reference.instructions), &counts));
    if let Some(difference) = reference.conditions.difference(&conditions) {
        summary.skip_check(&format!(
            "counts: {difference}, so they cannot be compared; once they are right: \
             cargo xtask counts --update"
        ));
        return Ok(());
    }
    judge(&reference.instructions, &counts)?;
    summary.pass();
    Ok(())
}

/// Builds the program of the Rust interface and counts its cases.
fn measure() -> Result<(Conditions, Counts), Failure> {
    let words = [
        "build",
        "--release",
        "-p",
        "limic-benches",
        "--bin",
        "counts",
    ];
    Job::cargo(&words, 20).run()?;
    let counted = Counted::run(&target().join("release/counts"), &[])?;
    let conditions = Conditions::here(counted.word("features")?)?;
    Ok((conditions, counted.cases))
}

/// The counts of a program under callgrind.
struct Counted {
    command: String,
    printed: String,
    cases: Counts,
}

impl Counted {
    /// Runs a program with these variables, and no others that libfabric or limic reads.
    fn run(program: &Path, variables: &[(&str, &str)]) -> Result<Self, Failure> {
        let out = out_file();
        let mut job = Job::new("env", 5);
        for (name, _) in std::env::vars() {
            if name.starts_with("FI_") || name.starts_with("LIMIC_") {
                job = job.args(["-u", &name]);
            }
        }
        for (name, value) in variables {
            job = job.arg(format!("{name}={value}"));
        }
        let job = job
            .args([
                "valgrind",
                "--tool=callgrind",
                "--quiet",
                "--combine-dumps=yes",
                &format!("--callgrind-out-file={}", out.display()),
            ])
            .arg(program);
        let command = job.shown().to_owned();
        let mut counted = Self {
            printed: job.capture()?,
            command,
            cases: Counts::new(),
        };
        let dumps = std::fs::read_to_string(&out)
            .map_err(|why| counted.unreadable(format!("{}: {why}", out.display())))?;
        // A file that stays does no harm.
        let _ = std::fs::remove_file(&out);
        let operations: f64 = counted
            .word("operations")?
            .parse()
            .map_err(|_| counted.unreadable("'operations: ' without a number".to_owned()))?;
        for (case, instructions) in dump::cases(&dumps) {
            let each = instructions as f64 / operations;
            let least = counted.cases.entry(case).or_insert(each);
            *least = least.min(each);
        }
        if counted.cases.is_empty() {
            return Err(counted.unreadable("callgrind wrote no case down".to_owned()));
        }
        Ok(counted)
    }

    /// A line that the program prints about itself.
    fn word(&self, name: &str) -> Result<&str, Failure> {
        let mut lines = self.printed.lines();
        lines
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .ok_or_else(|| self.unreadable(format!("no line with '{name}: '")))
    }

    fn unreadable(&self, why: String) -> Failure {
        Failure::Unreadable {
            command: self.command.clone(),
            why,
        }
    }
}

/// A file in the target folder that no other run has.
fn out_file() -> PathBuf {
    target().join(format!("callgrind.{}.out", std::process::id()))
}

/// Old, new and ratio of each case.
fn table(old: Option<&Counts>, new: &Counts) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["instructions of", "committed", "now", "ratio"]);
    let missing = old
        .into_iter()
        .flat_map(Counts::keys)
        .filter(|case| !new.contains_key(*case));
    for case in new.keys().chain(missing) {
        let was = old.and_then(|old| old.get(case));
        let is = new.get(case);
        let number = |count: Option<&f64>| count.map_or("-".to_owned(), |n| format!("{n:.1}"));
        let ratio = was
            .zip(is)
            .map_or("-".to_owned(), |(was, is)| format!("{:.3}", is / was));
        table.add_row([case.clone(), number(was), number(is), ratio]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{}\n", table.trim_fmt())
}

fn judge(old: &Counts, new: &Counts) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for (case, was) in old {
        match new.get(case) {
            None => wrong.push(format!("'{case}' is not counted any more")),
            Some(is) if *is > was * (1.0 + TOLERANCE) => {
                wrong.push(format!(
                    "'{case}' takes {is:.1} instructions in place of {was:.1}"
                ));
            }
            Some(is) if *is < was * (1.0 - TOLERANCE) => console::detail(&format_args!(
                "'{case}' takes {is:.1} instructions in place of {was:.1}: keep that with \
                 `cargo xtask counts --update`"
            )),
            Some(_) => {}
        }
    }
    for case in new.keys().filter(|case| !old.contains_key(*case)) {
        wrong.push(format!("'{case}' has no committed count"));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::Wrong(format!(
        "{}; if that is meant: cargo xtask counts --update",
        wrong.join("; ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, f64)]) -> Counts {
        of.iter()
            .map(|(case, count)| ((*case).to_owned(), *count))
            .collect()
    }

    #[test]
    fn longer_missing_and_new_cases_are_wrong_and_shorter_ones_are_not() {
        let old = counts(&[("send", 100.0), ("receive", 80.0)]);
        assert!(judge(&old, &old).is_ok());
        assert!(judge(&old, &counts(&[("send", 102.9), ("receive", 10.0)])).is_ok());
        let longer = judge(&old, &counts(&[("send", 103.1), ("receive", 80.0)]));
        assert!(
            longer
                .unwrap_err()
                .to_string()
                .contains("'send' takes 103.1")
        );
        assert!(judge(&old, &counts(&[("send", 100.0)])).is_err());
        let more = counts(&[("send", 100.0), ("receive", 80.0), ("probe", 1.0)]);
        assert!(judge(&old, &more).is_err());
    }

    #[test]
    fn the_table_has_all_cases_of_both() {
        let text = table(
            Some(&counts(&[("a", 2.0)])),
            &counts(&[("a", 3.0), ("b", 1.0)]),
        );
        assert!(text.contains("1.500") && text.contains('b'), "{text}");
    }
}
