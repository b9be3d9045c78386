//! Why a message goes as it goes, in words: what `limic info --why` prints.

use core::fmt;

use super::select::{self, Offered, Pair, Routes, SendState};
use super::{ByteSize, Locality, Path, Query, ReceiverPace, Refusal, Row};

/// A path that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedPath {
    /// The path.
    pub path: Path,
    /// Why not.
    pub why: Refusal,
}

/// What has gone between two endpoints before a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum History {
    /// Nothing came back: the first message, or a stream one way.
    OneWay,
    /// Messages as long went to and fro, as in a ping-pong: this one is a reply to the last.
    Reply,
}

/// How a message goes and why. Its `Display` is what `limic info --why` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What was asked.
    pub query: Query,
    /// What has gone between the two before.
    pub history: History,
    /// How the message goes, as the counters count it.
    pub path: Path,
    /// The longest fragment in bytes; 0 if there are none.
    pub fragment_bytes: u64,
    /// The row of the table for messages of this length.
    pub row: Row,
    /// Paths that come before the one of the row's choice, each with why it was not taken.
    pub refused: Vec<RefusedPath>,
    /// Why the path is not the one of the row.
    pub note: Option<&'static str>,
    /// A path that is measured to be faster takes over at run time.
    pub is_measured: bool,
}

/// The state of a pair that nobody disturbs, with that history.
#[derive(Clone, Copy)]
struct Assumed {
    history: History,
    pace: ReceiverPace,
    peer_readable: bool,
}

impl SendState for Assumed {
    fn is_over_budget(&self) -> bool {
        false
    }
    fn is_slow(&self) -> bool {
        self.pace == ReceiverPace::Slow
    }
    fn is_full(&self) -> bool {
        self.is_slow()
    }
    fn is_peer_readable(&self) -> bool {
        self.peer_readable
    }
    fn may_recycle(&self, _: u64) -> bool {
        self.history == History::Reply
    }
    fn reply_bytes(&self) -> u64 {
        match self.history {
            History::OneWay => 0,
            History::Reply => u64::MAX,
        }
    }
    fn reply_credit(&self) -> u64 {
        self.reply_bytes()
    }
}

/// How a message goes between the two ends of `pair`, and why.
pub(crate) fn explain(pair: &Pair<'_>, query: &Query, history: History) -> Explanation {
    let routes = Routes::new(pair);
    let state = Assumed {
        history,
        pace: query.pace,
        peer_readable: query.peer_readable,
    };
    let sent = if pair.locality == Locality::Itself {
        Some(Path::SelfCopy)
    } else {
        let plan = routes.select(query.bytes, &state);
        plan.path(&routes, query.bytes)
    };
    let (path, tunable) = match sent {
        Some(path) => (path, false),
        None => {
            let offered = Offered {
                len: query.bytes,
                vectored: query.vectored,
                peer_readable: query.peer_readable && routes.may_stay(query.bytes),
                whole: true,
                pace: query.pace,
            };
            let asked = offered.query(query.locality, query.capabilities);
            select::answer(pair.table, &asked)
        }
    };
    let mut refused: Vec<RefusedPath> = Vec::new();
    let decided = pair.table.walk(query, |path, why| {
        if refused.iter().all(|known| known.path != path) {
            refused.push(RefusedPath { path, why });
        }
    });
    let row = decided.map_or_else(|| pair.table.row_index(query), |(row, _)| row);
    let row = pair.table.rows()[row].clone();
    Explanation {
        query: *query,
        history,
        path,
        fragment_bytes: if path.parts().fragments {
            routes.fragment_bytes
        } else {
            0
        },
        note: note(path, &row, history),
        row,
        refused,
        is_measured: tunable && query.bytes >= super::autotune::LEAST_BYTES,
    }
}

fn note(path: Path, row: &Row, history: History) -> Option<&'static str> {
    match path {
        _ if path == row.path => None,
        Path::EagerFragments if row.path.is_rendezvous() => Some(match history {
            History::Reply => {
                "a reply goes without asking: staging buffers that went to and fro hold it"
            }
            History::OneWay => "the receiver need not be asked",
        }),
        Path::EagerFragments => Some("longer than a record: eager, in fragments"),
        Path::PeerReadable => Some("the receiver has mapped the memory in which the bytes lie"),
        Path::SendAhead => Some("the bytes lie in an arena until the receiver comes to them"),
        Path::Pipeline => Some("no allowed path can carry it, and every pair can do this one"),
        _ => None,
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
        let history = match self.history {
            History::OneWay => "",
            History::Reply => " as a reply",
        };
        write!(f, "{bytes}{history} go by {}", self.path)?;
        if self.fragment_bytes > 0 {
            write!(f, " in fragments of {}", ByteSize(self.fragment_bytes))?;
        }
        writeln!(f, "\n  that is: {}", self.path.parts())?;
        let up_to = ByteSize(row.up_to_bytes);
        writeln!(
            f,
            "  row: {}, {}, up to {up_to}: {}",
            row.locality, row.when, row.path
        )?;
        writeln!(f, "  from: {}", row.source)?;
        writeln!(f, "  why: {}", row.reason)?;
        if let Some(note) = self.note {
            writeln!(f, "  but: {note}")?;
        }
        for refused in &self.refused {
            writeln!(f, "  not {refused}")?;
        }
        if self.is_measured {
            writeln!(
                f,
                "  measured at run time: a path that is faster here takes over"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
