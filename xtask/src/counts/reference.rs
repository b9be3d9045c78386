//! The committed counts, and the conditions under which they hold.

use limic_runner::{Failure, Job};
use serde::{Deserialize, Serialize};

use crate::committed::Figures;

/// Everything beside the sources that decides which instructions run.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Conditions {
    /// The compiler.
    rustc: String,
    /// Its `memcpy` is part of some paths.
    libc: String,
    /// Extensions of the processor that callgrind imitates, and for which there are loops of their
    /// own.
    processor: String,
}

impl Conditions {
    /// The conditions on this machine. The program says which processor it sees.
    pub(super) fn here(processor: &str) -> Result<Self, Failure> {
        let rustc = Job::new("rustc", 1).arg("--version").capture_quietly();
        let libc = Job::new("getconf", 1)
            .arg("GNU_LIBC_VERSION")
            .capture_quietly();
        let rustc = rustc.ok_or_else(|| Failure::Missing("`rustc --version` failed".to_owned()))?;
        Ok(Self {
            rustc: rustc.trim().to_owned(),
            libc: libc.map_or("another libc".to_owned(), |libc| libc.trim().to_owned()),
            processor: processor.to_owned(),
        })
    }

    /// The difference from others, in words.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let parts = [
            (&self.rustc, &other.rustc),
            (&self.libc, &other.libc),
            (&self.processor, &other.processor),
        ];
        let differing: Vec<String> = parts
            .into_iter()
            .filter(|(mine, theirs)| mine != theirs)
            .map(|(mine, theirs)| {
                format!("the committed counts are those of {mine}, this is {theirs}")
            })
            .collect();
        (!differing.is_empty()).then(|| differing.join(" and "))
    }
}

/// The committed file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reference {
    pub(super) conditions: Conditions,
    /// For one operation.
    pub(super) instructions: Figures,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_compiler_is_named() {
        let conditions = |rustc: &str| Conditions {
            rustc: rustc.to_owned(),
            libc: "glibc 2.36".to_owned(),
            processor: "x86-64 with avx2".to_owned(),
        };
        assert_eq!(
            conditions("rustc 1").difference(&conditions("rustc 1")),
            None
        );
        let difference = conditions("rustc 1").difference(&conditions("rustc 2"));
        let wanted = "the committed counts are those of rustc 1, this is rustc 2";
        assert_eq!(difference.as_deref(), Some(wanted));
    }
}
