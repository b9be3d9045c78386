//! Changes to a table: what a profile, a file, the environment and the application may say.

use std::borrow::Cow;

use super::builtin;
use super::{ByteSize, Locality, Path, ReceiverPace, Row, RowSource, Table};

/// The rows do not make a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Some lengths have no row.
    #[error(
        "no row for {locality}, {when} covers the longest messages; end with one up to 'unlimited'"
    )]
    NotTotal {
        /// The locality that lacks a row.
        locality: Locality,
        /// The situation that lacks a row.
        when: ReceiverPace,
    },
    /// Two rows end at the same length.
    #[error(
        "two rows for {locality}, {when} end at {}; give each its own length",
        ByteSize(*up_to_bytes)
    )]
    Twice {
        /// Their locality.
        locality: Locality,
        /// Their situation.
        when: ReceiverPace,
        /// Where both end, in bytes.
        up_to_bytes: u64,
    },
}

impl Table {
    /// This table with `rows` laid over it.
    ///
    /// The new rows of one (locality, situation) hold up to the longest length that they name; the
    /// old rows keep what is above.
    ///
    /// # Errors
    /// [`TableError::Twice`] if two of the new rows end at the same length.
    pub fn overlaid(&self, rows: Vec<Row>) -> Result<Self, TableError> {
        let mut all = rows;
        let new = all.len();
        for old in self.rows() {
            let covered = all[..new].iter().any(|row| {
                row.locality == old.locality
                    && row.when == old.when
                    && row.up_to_bytes >= old.up_to_bytes
            });
            if !covered {
                all.push(old.clone());
            }
        }
        Self::from_rows(all)
    }

    /// This table with messages up to `bytes` going inline, in every run that has inline rows; 0
    /// leaves inline to empty messages. What a slot holds ([`super::INLINE_CAPACITY`]) still caps
    /// it.
    #[must_use]
    pub fn with_inline_max(&self, bytes: u64, source: &RowSource) -> Self {
        self.edited(|_, _, run| {
            let Some(at) = run.iter().position(|row| row.path == Path::Inline) else {
                return;
            };
            let mut row = run.remove(at);
            row.up_to_bytes = bytes;
            row.source = source.clone();
            row.reason = Cow::Owned(format!("inline limit set to {}", ByteSize(bytes)));
            run.retain(|other| other.path != Path::Inline && other.up_to_bytes > bytes);
            run.insert(0, row);
        })
    }

    /// This table with messages above the inline limit and up to `bytes` going eagerly, in every
    /// run between endpoints. Towards a slow receiver the limit is only ever raised. What the ring
    /// holds ([`super::Capabilities::max_eager`]) still caps it.
    #[must_use]
    pub fn with_eager_max(&self, bytes: u64, source: &RowSource) -> Self {
        let reason = format!("eager limit set to {}", ByteSize(bytes));
        // The last row of a run stays: it says how messages go that the ring has no room for.
        let bytes = bytes.min(u64::MAX - 1);
        self.edited(|locality, when, run| {
            if locality == Locality::Itself {
                return;
            }
            let limit = |path| {
                run.iter()
                    .filter(|r| r.path == path)
                    .map(|r| r.up_to_bytes)
                    .max()
            };
            let inline = limit(Path::Inline);
            if when == ReceiverPace::Slow && limit(Path::Eager).is_some_and(|limit| limit >= bytes)
            {
                return;
            }
            run.retain(|row| {
                row.path == Path::Inline || (row.path != Path::Eager && row.up_to_bytes > bytes)
            });
            if inline.is_none_or(|inline| bytes > inline) {
                run.push(Row {
                    locality,
                    when,
                    up_to_bytes: bytes,
                    path: Path::Eager,
                    source: source.clone(),
                    reason: Cow::Owned(reason.clone()),
                });
            }
        })
    }

    /// This table with `path` (pipeline, cma or split-copy) for every rendezvous between processes.
    #[must_use]
    pub fn with_long_path(&self, path: Path, source: &RowSource) -> Self {
        self.edited(|locality, _, run| {
            if !Locality::BETWEEN_PROCESSES.contains(&locality) {
                return;
            }
            for row in run.iter_mut().filter(|row| row.path.is_rendezvous()) {
                row.path = path;
                row.source = source.clone();
                row.reason = Cow::Owned(format!("{path} asked for, for long messages"));
            }
        })
    }

    /// Lets `edit` change each run, then mends what it left open: a run that no longer reaches
    /// `u64::MAX` gets the built-in long row of its locality.
    fn edited(&self, edit: impl Fn(Locality, ReceiverPace, &mut Vec<Row>)) -> Self {
        let mut rows = Vec::with_capacity(self.rows().len() + 8);
        for locality in Locality::ALL {
            for when in ReceiverPace::ALL {
                let mut run = self.run(locality, when).to_vec();
                edit(locality, when, &mut run);
                if run.iter().all(|row| row.up_to_bytes != u64::MAX) {
                    run.extend(builtin::rows().into_iter().find(|r| {
                        r.locality == locality && r.when == when && r.up_to_bytes == u64::MAX
                    }));
                }
                rows.append(&mut run);
            }
        }
        // Each edit keeps the lengths of a run apart and the mending keeps it total, so that only a
        // mistake in this file can fail; the table is then better left as it was.
        Self::from_rows(rows).unwrap_or_else(|error| {
            debug_assert!(false, "an edit broke the table: {error}");
            self.clone()
        })
    }
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
