//! Instructions of the hot paths, counted by callgrind and compared with the committed counts: a
//! regression shows on a busy machine as well as on a quiet one.

mod dump;
mod provider;
mod reference;

use std::path::{Path, PathBuf};

use limic_runner::folders::target;
use limic_runner::packages::runs;
use limic_runner::{Failure, Job, Summary};

use self::reference::{Conditions, Reference};
use crate::committed::{Figures, Kind};
use crate::optional;

/// Instructions of one operation. Counts repeat exactly; the tolerance leaves room for changes
/// elsewhere that move a spill or a jump.
const COUNTS: Kind = Kind {
    unit: "instructions",
    command: "counts",
    tolerance: 0.03,
};

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
    if update {
        if without.is_some() {
            return Err(Failure::Missing(
                "the file would be without the provider's counts".to_owned(),
            ));
        }
        let old: Option<Reference> = COUNTS.read().ok();
        let old = old.map(|old| old.instructions);
        print!("{}", COUNTS.table(old.as_ref(), &counts));
        return COUNTS.write(&Reference {
            conditions,
            instructions: counts,
        });
    }
    let mut reference: Reference = COUNTS.read()?;
    if without.is_some() {
        let own = |case: &String| !case.starts_with(provider::CASES);
        reference.instructions.retain(|case, _| own(case));
    }
    print!("{}", COUNTS.table(Some(&reference.instructions), &counts));
    if let Some(difference) = reference.conditions.difference(&conditions) {
        summary.skip_check(&format!(
            "counts: {difference}, so they cannot be compared; once they are right: {}",
            COUNTS.update()
        ));
        return Ok(());
    }
    COUNTS.judge(&reference.instructions, &counts)?;
    summary.pass();
    Ok(())
}

/// Builds the program of the Rust interface and counts its cases.
fn measure() -> Result<(Conditions, Figures), Failure> {
    let counted = Counted::run(&COUNTS.build()?, &[])?;
    let conditions = Conditions::here(counted.word("features")?)?;
    Ok((conditions, counted.cases))
}

/// The counts of a program under callgrind.
struct Counted {
    command: String,
    printed: String,
    cases: Figures,
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
            cases: Figures::new(),
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
