//! Why a message goes as it goes, in words: what `limic info --why` prints.

use core::fmt;

use limic_fabric::Limits;

use super::select::fragments::CutFor;
use super::select::network::{self, NetworkPlan};
use super::select::{self, Offered, Pair, Routes, SendState};
use super::{
    ByteSize, History, Locality, Path, PathParts, Protocol, Query, Question, ReceiverPace, Refusal,
    Row, SendMemory,
};

/// A path that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedPath {
    /// The path.
    pub path: Path,
    /// Why not.
    pub why: Refusal,
}

/// How a message goes and why. Its `Display` is what `limic info --why` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What was asked.
    pub question: Question,
    /// How the message goes, as the counters count it.
    pub path: Path,
    /// What that is made of for this message.
    pub parts: PathParts,
    /// The longest fragment in bytes; 0 if there are none, or if the network says how long.
    pub fragment_bytes: u64,
    /// The row of the table for messages of this length, where the table decides.
    pub row: Option<Row>,
    /// Paths that come before the one taken, each with why it was not.
    pub refused: Vec<RefusedPath>,
    /// Why the path is this one, and not the one of the row if there is one.
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
    /// Fragments are the fastest for it by the table, and not only what is left for it.
    in_fragments: bool,
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
            History::OneWay | History::Stream => 0,
            History::Reply => u64::MAX,
        }
    }
    fn is_granted(&self, _: u64) -> bool {
        self.history == History::Stream && self.in_fragments
    }
    fn reply_credit(&self) -> u64 {
        self.reply_bytes()
    }
}

/// How a message goes between the two ends of `pair`, and why.
#[must_use]
pub fn near(pair: &Pair<'_>, pace: ReceiverPace, question: &Question) -> Explanation {
    let mut explanation = without_table(question, Path::SelfCopy);
    let to_itself = pair.locality == Locality::Itself;
    if question.memory == SendMemory::Loan {
        if !to_itself && select::hands_over(&pair.capabilities) {
            explanation.take(Path::Loan);
            explanation.note = Some("the receiver has mapped the memory of the loan");
            return explanation;
        }
        explanation.refuse(
            Path::Loan,
            match to_itself {
                true => Refusal::NotShared,
                false => Refusal::Unavailable,
            },
        );
    }
    let path = to_itself.then_some(Path::SelfCopy);
    by_table(pair, pace, path, explanation)
}

/// The same of a message that the table of paths decides about, but for a `path` that is given.
fn by_table(
    pair: &Pair<'_>,
    pace: ReceiverPace,
    path: Option<Path>,
    mut explanation: Explanation,
) -> Explanation {
    let Question {
        bytes,
        slices,
        memory,
        history,
        ..
    } = explanation.question;
    let routes = Routes::new(pair);
    // Memory that peers may read is told of by one place.
    let peer_readable = memory == SendMemory::PeerReadable && slices == 1;
    if memory == SendMemory::PeerReadable && !peer_readable && routes.may_stay(bytes) {
        explanation.refuse(Path::PeerReadable, Refusal::Vectored);
    }
    let query = Query {
        bytes,
        locality: pair.locality,
        pace,
        vectored: slices != 1,
        peer_readable,
        capabilities: pair.capabilities,
    };
    let offered = Offered {
        len: bytes,
        vectored: query.vectored,
        peer_readable: peer_readable && routes.may_stay(bytes),
        whole: true,
        pace,
    };
    let answer = select::answer(pair.table, &offered.query(pair.locality, pair.capabilities));
    let state = Assumed {
        history,
        pace,
        peer_readable,
        in_fragments: routes.goes_in_fragments(bytes),
    };
    let sent = || routes.select(bytes, &state).path(&routes, bytes);
    let (path, tunable) = path.or_else(sent).map_or(answer, |path| (path, false));
    let decided = pair
        .table
        .walk(&query, |path, why| explanation.refuse(path, why));
    let row = decided.map_or_else(|| pair.table.row_index(&query), |(row, _)| row);
    let row = pair.table.rows()[row].clone();
    explanation.take(path);
    if explanation.parts.fragments {
        let what = match path {
            Path::EagerFragments => CutFor::Eager,
            _ => CutFor::Asked,
        };
        explanation.fragment_bytes = routes.cut(bytes, what).longest();
    }
    let is_decided = decided.is_some_and(|(_, decided)| decided == path);
    explanation.note = note(path, &row, is_decided, history);
    let (locality, capabilities) = (pair.locality, pair.capabilities);
    let is_shared = select::is_shared(pair.table, &offered, path, locality, capabilities);
    if path == Path::PeerReadable && is_shared {
        explanation.note = Some("the receiver has mapped the memory; its sender writes a part");
    }
    explanation.row = Some(row);
    explanation.is_measured = tunable && bytes >= super::autotune::LEAST_BYTES;
    explanation
}

/// `can`: the table falls back to the path, where that of the row is refused.
fn note(path: Path, row: &Row, can: bool, history: History) -> Option<&'static str> {
    match path {
        _ if path == row.path => None,
        Path::EagerFragments if row.path.is_rendezvous() => Some(match history {
            History::Reply => {
                "a reply goes without asking: staging buffers that went to and fro hold it"
            }
            History::Stream => "the receiver has said that it takes the next ones as they come",
            History::OneWay => "the receiver need not be asked",
        }),
        Path::EagerFragments => Some("longer than a record: eager, in fragments"),
        Path::PeerReadable => Some("the receiver has mapped the memory in which the bytes lie"),
        Path::SendAhead => Some("the bytes lie in an arena until the receiver comes to them"),
        _ if can => Some("the first path after that of the row that can carry it"),
        Path::Pipeline => Some("no allowed path can carry it, and every pair can do this one"),
        _ => None,
    }
}

/// How a message goes over a network with these limits, and why.
#[must_use]
pub fn over_network(limits: &Limits, question: &Question) -> Explanation {
    let (bytes, slices) = (question.bytes, question.slices);
    let mut explanation = not_shared(question, Path::Network);
    let plan = network::plan(limits, bytes, slices, false);
    let (path, why) = match plan {
        NetworkPlan::Record => (Path::Network, "within the eager limit: in one record"),
        NetworkPlan::InPlace => (
            Path::Network,
            "within the eager limit: in one record, out of the sender's memory",
        ),
        NetworkPlan::Offer => {
            let refused = network::refuses_read(limits, bytes, slices);
            if let Some(why) = refused {
                explanation.refuse(Path::NetworkRead, why);
            }
            match network::answer(refused.is_none(), 1) {
                Path::NetworkRead => (
                    Path::NetworkRead,
                    "over the eager limit: the receiver reads it once the receive is known",
                ),
                path => (
                    path,
                    "over the eager limit: the receiver is asked, and the bytes go in records",
                ),
            }
        }
    };
    explanation.take(path);
    explanation.note = Some(why);
    if plan == NetworkPlan::Offer {
        explanation.parts.protocol = Protocol::Rendezvous;
    } else {
        explanation.parts.fragments = false;
    }
    explanation
}

/// How a message goes that the kernel module matches, and why.
#[must_use]
pub fn by_module(question: &Question) -> Explanation {
    let path = select::module::path(question.bytes);
    let why = match path {
        Path::Kmod => "the module pins the sender's memory until the receive is known",
        _ => "the module keeps it until the receive is known",
    };
    Explanation {
        note: Some(why),
        ..not_shared(question, path)
    }
}

/// What is to be said of a receiver that maps no memory of the sender.
fn not_shared(question: &Question, path: Path) -> Explanation {
    let mut explanation = without_table(question, path);
    match question.memory {
        SendMemory::Private => {}
        SendMemory::PeerReadable => explanation.refuse(Path::PeerReadable, Refusal::NotShared),
        SendMemory::Loan => explanation.refuse(Path::Loan, Refusal::NotShared),
    }
    explanation
}

fn without_table(question: &Question, path: Path) -> Explanation {
    Explanation {
        question: *question,
        path,
        parts: path.parts(),
        fragment_bytes: 0,
        row: None,
        refused: Vec::new(),
        note: None,
        is_measured: false,
    }
}

impl Explanation {
    fn take(&mut self, path: Path) {
        self.path = path;
        self.parts = path.parts();
    }

    /// A path is not taken; the first reason counts.
    fn refuse(&mut self, path: Path, why: Refusal) {
        if self.refused.iter().all(|known| known.path != path) {
            self.refused.push(RefusedPath { path, why });
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
        let Self { question, row, .. } = self;
        let bytes = match ByteSize(question.bytes).to_string() {
            text if text == question.bytes.to_string() => format!("{text} bytes"),
            text => format!("{text} ({} bytes)", question.bytes),
        };
        let history = match question.history {
            History::OneWay => "",
            History::Reply => " as a reply",
            History::Stream => " in a stream",
        };
        write!(f, "{bytes}{history} go by {}", self.path)?;
        if self.fragment_bytes > 0 {
            write!(f, " in fragments of {}", ByteSize(self.fragment_bytes))?;
        }
        writeln!(f, "\n  that is: {}", self.parts)?;
        if let Some(row) = row {
            let up_to = ByteSize(row.up_to_bytes);
            writeln!(
                f,
                "  row: {}, {}, up to {up_to}: {}",
                row.locality, row.when, row.path
            )?;
            writeln!(f, "  from: {}", row.source)?;
            writeln!(f, "  why: {}", row.reason)?;
        }
        if let Some(note) = self.note {
            let word = if row.is_some() { "but" } else { "why" };
            writeln!(f, "  {word}: {note}")?;
        }
        for refused in &self.refused {
            writeln!(f, "  not {refused}")?;
        }
        if self.is_measured {
            writeln!(
                f,
                "  measured at run time, unless endpoints outnumber CPUs: a path that is faster here takes over"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
