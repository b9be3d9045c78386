//! Asks a peer whether it is in the middle of something that its words in shared memory say.
//!
//! A peer publishes what it has claimed in the shared ring, and says that an access is over, before
//! it makes progress again. So an answer out of its progress says that it is in the middle of
//! nothing that was seen before it was asked: the words are another one's forgery, or its own. A
//! peer that is stopped answers nothing, and is waited for.

use core::time::Duration;

use limic_shm::control::Sent;
use limic_shm::system::Instant;

use super::greeting;
use super::sockets::Sockets;
use super::table::Peers;

/// How long a peer may be in the middle of something before it is asked, and asked again.
const ASKS_AFTER: Duration = Duration::from_millis(100);

/// Something that a peer seems to be in the middle of.
#[derive(Debug)]
pub(crate) struct Inquiry {
    since: Instant,
    /// When the last question was asked, or else when this began.
    last: Instant,
    /// The number of the first question, once one was asked.
    first: Option<u32>,
}

impl Inquiry {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self {
            since: now,
            last: now,
            first: None,
        }
    }

    /// How long it has been so.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Makes as if it had begun earlier.
    #[cfg(test)]
    pub(crate) fn make_older(&mut self, by: Duration) {
        let since = self.since.checked_sub(by);
        self.since = since.expect("the machine runs for longer");
    }

    /// Asks the peer when it has taken too long. True once the peer has said that it is not so.
    pub(crate) fn is_refuted(&mut self, peers: &mut Peers, sockets: &Sockets, peer: u32) -> bool {
        let questions = peers.questions(peer);
        // Numbers wrap: those that are not answered yet are few.
        let is_answered = |first| questions.answered.wrapping_sub(first) < u32::MAX / 2;
        if self.first.is_some_and(is_answered) {
            return true;
        }
        // A question or its answer may have met a full queue.
        if self.last.elapsed() >= ASKS_AFTER {
            self.last = Instant::now();
            let asked = ask(peers, sockets, peer);
            self.first = self.first.or(asked);
        }
        false
    }
}

/// Asks a peer; gives the number of the question, if it could be asked.
fn ask(peers: &mut Peers, sockets: &Sockets, peer: u32) -> Option<u32> {
    let questions = peers.questions.entry(peer).or_default();
    questions.last = questions.last.wrapping_add(1);
    let number = questions.last;
    let message = greeting::question(greeting::ASK, number);
    let indices = sockets.of_peer(peer);
    let asked = indices.into_iter().any(|index| {
        let connection = sockets.get(index);
        connection.is_some_and(|one| matches!(one.socket.send(&message, &[]), Ok(Sent::Done)))
    });
    asked.then_some(number)
}

/// A peer asks.
pub(crate) fn on_ask(sockets: &Sockets, index: u32, number: u32) {
    if let Some(connection) = sockets.get(index) {
        // If its queue is full, it asks again.
        let _ = connection
            .socket
            .send(&greeting::question(greeting::ANSWER, number), &[]);
    }
}

/// A peer answers.
pub(crate) fn on_answer(peers: &mut Peers, peer: u32, number: u32) {
    if let Some(questions) = peers.questions.get_mut(&peer) {
        // It can only answer what it was asked, and has not answered yet.
        let open = questions.last.wrapping_sub(questions.answered);
        if number.wrapping_sub(questions.answered) <= open {
            questions.answered = number;
        }
    }
}
