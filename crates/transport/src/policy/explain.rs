//! The look-up's answer in words.

use core::fmt;

use super::{ByteSize, Choice, Path, Query, Refusal, Row, Table};

/// A path that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedPath {
    /// The path.
    pub path: Path,
    /// Why not.
    pub why: Refusal,
}

/// Why a message takes the path that it takes. Its `Display` is what `limic info --why` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What was asked.
    pub query: Query,
    /// What [`Table::choose`] answers to it.
    pub choice: Option<Choice>,
    /// The row that decided; for a fall-back, the row whose path could not be taken.
    pub row: Row,
    /// The paths that come before the chosen one, each with why it was not taken.
    pub refused: Vec<RefusedPath>,
}

impl Table {
    /// The choice for `query`, the row with its source and reason, and which paths were refused.
    #[must_use]
    pub fn explain(&self, query: &Query) -> Explanation {
        let mut refused: Vec<RefusedPath> = Vec::new();
        if query.buffer == super::BufferKind::Loaned
            && !query.capabilities.paths.contains(Path::Loan)
        {
            refused.push(RefusedPath {
                path: Path::Loan,
                why: Refusal::Unavailable,
            });
        }
        let walked = self.walk(query, |path, why| {
            if refused.iter().all(|known| known.path != path) {
                refused.push(RefusedPath { path, why });
            }
        });
        let (row, choice) = match walked {
            Some((row, choice)) => (row, Some(choice)),
            None => (self.row_index(query), None),
        };
        Explanation {
            query: *query,
            choice,
            row: self.rows()[row].clone(),
            refused,
        }
    }
}

impl fmt::Display for RefusedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { query, row, .. } = self;
        let bytes = match ByteSize(query.bytes).to_string() {
            text if text == query.bytes.to_string() => format!("{text} bytes"),
            text => format!("{text} ({} bytes)", query.bytes),
        };
        match self.choice {
            Some(Choice {
                path,
                fragment_bytes: 0,
            }) => write!(f, "{bytes} go by {path}")?,
            Some(Choice {
                path,
                fragment_bytes,
            }) => {
                let fragment = ByteSize(u64::from(fragment_bytes));
                write!(f, "{bytes} go by {path} in fragments of {fragment}")?;
            }
            None => write!(f, "no path can carry {bytes}")?,
        }
        writeln!(f)?;
        writeln!(
            f,
            "  row: {}, {}, up to {}: {}",
            row.locality,
            row.when,
            ByteSize(row.up_to_bytes),
            row.path
        )?;
        writeln!(f, "  from: {}", row.source)?;
        writeln!(f, "  why: {}", row.reason)?;
        for refused in &self.refused {
            writeln!(f, "  not {refused}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BufferKind, Locality, PathSet};
    use super::*;

    #[test]
    fn the_row_is_named() {
        let table = Table::built_in();
        let text = table
            .explain(&Query::new(131072, Locality::SharedCache))
            .to_string();
        assert_eq!(
            text,
            "128K (131072 bytes) go by pipeline in fragments of 32K\n\
             \x20 row: shared-cache, usual, up to unlimited: pipeline\n\
             \x20 from: built-in\n\
             \x20 why: two overlapped copies through the shared cache; cross-memory attach pays per page\n"
        );
    }

    #[test]
    fn refused_paths_are_named_once_with_their_reason() {
        let table = Table::built_in();
        let mut query = Query::new(4096, Locality::SharedCache);
        query.buffer = BufferKind::Loaned;
        query.capabilities.paths = PathSet::ALL.without(Path::Loan).without(Path::Pipeline);
        query.capabilities.max_eager = 2048;
        let explanation = table.explain(&query);
        assert_eq!(explanation.choice.map(|c| c.path), Some(Path::SplitCopy));
        let refused: Vec<String> = explanation
            .refused
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            refused,
            [
                "loan: not available between these two",
                "eager: holds at most 2K",
                "pipeline: not available between these two"
            ]
        );
        query.capabilities.paths = PathSet::EMPTY;
        let explanation = table.explain(&query);
        assert_eq!(explanation.choice, None);
        assert!(
            explanation
                .to_string()
                .starts_with("no path can carry 4K (4096 bytes)\n")
        );
        for path in ["eager", "pipeline", "split-copy", "cma", "inline", "loan"] {
            assert_eq!(
                explanation
                    .to_string()
                    .matches(&format!("{path}: "))
                    .count(),
                1,
                "{path}"
            );
        }
    }
}
