//! The table and the look-up.

use core::fmt;

use super::builtin;
use super::{
    ByteSize, Capabilities, INLINE_CAPACITY, Locality, Path, Query, ReceiverPace, Row, TableError,
};

/// Where short messages end, for one pair: two compares in the send path.
///
/// The limits are exclusive, so that 0 says 'never', not even for an empty message. They say the
/// same as [`Table::choose`]: below `inline_below` the path is inline, from there to below
/// `eager_below` it is eager, from there to below `pipeline_below` it is the pipeline, which nobody
/// asked for, and from there on the table must be asked. They hold until the pair's capabilities or
/// locality change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Thresholds {
    /// Messages shorter than this many bytes go inline.
    pub inline_below: u64,
    /// Messages shorter than this many bytes, but not inline, go eagerly. At least `inline_below`.
    pub eager_below: u64,
    /// Messages shorter than this many bytes, but not eager ones, go by the pipeline, by rows of
    /// limic itself or of the host's profile. At least `eager_below`.
    pub pipeline_below: u64,
}

/// What the look-up needs of a row: 16 bytes, four rows to a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    up_to_bytes: u64,
    path: Path,
    /// Whether what is measured at run time may overrule the row.
    tunable: bool,
}

const RUNS: usize = Locality::ALL.len() * ReceiverPace::ALL.len();

/// The rows, sorted by locality, situation and length: every length of every (locality, situation)
/// has exactly one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    rows: Vec<Row>,
    entries: Box<[Entry]>,
    /// First and one past the last entry of each (locality, when).
    runs: [(usize, usize); RUNS],
}

const fn run_index(locality: Locality, when: ReceiverPace) -> usize {
    locality.index() * ReceiverPace::ALL.len() + when as usize
}

/// What is tried, in this order, when a pair cannot take the path of its row. The single-copy
/// paths stand in for each other last, since they fail for the same reasons.
pub(super) const fn fallbacks(path: Path) -> &'static [Path] {
    use Path::{Cma, Eager, Inline, Kmod, Pipeline, SameProcess, SplitCopy};
    match path {
        Path::Cma => &[Pipeline, Kmod, SplitCopy, Eager, Inline],
        Path::Kmod => &[Pipeline, Cma, SplitCopy, Eager, Inline],
        Path::SplitCopy => &[Pipeline, Cma, Kmod, Eager, Inline],
        Path::Pipeline => &[SplitCopy, Cma, Kmod, Eager, Inline],
        Path::SelfCopy => &[SameProcess, Pipeline, SplitCopy, Cma, Kmod, Eager, Inline],
        _ => &[Pipeline, SplitCopy, Cma, Kmod, Eager, Inline],
    }
}

impl Table {
    /// The rows that limic is built with.
    #[must_use]
    pub fn built_in() -> Self {
        Self::build(builtin::rows())
    }

    /// A table of exactly these rows, in any order.
    ///
    /// # Errors
    /// [`TableError`] when a (locality, situation) has no row, has two rows that end at the same
    /// length, or has none that ends at `u64::MAX`.
    pub fn from_rows(rows: Vec<Row>) -> Result<Self, TableError> {
        let table = Self::build(rows);
        for locality in Locality::ALL {
            for when in ReceiverPace::ALL {
                let run = table.run(locality, when);
                if run.last().is_none_or(|row| row.up_to_bytes != u64::MAX) {
                    return Err(TableError::NotTotal { locality, when });
                }
                if let Some(pair) = run
                    .windows(2)
                    .find(|p| p[0].up_to_bytes == p[1].up_to_bytes)
                {
                    return Err(TableError::Twice {
                        locality,
                        when,
                        up_to_bytes: pair[0].up_to_bytes,
                    });
                }
            }
        }
        Ok(table)
    }

    /// Sorts and indexes. The caller makes sure of the rest.
    fn build(mut rows: Vec<Row>) -> Self {
        rows.sort_by_key(|row| (row.locality, row.when, row.up_to_bytes));
        let mut runs = [(0, 0); RUNS];
        let mut at = 0;
        for locality in Locality::ALL {
            for when in ReceiverPace::ALL {
                let start = at;
                let in_run = |row: &&Row| row.locality == locality && row.when == when;
                at += rows.iter().filter(in_run).count();
                runs[run_index(locality, when)] = (start, at);
            }
        }
        let entries = rows
            .iter()
            .map(|row| Entry {
                up_to_bytes: row.up_to_bytes,
                path: row.path,
                // What somebody asked for is not second-guessed.
                tunable: !row.source.is_asked_for(),
            })
            .collect();
        Self {
            rows,
            entries,
            runs,
        }
    }

    /// From how many bytes on messages between endpoints at `locality` go by a row that somebody
    /// asked for: all shorter ones of more than `longer_than` bytes go by rows of limic itself or
    /// of the host's profile. `u64::MAX` if nobody asked.
    pub(crate) fn asked_for_from(&self, locality: Locality, longer_than: u64) -> u64 {
        let mut from = 0;
        for row in self.run(locality, ReceiverPace::Steady) {
            if row.up_to_bytes > longer_than && row.source.is_asked_for() {
                return from.max(longer_than.saturating_add(1));
            }
            from = row.up_to_bytes.saturating_add(1);
        }
        u64::MAX
    }

    /// Every row, sorted by locality, situation and length.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows of one locality and situation, shortest messages first.
    #[must_use]
    pub fn run(&self, locality: Locality, when: ReceiverPace) -> &[Row] {
        let (start, end) = self.runs[run_index(locality, when)];
        &self.rows[start..end]
    }

    /// The path for a message; `None` if the pair has none for it
    /// ([`explain`](crate::explain) says why).
    ///
    /// If the pair cannot take the path of the message's row, then a short row (inline, eager)
    /// gives way to the rows above it, as if it ended earlier; any other row gives way in a fixed
    /// order (cma and split-copy to the pipeline first). No allocation, no I/O; a few compares over
    /// two or three cache lines.
    #[inline]
    #[must_use]
    pub fn choose(&self, query: &Query) -> Option<Path> {
        self.walk(query, |_, _| {}).map(|(_, path)| path)
    }

    /// As [`Table::choose`], and whether the row that decided comes from limic itself or the host's
    /// profile, so that what is measured at run time may overrule it. What a file, the environment
    /// or the application asks for stands.
    #[inline]
    #[must_use]
    pub(crate) fn choose_tunable(&self, query: &Query) -> Option<(Path, bool)> {
        let (row, path) = self.walk(query, |_, _| {})?;
        Some((path, self.entries[row].tunable))
    }

    /// Index of the row that `query` falls into.
    #[inline]
    pub(super) fn row_index(&self, query: &Query) -> usize {
        let (start, end) = self.runs[run_index(query.locality, query.pace)];
        let run = &self.entries[start..end];
        // A linear search: a run has two to six rows, all in one or two cache lines.
        let offset = run
            .iter()
            .position(|e| query.bytes <= e.up_to_bytes)
            .unwrap_or(0);
        start + offset
    }

    /// Tries the paths in their order and reports each that is refused, with why. Gives the row
    /// that decided (the last one tried, for a fall-back) and the path.
    #[inline]
    pub(super) fn walk(
        &self,
        query: &Query,
        mut refused: impl FnMut(Path, super::Refusal),
    ) -> Option<(usize, Path)> {
        let Query {
            bytes,
            locality,
            vectored,
            capabilities,
            ..
        } = *query;
        let mut check = |path| match capabilities.refusal(path, bytes, locality, vectored) {
            None => true,
            Some(why) => {
                refused(path, why);
                false
            }
        };
        let end = self.runs[run_index(locality, query.pace)].1;
        let mut at = self.row_index(query);
        loop {
            let entry = self.entries.get(at)?;
            if check(entry.path) {
                return Some((at, entry.path));
            }
            if !matches!(entry.path, Path::Inline | Path::Eager) || at + 1 == end {
                break;
            }
            at += 1;
        }
        fallbacks(self.entries[at].path)
            .iter()
            .find(|path| check(**path))
            .map(|path| (at, *path))
    }

    /// Where short messages end for a pair at `locality` that can do `capabilities`.
    ///
    /// Takes a look-up per row: for once per pair and change, not per message.
    #[must_use]
    pub fn thresholds(
        &self,
        locality: Locality,
        pace: ReceiverPace,
        capabilities: &Capabilities,
    ) -> Thresholds {
        let ask = |bytes| {
            let query = Query {
                bytes,
                locality,
                pace,
                vectored: false,
                peer_readable: false,
                capabilities: *capabilities,
            };
            self.choose_tunable(&query)
        };
        let goes_by = |bytes, path| ask(bytes).is_some_and(|(chosen, _)| chosen == path);
        // The choice can change only behind these lengths.
        let mut ends: Vec<u64> = self
            .run(locality, pace)
            .iter()
            .map(|r| r.up_to_bytes)
            .collect();
        ends.extend([INLINE_CAPACITY, capabilities.max_eager]);
        ends.sort_unstable();
        let mut thresholds = Thresholds::default();
        let mut ends = ends.into_iter().peekable();
        while let Some(end) = ends.next_if(|end| goes_by(*end, Path::Inline)) {
            thresholds.inline_below = end.saturating_add(1);
        }
        thresholds.eager_below = thresholds.inline_below;
        while let Some(end) = ends.next_if(|end| goes_by(*end, Path::Eager)) {
            thresholds.eager_below = end.saturating_add(1);
        }
        thresholds.pipeline_below = thresholds.eager_below;
        while let Some(end) = ends.next_if(|end| ask(*end) == Some((Path::Pipeline, true))) {
            thresholds.pipeline_below = end.saturating_add(1);
        }
        thresholds
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::built_in()
    }
}

/// One line per row, with a heading.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<13}  {:<13}  {:>9}  {:<10}  {:<9}  why",
            "locality", "when", "up to", "path", "from"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:<13}  {:<13}  {:>9}  {:<10}  {:<9}  {}",
                row.locality,
                row.when,
                ByteSize(row.up_to_bytes),
                row.path,
                row.source,
                row.reason
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
