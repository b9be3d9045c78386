//! Which rows are worth a change: pure, from what was measured.
//!
//! A path is judged by the geometric mean of its time in a ping-pong and in a stream. It replaces
//! the built-in one at a size only if it wins clearly in that mean and is not much worse in either;
//! and it gets a row only if it does so at two sizes in a row, or at the longest. So a figure that
//! was spoilt by the machine's mood changes nothing.

use std::collections::BTreeMap;

use limic::settings::{ByteSize, Path};
use limic_policy::{
    INLINE_CAPACITY, Locality, PIPELINE_FRAGMENT, Query, ReceiverPace, Row, RowSource,
    SLOW_RECEIVER_EAGER, Table,
};

/// What a path must be better by.
const MARGIN: f64 = 0.93;
/// How much worse it may be in one of the two patterns.
const TOLERATED: f64 = 1.25;

/// A path, and the fragments that it cuts messages into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    pub(super) path: Path,
    /// 0: as the built-in rows do.
    pub(super) fragment_bytes: u32,
}

/// Seconds of a message.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Times {
    /// One way of a ping-pong.
    pub(super) ping_pong: f64,
    /// In a stream with a window of 64.
    pub(super) stream: f64,
}

impl Times {
    /// What a way is judged by.
    pub(super) fn mean(&self) -> f64 {
        (self.ping_pong * self.stream).sqrt()
    }

    /// Whether it is clearly better than `other`, and nowhere much worse.
    fn beats(&self, other: &Self) -> bool {
        self.mean() < other.mean() * MARGIN
            && self.ping_pong < other.ping_pong * TOLERATED
            && self.stream < other.stream * TOLERATED
    }
}

/// What was measured at one locality: by size, and way.
pub(super) type Measured = BTreeMap<u64, BTreeMap<Way, Times>>;

/// The path that the built-in table takes for a message.
fn built_in(locality: Locality, bytes: u64) -> Path {
    let chosen = Table::built_in().choose(&Query::new(bytes, locality));
    chosen.unwrap_or(Path::Pipeline)
}

/// The pipeline's fragment: the built-in one, unless another is clearly better over all long
/// messages.
pub(super) fn fragment(measured: &Measured) -> u32 {
    // The mean over the sizes where the fragment makes a difference.
    let mean = |fragment_bytes: u32| {
        let way = Way {
            path: Path::Pipeline,
            fragment_bytes,
        };
        let sizes = measured.iter().filter(|(bytes, _)| **bytes >= 64 << 10);
        let logs: Vec<f64> = sizes
            .filter_map(|(_, ways)| Some(ways.get(&way)?.mean().ln()))
            .collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    };
    let Some(incumbent) = mean(PIPELINE_FRAGMENT) else {
        return PIPELINE_FRAGMENT;
    };
    let ways = measured.values().flat_map(|ways| ways.keys());
    let others = ways.filter(|way| way.path == Path::Pipeline);
    let best = others
        .filter_map(|way| Some((way.fragment_bytes, mean(way.fragment_bytes)?)))
        .min_by(|one, other| one.1.total_cmp(&other.1));
    match best {
        Some((fragment_bytes, time)) if time < incumbent * MARGIN => fragment_bytes,
        _ => PIPELINE_FRAGMENT,
    }
}

/// The rows of a locality, for a pipeline with such fragments. At the sizes of `kept` the built-in
/// path stays, whatever was measured.
pub(super) fn rows(
    locality: Locality,
    measured: &Measured,
    fragment_bytes: u32,
    kept: &[u64],
) -> Vec<Row> {
    let best = |bytes: u64, ways: &BTreeMap<Way, Times>, incumbent: Path| {
        let times = |path: Path| {
            let fragment_bytes = if path == Path::Pipeline {
                fragment_bytes
            } else {
                0
            };
            ways.get(&Way {
                path,
                fragment_bytes,
            })
            .copied()
        };
        let Some(own) = times(incumbent).filter(|_| !kept.contains(&bytes)) else {
            return incumbent;
        };
        [Path::Eager, Path::Pipeline, Path::Cma, Path::SplitCopy]
            .into_iter()
            .filter_map(|path| Some((path, times(path)?)))
            .filter(|(path, times)| *path != incumbent && times.beats(&own))
            .min_by(|one, other| one.1.mean().total_cmp(&other.1.mean()))
            .map_or(incumbent, |(path, _)| path)
    };
    // (size, built-in path, best path), shortest first.
    let mut taken: Vec<(u64, Path, Path)> = measured
        .iter()
        .filter(|(bytes, _)| **bytes > INLINE_CAPACITY)
        .map(|(bytes, ways)| {
            let incumbent = built_in(locality, *bytes);
            (*bytes, incumbent, best(*bytes, ways, incumbent))
        })
        .collect();
    let best_long = |bytes: u64| {
        let ways = measured.get(&bytes).into_iter().flatten();
        let fits = |way: &Way| way.path != Path::Pipeline || way.fragment_bytes == fragment_bytes;
        // What was measured at a kept size is not believed.
        ways.filter(|(way, _)| way.path != Path::Eager && fits(way) && !kept.contains(&bytes))
            .min_by(|one, other| one.1.mean().total_cmp(&other.1.mean()))
            .map_or(Path::Pipeline, |(way, _)| way.path)
    };
    settle(&mut taken, best_long);
    make_rows(locality, &taken)
}

/// Takes back what stands alone, and what would mix eager messages with longer ones that are not:
/// `best_long` says what these go by then.
fn settle(taken: &mut [(u64, Path, Path)], best_long: impl Fn(u64) -> Path) {
    let last = taken.len().saturating_sub(1);
    for at in 0..taken.len() {
        let (_, incumbent, path) = taken[at];
        let neighbour = |other: Option<&(u64, Path, Path)>| other.is_some_and(|o| o.2 == path);
        let alone = !neighbour(at.checked_sub(1).and_then(|before| taken.get(before)))
            && !neighbour(taken.get(at + 1));
        if path != incumbent && alone && at != last {
            taken[at].2 = incumbent;
        }
    }
    // Eager ends once: at the last size up to which every size goes eagerly.
    let end = taken.iter().position(|(_, _, path)| *path != Path::Eager);
    for entry in taken.iter_mut().skip(end.unwrap_or(usize::MAX)) {
        if entry.2 == Path::Eager {
            entry.2 = if entry.1 == Path::Eager {
                best_long(entry.0)
            } else {
                entry.1
            };
        }
    }
}

fn make_rows(locality: Locality, taken: &[(u64, Path, Path)]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut row = |when, up_to_bytes, path: Path, reason: String| {
        rows.push(Row {
            locality,
            when,
            up_to_bytes,
            path,
            source: RowSource::Profile,
            reason: reason.into(),
        });
    };
    let mut eager = 0;
    let inline = "fits the slot's first cache line";
    row(
        ReceiverPace::Steady,
        INLINE_CAPACITY,
        Path::Inline,
        inline.to_owned(),
    );
    row(
        ReceiverPace::Slow,
        INLINE_CAPACITY,
        Path::Inline,
        inline.to_owned(),
    );
    let mut long = Vec::new();
    for (at, (bytes, _, path)) in taken.iter().enumerate() {
        let next = taken.get(at + 1);
        if next.is_some_and(|next| next.2 == *path) {
            continue;
        }
        if *path == Path::Eager {
            eager = *bytes;
            let reason = format!("measured best up to {}", ByteSize(eager));
            row(ReceiverPace::Steady, eager, Path::Eager, reason);
        } else {
            let up_to_bytes = if next.is_some() { *bytes } else { u64::MAX };
            long.push((up_to_bytes, *path));
        }
    }
    let ahead = eager.max(SLOW_RECEIVER_EAGER);
    let reason = "the receiver lags: its sender copies the bytes aside and does not wait for it";
    row(ReceiverPace::Slow, ahead, Path::Eager, reason.to_owned());
    for (up_to_bytes, path) in long {
        let reason = match up_to_bytes {
            u64::MAX => "measured best for the longest".to_owned(),
            bytes => format!("measured best up to {}", ByteSize(bytes)),
        };
        row(ReceiverPace::Steady, up_to_bytes, path, reason.clone());
        if up_to_bytes > ahead {
            row(ReceiverPace::Slow, up_to_bytes, path, reason);
        }
    }
    rows
}

#[cfg(test)]
#[path = "choice_tests.rs"]
mod tests;
