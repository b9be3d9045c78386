//! Whether packets were lost with an adapter of this side.
//!
//! An adapter acknowledges packets before they lie in memory with their completions. Then it fails,
//! and the peer has forgotten packets that nobody here will read: both would wait for ever. So each
//! end that is ready says in its greetings what it has sent. Streams of the failed adapter are made
//! anew by greetings. As soon as the peer has taken its end of the old ones down, it keeps all
//! packets to send them again, but those that were acknowledged. Of these none may be missing here
//! when all that has come was read. If one is, the connection ends.
//!
//! An adapter may have failed for some time before its driver says so. So a stream that leaves an
//! adapter for another one, for any reason, begins the same doubt.
//!
//! A packet that the peer still has may hide others behind it, which are lost. Time does not tell:
//! the peer may make no call for long. So it is asked again and again what it has sent, until all
//! has come or the loss shows.

use std::time::Instant;

use super::clock::{FIRST_PAUSE, pause};
use super::connection::{Connection, Posted};
use super::contact::is_after;
use super::greeting::Greeting;
use super::mending::LONGEST_PAUSE_BESIDE;
use super::{ConnectionFailure, Fabric};

/// What one end has sent on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// The first packet that was not acknowledged, and so is sent again where its stream breaks.
    first: u32,
    /// The next packet that is begun: those before were, also if no stream has taken them yet.
    next: u32,
}

/// Streams have left an adapter of this side by which packets may have come. It has failed, or may
/// do so when nothing says any more which streams it had.
#[derive(Debug)]
pub(super) struct Doubt {
    rail: usize,
    /// The places of these streams.
    places: Vec<usize>,
    /// What the peer has sent, since it knows that they are gone; and when this was heard.
    told: Option<(Sent, Instant)>,
    /// When the peer is asked, and how often it was.
    next: Instant,
    tries: u32,
}

impl Sent {
    /// As it travels.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        [self.first.to_le_bytes(), self.next.to_le_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, d, e, f, g, h] = <&[u8; 8]>::try_from(bytes).ok()?;
        Some(Self {
            first: u32::from_le_bytes([a, b, c, d]),
            next: u32::from_le_bytes([e, f, g, h]),
        })
    }
}

impl Connection {
    /// The stream of a place has left an adapter of this side. What the peer has said before does
    /// not count.
    pub(super) fn begin_doubt(&mut self, rail: usize, place: usize) {
        let before = self.doubt.take();
        let mut places = before.map_or(Vec::new(), |before| before.places);
        if !places.contains(&place) {
            places.push(place);
        }
        self.doubt = Some(Doubt {
            rail,
            places,
            told: None,
            next: Instant::now() + FIRST_PAUSE,
            tries: 0,
        });
    }
}

impl Fabric {
    /// What this end has sent on a connection.
    pub(super) fn sent_on(&self, number: u32) -> Sent {
        let Some(connection) = self.connections.get(&number) else {
            return Sent { first: 0, next: 0 };
        };
        let next = connection.sequence;
        let posted = connection.streams.iter().flatten();
        let posted = posted.flat_map(|stream| &stream.posted);
        let posted = posted.filter_map(|(_, posted)| match posted {
            Posted::Packet { buffer, .. } => Some(*buffer),
            Posted::Part(_) | Posted::Ping => None,
        });
        let waiting = connection.again.iter().map(|(buffer, _)| *buffer);
        let numbers = posted
            .chain(waiting)
            .map(|buffer| self.packets.sequence(buffer));
        // The open one is the last.
        let open = u32::from(connection.open.is_some());
        let kept = numbers.map(|it| next.wrapping_sub(it)).fold(open, u32::max);
        Sent {
            first: next.wrapping_sub(kept),
            next,
        }
    }

    /// Takes in what a peer that is ready says that it has sent.
    pub(super) fn hear_sent(&mut self, number: u32, greeting: &Greeting) {
        let at = self.looked_at;
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let (rounds, Some(doubt)) = (&connection.rounds, &mut connection.doubt) else {
            return;
        };
        let knows = |place: &usize| {
            let mut offers = greeting.streams.iter();
            let offer = offers.find(|offer| usize::from(offer.place) == *place);
            offer.is_some_and(|offer| offer.round == rounds[*place])
        };
        if doubt.places.iter().all(knows) {
            let sent = Sent::from_bytes(&greeting.hello);
            doubt.told = sent.map(|sent| (sent, at)).or(doubt.told);
        }
    }

    /// The peer wants to know what was sent. Most requests for packets ask for no completion, so an
    /// empty write behind them does.
    pub(super) fn ask_adapters(&mut self, number: u32) {
        let Some(connection) = self.connections.get(&number) else {
            return;
        };
        let streams = connection.streams.iter().enumerate();
        let silent = streams.filter(|(_, it)| it.as_ref().is_some_and(|it| it.unsignalled > 0));
        for place in silent.map(|(place, _)| place).collect::<Vec<_>>() {
            self.ping_by(number, place);
        }
    }

    /// The clock, which has looked before at that time: the doubt is over if all has come, and if
    /// something is missing, the connection. Else the peer is asked.
    pub(super) fn end_doubt(&mut self, number: u32, before: Instant) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let Some(doubt) = &connection.doubt else {
            return;
        };
        let (rail, wanted) = (doubt.rail, connection.arrivals.next());
        match doubt.told {
            Some((sent, _)) if !is_after(sent.next, wanted) => connection.doubt = None,
            Some((sent, at)) if is_after(sent.first, wanted) => {
                if at < before {
                    self.end_if_all_is_read(number, rail);
                }
            }
            _ => self.ask_what_was_sent(number),
        }
    }

    /// The packet whose turn is next was received, the peer says. It is lost, unless it is among
    /// those that came and were not read yet.
    fn end_if_all_is_read(&mut self, number: u32, rail: usize) {
        self.hear_all();
        let arrived = self.arrived.iter().filter_map(|arrived| arrived.connection);
        let late = self.late.iter().map(|(of, _)| *of);
        if arrived.chain(late).any(|of| of == number) {
            return;
        }
        let name = self.rails[rail].domain.context().name();
        let why = format!("{name} of this side has lost packets that count as received");
        self.end(number, ConnectionFailure::Local(why));
    }

    /// Asks the peer, if it is time for that, by the way of a stream that is alive. Where none is,
    /// the greetings for those that are made anew ask.
    fn ask_what_was_sent(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let way = connection.control_stream();
        let way = way.map(|(_, stream)| (stream.rail, stream.rail_there));
        let (Some((rail, there)), Some(doubt)) = (way, &mut connection.doubt) else {
            return;
        };
        if self.looked_at < doubt.next {
            return;
        }
        doubt.next = self.looked_at + pause(doubt.tries, LONGEST_PAUSE_BESIDE);
        doubt.tries = doubt.tries.saturating_add(1);
        let to = *connection.address.rail(there);
        self.greet(number, rail, &to, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_comes_back() {
        let sent = Sent {
            first: u32::MAX,
            next: 7,
        };
        assert_eq!(Sent::from_bytes(&sent.to_bytes()), Some(sent));
        assert_eq!(Sent::from_bytes(&[0; 9]), None);
    }
}
