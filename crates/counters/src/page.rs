//! What a page of counters says. It may be another process's, and then its words are input: nothing
//! is taken for granted but that there are some.

use limic_policy::Path;
use limic_shm::bytes::word_at;

use crate::layout as at;
use crate::{Counters, Event, Peer, Reason, SIZE_CLASSES, Traffic};

/// One endpoint's counters, and whose they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The process that opened the endpoint, as it sees itself.
    pub process: u32,
    /// The rank of that process, if a launcher told.
    pub rank: Option<u32>,
    /// The endpoint's number, which no other has.
    pub endpoint: u64,
    /// When it was opened: milliseconds since 1970.
    pub opened_ms: u64,
    /// Whether it is closed.
    pub closed: bool,
    /// What it counted.
    pub counters: Counters,
    /// By peer: the first 255 that it talked to.
    pub peers: Vec<PeerCounts>,
    /// All other peers together.
    pub others: PeerCounts,
}

/// What went to and came from one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCounts {
    /// Its number at this endpoint; a job's rank.
    pub peer: Peer,
    /// Its endpoint's number.
    pub endpoint: u64,
    /// Sent to it.
    pub sent: Traffic,
    /// Received from it.
    pub received: Traffic,
    /// Times that it slept and was woken by this endpoint.
    pub wake_ups: u64,
}

impl Default for PeerCounts {
    fn default() -> Self {
        Self {
            peer: Peer(u32::MAX),
            endpoint: 0,
            sent: Traffic::default(),
            received: Traffic::default(),
            wake_ups: 0,
        }
    }
}

limic_bootstrap::debug_as_display!(PageError);

/// Why some bytes are not a page of counters.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// Too short.
    #[error("it has {has} bytes and a page of counters has {needs}")]
    Short {
        /// Bytes that there are.
        has: usize,
        /// Bytes of a page.
        needs: usize,
    },
    /// The first word is another one.
    #[error("it does not begin as a page of counters does")]
    Magic,
    /// Another version of limic.
    #[error(
        "its version is {theirs}, and this limic reads version {ours}: use the limic that the process was built with"
    )]
    Version {
        /// Of the page.
        theirs: u64,
        /// Of this library.
        ours: u64,
    },
}

impl Page {
    /// Reads a page that was copied from wherever it lies.
    ///
    /// # Errors
    /// [`PageError`]: the bytes are no page, or one of another version. What the counts say is not
    /// checked.
    pub fn parse(bytes: &[u8]) -> Result<Self, PageError> {
        if bytes.len() < at::BYTES {
            return Err(PageError::Short {
                has: bytes.len(),
                needs: at::BYTES,
            });
        }
        let words = bytes.chunks_exact(8).take(at::WORDS);
        let words: Vec<u64> = words.map(|bytes| word_at(bytes, 0)).collect();
        if words[at::AT_MAGIC] != at::MAGIC {
            return Err(PageError::Magic);
        }
        if words[at::AT_VERSION] != at::VERSION {
            return Err(PageError::Version {
                theirs: words[at::AT_VERSION],
                ours: at::VERSION,
            });
        }
        Ok(Self::of_words(&words))
    }

    /// Missing words count as 0.
    pub(super) fn of_words(words: &[u64]) -> Self {
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let traffic = |index: usize| Traffic {
            messages: word(index),
            bytes: word(index + 1),
        };
        let row = |number: usize| {
            let index = at::ROWS + number * at::ROW_WORDS;
            PeerCounts {
                peer: Peer((word(index + at::ROW_PEER) as u32).wrapping_sub(1)),
                endpoint: word(index + at::ROW_ENDPOINT),
                sent: traffic(index + at::ROW_SENT),
                received: traffic(index + at::ROW_RECEIVED),
                wake_ups: word(index + at::ROW_RANG),
            }
        };
        let used = (word(at::AT_ROWS).min(at::SHARED_ROW as u64)) as usize;
        let peers: Vec<PeerCounts> = (0..used).map(row).collect();
        let others = row(at::SHARED_ROW);

        let each = |start: usize| {
            Path::ALL
                .into_iter()
                .map(move |path| (path, traffic(start + 2 * path.index())))
        };
        let mut sent_paths: Vec<_> = each(at::SENT).collect();
        let mut received_paths: Vec<_> = each(at::RECEIVED).collect();
        // One path has what the peers' rows have beyond the others.
        let rest = |paths: &mut [(Path, Traffic)], path: Path, of: fn(&PeerCounts) -> Traffic| {
            let all = Traffic::sum(peers.iter().chain([&others]).map(of));
            let known = paths.iter().filter(|(other, _)| *other != path);
            let known = Traffic::sum(known.map(|(_, traffic)| *traffic));
            if let Some((_, traffic)) = paths.get_mut(path.index()) {
                *traffic = all.beyond(known);
            }
        };
        rest(&mut sent_paths, Path::Inline, |peer| peer.sent);
        // What came whole through a ring is not told apart by path where it is received.
        rest(&mut received_paths, Path::Eager, |peer| peer.received);

        let event = |event: Event| word(at::EVENTS + event as usize);
        let counters = Counters {
            paths: Path::ALL
                .into_iter()
                .map(|path| {
                    let chosen_by_receiver = path.is_rendezvous() || path == Path::SameProcess;
                    let of = if chosen_by_receiver {
                        &received_paths
                    } else {
                        &sent_paths
                    };
                    of[path.index()]
                })
                .collect(),
            sent: peers.iter().map(|peer| (peer.peer, peer.sent)).collect(),
            received: peers
                .iter()
                .map(|peer| (peer.peer, peer.received))
                .collect(),
            sent_paths,
            received_paths,
            sizes: (0..SIZE_CLASSES)
                .map(|class| word(at::SIZES + class))
                .collect(),
            unexpected: event(Event::Unexpected),
            unexpected_bytes: event(Event::UnexpectedBytes),
            sleeps: event(Event::Sleeps),
            ahead: traffic_of(event(Event::SendAhead), event(Event::SendAheadBytes)),
            skew_changes: event(Event::SkewChanges),
            migrations: event(Event::Migrations),
            relocations: event(Event::Relocations),
            events: Event::ALL.into_iter().map(|e| (e, event(e))).collect(),
            reasons: (0..at::MOST_REASONS)
                .filter_map(|n| reason(words, n))
                .collect(),
            lagging: Vec::new(),
            behind: Vec::new(),
            tuned: Vec::new(),
        };
        Self {
            process: word(at::AT_PID) as u32,
            rank: (word(at::AT_RANK) as u32).checked_sub(1),
            endpoint: word(at::AT_ENDPOINT),
            opened_ms: word(at::AT_OPENED),
            closed: word(at::AT_CLOSED) != 0,
            counters,
            peers,
            others,
        }
    }
}

fn traffic_of(messages: u64, bytes: u64) -> Traffic {
    Traffic { messages, bytes }
}

fn reason(words: &[u64], number: usize) -> Option<Reason> {
    let index = at::REASONS + number * at::REASON_WORDS;
    let words = words.get(index..index + at::REASON_WORDS)?;
    let len = usize::try_from(words[at::REASON_LEN]).ok()?;
    let bytes: Vec<u8> = words[at::REASON_TEXT..]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    let text = bytes.get(..len).filter(|text| !text.is_empty())?;
    // Another process's text goes to a terminal: no control sequences.
    let text = String::from_utf8_lossy(text)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let path = usize::try_from(words[at::REASON_PATH]).ok()?;
    Some(Reason {
        path: path
            .checked_sub(1)
            .and_then(|path| Path::ALL.get(path).copied()),
        peer: Some(words[at::REASON_PEER] as u32)
            .filter(|peer| *peer != u32::MAX)
            .map(Peer),
        times: words[at::REASON_TIMES],
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_page_says_so() {
        let short = Page::parse(&[0; 100]);
        assert!(matches!(short, Err(PageError::Short { has: 100, .. })));
        let mut bytes = vec![0; at::BYTES];
        assert_eq!(Page::parse(&bytes), Err(PageError::Magic));
        bytes[..8].copy_from_slice(b"limiccnt");
        let version = Page::parse(&bytes).expect_err("version 0");
        assert!(version.to_string().contains("version is 0"), "{version}");
    }

    #[test]
    fn one_path_has_what_the_rows_have_beyond_the_others() {
        let mut words = vec![0; at::WORDS];
        words[at::AT_ROWS] = 1;
        let mut put = |index: usize, messages: u64, bytes: u64| {
            words[index..index + 2].copy_from_slice(&[messages, bytes]);
        };
        let row = |number: usize| at::ROWS + number * at::ROW_WORDS;
        put(row(0) + at::ROW_SENT, 10, 1000);
        put(row(at::SHARED_ROW) + at::ROW_SENT, 5, 500);
        put(row(0) + at::ROW_RECEIVED, 4, 300);
        put(at::SENT + 2 * Path::Eager.index(), 3, 900);
        put(at::SENT + 2 * Path::Pipeline.index(), 2, 400);
        // Counted between two looks at the page.
        put(at::RECEIVED + 2 * Path::Pipeline.index(), 5, 100);
        let counters = Page::of_words(&words).counters;
        let of = |paths: &[(Path, Traffic)], path: Path| {
            let (_, traffic) = paths[path.index()];
            (traffic.messages, traffic.bytes)
        };
        assert_eq!(of(&counters.sent_paths, Path::Inline), (10, 200));
        assert_eq!(of(&counters.sent_paths, Path::Eager), (3, 900));
        assert_eq!(of(&counters.received_paths, Path::Eager), (0, 200));
    }

    #[test]
    fn any_words_are_read() {
        for word in [u64::MAX, 1, 1 << 63, 0x1b5b_331b_5b33_1b5b] {
            let mut words = vec![word; at::WORDS];
            words[at::AT_MAGIC] = at::MAGIC;
            words[at::AT_VERSION] = at::VERSION;
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let page = Page::parse(&bytes).expect("a page");
            assert!(page.peers.len() < at::MOST_ROWS);
            assert!(!page.to_string().contains('\x1b'));
            assert!(page.to_json().contains("\"endpoint\""));
        }
    }
}
