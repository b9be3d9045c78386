//! The counts while they grow: in a page of their own, which others may read at any time.
//!
//! A memfd named `limic-counters`, sealed so that nobody else can write it; whoever may open this
//! process's descriptors can read it. One thread of one process writes, so a count goes up by a
//! plain load, add and store.

use limic_bootstrap::launcher;
use limic_policy::Path;
use limic_shm::bytes::word_at;
use limic_shm::ring::{Mapped, Memory};
use limic_shm::segment::{Arena, Placement, SegmentError};
use limic_shm::sync::Ordering;

use crate::layout::{self as at, ROW_WORDS};
use crate::page::Page;
use crate::{Event, Traffic, size_class};

/// The name of the memfd.
pub(crate) const NAME: &str = "limic-counters";

/// An endpoint's counts.
#[derive(Debug)]
pub struct Recorder {
    /// # Invariants
    /// `at::BYTES` long.
    page: Mapped,
    /// What the unexpected queue holds: decided upon, so kept here too.
    unexpected_bytes: u64,
    /// Keeps the descriptor by which the page is found.
    _arena: Arena,
}

impl Recorder {
    /// Makes the page, on this NUMA node or else where the process runs.
    ///
    /// # Errors
    /// [`SegmentError`]: the system gives no memory.
    pub fn new(endpoint: u64, numa_node: Option<u32>) -> Result<Self, SegmentError> {
        let placement = Placement {
            numa_node,
            huge_pages: false,
        };
        let arena = Arena::create_named(NAME, at::BYTES, placement)?;
        let recorder = Self {
            page: arena.view().sub(0, at::BYTES),
            unexpected_bytes: 0,
            _arena: arena,
        };
        recorder.store(at::AT_VERSION, at::VERSION);
        recorder.store(at::AT_PID, u64::from(std::process::id()));
        recorder.store(at::AT_ENDPOINT, endpoint);
        recorder.store(
            at::AT_RANK,
            launcher::rank().map_or(0, |rank| u64::from(rank) + 1),
        );
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        recorder.store(at::AT_OPENED, now.map_or(0, |now| now.as_millis() as u64));
        // Last: with it, the rest makes sense. Pairs with nothing; readers make a system call.
        recorder.store(at::AT_MAGIC, at::MAGIC);
        Ok(recorder)
    }

    /// A message was sent to the peer of that row. Five words: its row's two and its path's two, in
    /// a line each, and its size's. The inline path, by which most go, has no words of its own: who
    /// reads the page works it out from the rows.
    #[inline(always)]
    pub fn sent(&self, row: &Row, path: Path, len: u64) {
        // First, so that who reads the page meanwhile does not find less in the rows than by the
        // paths.
        add(&row.line, at::ROW_SENT, 1);
        add(&row.line, at::ROW_SENT + 1, len);
        if path != Path::Inline {
            let index = at::SENT + 2 * path.index();
            add(&self.page, index, 1);
            add(&self.page, index + 1, len);
        }
        add(&self.page, at::SIZES + size_class(len), 1);
    }

    /// A message was received by a path that the receiver takes part in. Those that came whole
    /// through a ring are what the peers' rows have beyond these.
    #[inline]
    pub fn received(&self, path: Path, len: u64) {
        let index = at::RECEIVED + 2 * path.index();
        add(&self.page, index, 1);
        add(&self.page, index + 1, len);
    }

    /// Something happened once more.
    #[inline]
    pub fn event(&self, event: Event) {
        self.events(event, 1);
    }

    /// It happened so many times more.
    #[inline]
    pub fn events(&self, event: Event, times: u64) {
        add(&self.page, at::EVENTS + event as usize, times);
    }

    /// There was at least so much of something at a time.
    #[inline]
    pub fn at_least(&self, event: Event, most: u64) {
        let index = at::EVENTS + event as usize;
        if most > self.load(index) {
            self.store(index, most);
        }
    }

    /// Bytes of unexpected messages held now.
    #[inline]
    #[must_use]
    pub fn unexpected_bytes(&self) -> u64 {
        self.unexpected_bytes
    }

    /// They are so many now.
    #[inline]
    pub fn set_unexpected_bytes(&mut self, bytes: u64) {
        self.unexpected_bytes = bytes;
        self.store(at::EVENTS + Event::UnexpectedBytes as usize, bytes);
        self.at_least(Event::UnexpectedBytesMost, bytes);
    }

    /// The row for a peer that has not been met before.
    #[must_use]
    pub fn row(&self, peer: u32, endpoint: u64) -> Row {
        let used = self.load(at::AT_ROWS) as usize;
        if used >= at::SHARED_ROW {
            return self.shared_row();
        }
        let row = self.row_at(used);
        row.store(at::ROW_ENDPOINT, endpoint);
        row.store(at::ROW_PEER, u64::from(peer) + 1);
        self.store(at::AT_ROWS, used as u64 + 1);
        row
    }

    /// The row for peers that have none of their own.
    #[must_use]
    pub fn shared_row(&self) -> Row {
        Row {
            own: false,
            ..self.row_at(at::SHARED_ROW)
        }
    }

    fn row_at(&self, row: usize) -> Row {
        let start = (at::ROWS + row * ROW_WORDS) * 8;
        Row {
            line: self.page.sub(start, ROW_WORDS * 8),
            own: true,
        }
    }

    /// Says why something is not as one may expect: once for each path and text, with the first
    /// peer and how often. True the first time, if there is room for it.
    #[cold]
    pub fn reason(&self, path: Option<Path>, peer: u32, text: &str) -> bool {
        let text = cut(text, at::REASON_BYTES);
        let path = path.map_or(0, |path| path.index() as u64 + 1);
        for index in (0..at::MOST_REASONS).map(|n| at::REASONS + n * at::REASON_WORDS) {
            let words = text.as_bytes().chunks(8).map(|bytes| word_at(bytes, 0));
            let mut numbered = (index + at::REASON_TEXT..).zip(words);
            if self.load(index + at::REASON_LEN) == 0 {
                numbered.for_each(|(index, word)| self.store(index, word));
                self.store(index + at::REASON_PATH, path);
                self.store(index + at::REASON_PEER, u64::from(peer));
                self.store(index + at::REASON_TIMES, 1);
                // Last: the reason is complete then. A reader that looks meanwhile sees none.
                self.word(index + at::REASON_LEN)
                    .store(text.len() as u64, Ordering::Release);
                return true;
            }
            if self.load(index + at::REASON_LEN) == text.len() as u64
                && self.load(index + at::REASON_PATH) == path
                && numbered.all(|(index, word)| self.load(index) == word)
            {
                add(&self.page, index + at::REASON_TIMES, 1);
                return false;
            }
        }
        self.event(Event::ReasonsLeftOut);
        false
    }

    /// The endpoint is closed: nothing will change any more.
    pub fn close(&self) {
        self.store(at::AT_CLOSED, 1);
    }

    /// What is there now.
    #[must_use]
    pub fn page(&self) -> Page {
        Page::of_words(&read_words(&self.page))
    }

    /// The page itself, for who reports at the process's end.
    pub(crate) fn memory(&self) -> Mapped {
        self.page.clone()
    }

    #[inline]
    fn word(&self, index: usize) -> &limic_shm::sync::AtomicU64 {
        self.page.word64(index * 8)
    }

    #[inline]
    fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Relaxed)
    }

    #[inline]
    fn store(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Relaxed);
    }
}

/// All words of a page.
pub(crate) fn read_words(page: &Mapped) -> Vec<u64> {
    (0..page.len() / 8)
        .map(|index| page.word64(index * 8).load(Ordering::Relaxed))
        .collect()
}

/// What went to and came from one peer: a line of the page.
#[derive(Clone, Debug)]
pub struct Row {
    /// # Invariants
    /// `ROW_WORDS` words long.
    line: Mapped,
    own: bool,
}

impl Row {
    /// So many messages more have come from it, with so many bytes.
    #[inline(always)]
    pub fn received(&self, messages: u64, bytes: u64) {
        add(&self.line, at::ROW_RECEIVED, messages);
        add(&self.line, at::ROW_RECEIVED + 1, bytes);
    }

    /// Bytes that have come from it.
    #[inline]
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.line
            .word64((at::ROW_RECEIVED + 1) * 8)
            .load(Ordering::Relaxed)
    }

    /// The peer slept and was woken.
    #[inline]
    pub fn rang(&self) {
        add(&self.line, at::ROW_RANG, 1);
    }

    /// Whether it counts for this peer alone.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Sent and received; nothing for a peer without a row of its own.
    #[must_use]
    pub fn traffic(&self) -> (Traffic, Traffic) {
        if !self.own {
            return Default::default();
        }
        let load = |index: usize| self.line.word64(index * 8).load(Ordering::Relaxed);
        let traffic = |index| Traffic {
            messages: load(index),
            bytes: load(index + 1),
        };
        (traffic(at::ROW_SENT), traffic(at::ROW_RECEIVED))
    }

    fn store(&self, index: usize, value: u64) {
        self.line.word64(index * 8).store(value, Ordering::Relaxed);
    }
}

/// Adds to a word that this thread alone writes: one instruction on x86-64, without a lock prefix.
#[inline(always)]
fn add(memory: &Mapped, index: usize, more: u64) {
    debug_assert!((index + 1) * 8 <= memory.len());
    // SAFETY: callers pass indices of `layout`, whose assertions and the invariants of `page` and
    // `line` keep them inside: events, paths and size classes are numbered below what there is room
    // for.
    let word = unsafe { memory.word64_unchecked(index * 8) };
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Relaxed,
    );
}

/// The beginning of a text, at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_once_and_the_rest_is_left_out() {
        let recorder = Recorder::new(1, None).expect("a page");
        let long = "ä".repeat(at::REASON_BYTES);
        for peer in [3, 4] {
            let news = [
                recorder.reason(Some(Path::Cma), peer, "no"),
                recorder.reason(None, peer, &long),
            ];
            assert_eq!(news, [peer == 3; 2]);
        }
        let reasons = recorder.page().counters.reasons;
        assert_eq!(reasons.len(), 2);
        assert_eq!(
            (reasons[0].times, reasons[0].peer),
            (2, Some(crate::Peer(3)))
        );
        assert_eq!(reasons[0].to_string(), "cma: no (peer 3 first, 2 times)");
        assert_eq!(reasons[0].text, "no");
        assert_eq!(reasons[1].text.len(), at::REASON_BYTES);
        assert!(recorder.reason(None, u32::MAX, "a stranger"));
        let of_stranger = &recorder.page().counters.reasons[2];
        assert_eq!(
            (of_stranger.peer, of_stranger.to_string()),
            (None, "a stranger".to_owned())
        );
        let news = (0..40).filter(|n| recorder.reason(None, 0, &format!("number {n}")));
        assert_eq!(news.count(), at::MOST_REASONS - 3);
        let counters = recorder.page().counters;
        assert_eq!(counters.reasons.len(), at::MOST_REASONS);
        assert_eq!(counters.event(Event::ReasonsLeftOut), 11);
    }

    #[test]
    fn peers_beyond_the_rows_share_one() {
        let recorder = Recorder::new(1, None).expect("a page");
        for peer in 0..300 {
            let row = recorder.row(peer, u64::from(peer) + 1000);
            recorder.sent(&row, Path::Inline, 10);
            row.received(1, 1);
            assert_eq!(row.is_own(), peer < 255);
        }
        let page = recorder.page();
        assert_eq!(page.peers.len(), 255);
        assert_eq!(page.peers[7].endpoint, 1007);
        assert_eq!(page.others.sent.messages, 45);
        let received: u64 = page
            .counters
            .received_paths
            .iter()
            .map(|(_, traffic)| traffic.messages)
            .sum();
        assert_eq!(received, 300);
    }
}
