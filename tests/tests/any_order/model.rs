//! What endpoints promise, whatever was called: whose message a receive may get, in which order,
//! and which messages have to come.

use limic::{Address, Error, Outcome, Selector, Status, Tag};
use limic_tests::check;

/// The tag that is reserved, and sent only for that.
pub(crate) const RESERVED: u64 = 1 << 40;

/// What became of a send, as far as its sender knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It has to come, unless its sender is told otherwise.
    Sent,
    /// Its sender was told that nobody gets it.
    Cancelled,
    /// It may come: an endpoint has gone, or its sender gave up who could tell.
    Open,
}

/// A message. Its number is the seed of its bytes.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) from: usize,
    pub(crate) to: usize,
    tag: u64,
    len: usize,
    pub(crate) fate: Fate,
    /// The number of the receive that got it, and what that asked for.
    got: Option<(usize, Ask)>,
}

impl Message {
    /// Whether both are empty, and nothing else tells them apart.
    fn looks_like(&self, other: &Self) -> bool {
        let place = |message: &Self| (message.from, message.to, message.tag, message.len);
        self.len == 0 && place(self) == place(other)
    }
}

/// What a receive asks for, by numbers of endpoints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) at: usize,
    pub(crate) from: Option<usize>,
    pub(crate) tag: Option<u64>,
}

impl Ask {
    fn fits(&self, message: &Message) -> bool {
        self.at == message.to
            && self.from.is_none_or(|from| from == message.from)
            && self.tag.is_none_or(|tag| tag == message.tag)
    }

    /// Whether another one, which names both, may get a message that fits this one.
    pub(crate) fn overlaps(&self, named: &Self) -> bool {
        self.at == named.at
            && (self.from.is_none() || self.from == named.from)
            && (self.tag.is_none() || self.tag == named.tag)
    }

    /// The same in the words of the endpoint, which knows its peer by that name.
    pub(crate) fn selector(&self, peer: Option<limic::Peer>) -> Selector {
        Selector {
            source: peer,
            ..self
                .tag
                .map_or(Selector::any(), |tag| Selector::any_source(Tag(tag)))
        }
    }
}

/// All endpoints of a case, also those that are gone, and all that went between them.
#[derive(Debug, Default)]
pub(crate) struct Model {
    addresses: Vec<Address>,
    /// Whether each endpoint was closed or dropped.
    gone: Vec<bool>,
    messages: Vec<Message>,
    /// Receives that were given up without a cancellation: each may get one message unseen.
    given_up: Vec<Ask>,
    receives: usize,
}

impl Model {
    /// An endpoint was opened; gives its number.
    pub(crate) fn open(&mut self, address: Address) -> usize {
        self.addresses.push(address);
        self.gone.push(false);
        self.gone.len() - 1
    }

    /// The number of the endpoint with this address.
    pub(crate) fn name_of(&self, address: Address) -> usize {
        let name = self.addresses.iter().position(|other| *other == address);
        name.expect("an endpoint of this case")
    }

    pub(crate) fn is_gone(&self, name: usize) -> bool {
        self.gone[name]
    }

    /// A message that is about to be sent; gives its number. Lengths tell messages apart, but for
    /// the empty ones.
    pub(crate) fn send(&mut self, from: usize, to: usize, tag: u64, base: usize) -> (usize, usize) {
        let number = self.messages.len();
        let len = if base == 0 { 0 } else { base + number };
        self.messages.push(Message {
            from,
            to,
            tag,
            len,
            fate: Fate::Sent,
            got: None,
        });
        (number, len)
    }

    pub(crate) fn message(&mut self, number: usize) -> &mut Message {
        &mut self.messages[number]
    }

    /// The number of a receive that is posted now.
    pub(crate) fn receive(&mut self) -> usize {
        self.receives += 1;
        self.receives
    }

    pub(crate) fn give_up(&mut self, ask: Ask) {
        self.given_up.push(ask);
    }

    /// Whether a receive that was given up may get a message for which another one asks.
    pub(crate) fn may_take_unseen(&self, named: &Ask) -> bool {
        self.given_up.iter().any(|ask| ask.overlaps(named))
    }

    pub(crate) fn leave(&mut self, name: usize) {
        self.gone[name] = true;
    }

    /// Whether an operation of this endpoint may say that this peer has failed.
    pub(crate) fn may_fail(&self, error: &Error) -> bool {
        matches!(error, Error::PeerFailed { .. }) && self.gone.contains(&true)
    }

    /// What a send became.
    pub(crate) fn sent(&mut self, number: usize, cancelled: bool, outcome: &Outcome) {
        let may_fail = outcome.as_ref().is_err_and(|error| self.may_fail(error));
        let message = &mut self.messages[number];
        let from_gone = self.gone[message.from];
        match outcome {
            Ok(status) => assert_eq!(
                (status.len, status.tag),
                (message.len as u64, Tag(message.tag))
            ),
            Err(Error::Cancelled) if cancelled || from_gone => {
                message.fate = Fate::Cancelled;
                if let Some(got) = message.got.take() {
                    assert_eq!(message.len, 0, "cancelled and received: {message:?}");
                    self.give_to_another(number, got);
                }
            }
            Err(error) if may_fail => {
                let _one_side_is_gone = error;
                message.fate = Fate::Open;
            }
            Err(error) => panic!("{message:?} ended with {error}"),
        }
    }

    /// An empty message that was received was not this one, but another that looks like it.
    fn give_to_another(&mut self, number: usize, got: (usize, Ask)) {
        let alike = self.alike(number);
        let another = alike.unwrap_or_else(|| panic!("cancelled and received: message {number}"));
        self.messages[another].got = Some(got);
    }

    fn alike(&self, number: usize) -> Option<usize> {
        let one = &self.messages[number];
        self.messages.iter().position(|other| {
            one.looks_like(other) && other.got.is_none() && other.fate != Fate::Cancelled
        })
    }

    /// What a receive became that may have been cancelled; `from` is the sender's number. Gives the
    /// number of the message that it has got, whose first bytes these are.
    pub(crate) fn received(
        &mut self,
        (receive, ask): (usize, Ask),
        cancelled: bool,
        outcome: &Outcome,
        from: Option<usize>,
        bytes: &[u8],
    ) -> Option<usize> {
        let (tag, len) = match outcome {
            Ok(Status { tag, len, .. }) => {
                assert!(*len <= bytes.len() as u64);
                (*tag, *len)
            }
            Err(Error::Truncated {
                tag, sent, buffer, ..
            }) => {
                // A scope does not give the room of a receive that failed.
                assert!(bytes.is_empty() || *buffer == bytes.len() as u64);
                assert!(sent > buffer);
                (*tag, *sent)
            }
            // Closing an endpoint cancels what needs no peer.
            Err(Error::Cancelled) if cancelled || self.gone[ask.at] => return None,
            Err(error) if self.may_fail(error) => return None,
            Err(error) => panic!("{ask:?} ended with {error}"),
        };
        let number = self.take((receive, ask), from?, tag, len);
        let whole = self.messages[number].len;
        check(number as u64, &bytes[..bytes.len().min(whole)]);
        Some(number)
    }

    /// A claimed message that was thrown away.
    pub(crate) fn dropped(&mut self, receive: (usize, Ask), from: usize, status: Status) {
        self.take(receive, from, status.tag, status.len);
    }

    /// The number of the message that a receive has got.
    fn take(&mut self, (receive, ask): (usize, Ask), from: usize, tag: Tag, len: u64) -> usize {
        let number = self.messages.iter().position(|message| {
            let same = message.from == from && message.tag == tag.0 && message.len as u64 == len;
            let is_left = message.got.is_none() && message.fate != Fate::Cancelled;
            same && message.to == ask.at && is_left
        });
        let number = number.unwrap_or_else(|| {
            panic!("{ask:?} got {len} bytes with {tag} of endpoint {from}, which nobody sent")
        });
        let message = &mut self.messages[number];
        assert!(ask.fits(message), "{ask:?} got {message:?}");
        message.got = Some((receive, ask));
        number
    }

    /// Messages to an endpoint that have to come and have not. Receives that were given up may
    /// have got some of them, if they are `patient`.
    pub(crate) fn missing(&self, to: usize, patient: bool) -> usize {
        if self.gone[to] {
            return 0;
        }
        let awaited = |message: &&Message| {
            // Of the empty ones, another may be the one that came.
            let mut all = self.messages.iter();
            let is_clear = message.len > 0
                || !all.any(|other| other.looks_like(message) && other.fate != Fate::Sent);
            let certain = is_clear && message.fate == Fate::Sent && !self.gone[message.from];
            message.to == to && message.got.is_none() && certain
        };
        let missing: Vec<_> = self.messages.iter().filter(awaited).collect();
        let unseen = self
            .given_up
            .iter()
            .filter(|ask| missing.iter().any(|m| ask.fits(m)));
        match patient {
            true => missing.len(),
            false => missing.len().saturating_sub(unseen.count()),
        }
    }

    /// Messages from one endpoint to another match in the order in which they were sent: of two,
    /// the later one has not got a receive that was posted before, and would have fit the first.
    pub(crate) fn check_order(&self) {
        let mut last: Vec<(&Message, usize)> = Vec::new();
        for message in &self.messages {
            // Which of the empty ones came is not known.
            // Reserved ones are taken when a runtime asks for them.
            let got = message
                .got
                .filter(|_| message.len > 0 && message.tag != RESERVED);
            let Some((receive, ask)) = got else { continue };
            for (before, got) in &last {
                let same = (before.from, before.to) == (message.from, message.to);
                let overtakes = same && receive < *got && ask.fits(before);
                assert!(!overtakes, "{message:?} overtakes {before:?}");
            }
            last.push((message, receive));
        }
    }
}
