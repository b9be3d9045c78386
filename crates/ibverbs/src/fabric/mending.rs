//! A stream that broke is made anew, by the same adapter. If that has failed, by the other one: the
//! peer is told at each of its adapters in turn, and follows to the one where that arrives.
//!
//! The peer may not know that it broke, and it may be the only one, so both ends agree by greetings
//! of a connection that is ready. These go over the stream's own rail: as long as nothing gets
//! through there, nothing is sent by the stream. Each place counts its rounds. Whoever finds a
//! stream broken begins the next round with a new queue pair, and the other end follows:
//!
//! ```text
//! A                                               B
//! round 1              ---------------------->    breaks its old one; new, connected
//! connected, used      <----------------------    round 1, connected
//!                      ---------------------->    used
//! ```
//!
//! A greeting is answered unless it says of all streams that they are used, in this end's round.
//! One that gets lost is repeated by the clock, for as long as the connection lives. A connection
//! without any stream lives for the time that a first contact may take.

use core::time::Duration;
use std::time::Instant;

use super::clock::{LONGEST_PAUSE, pause};
use super::connection::{Connection, Mend, Stream};
use super::contact::is_after;
use super::failing::Fault;
use super::greeting::Offer;
use super::{ConnectionFailure, Fabric};
use crate::VerbsError;
use crate::objects::QueuePairState;

/// Most time until a peer is told again of a stream that is made anew, while it has others.
pub(super) const LONGEST_PAUSE_BESIDE: Duration = Duration::from_secs(5);
/// A try that takes longer has waited for the network: on Ethernet the kernel asks there for the
/// peer's hardware address, and the call returns only when it knows, or gives up.
const LONG: Duration = Duration::from_millis(50);
/// After such a try none goes over that rail for so many times its length, so that other traffic
/// has most of the time.
const REST: u32 = 20;

impl Fabric {
    /// The stream of a place is gone, and its next round begins.
    pub(super) fn begin_mend(&mut self, number: u32, place: usize, rail: usize, there: usize) {
        let Some(&next) = self.rails_in_order(rail).first() else {
            return;
        };
        // The peer's adapter of the same place is likely to be on the same network.
        let (in_turn, from) = (next != rail, rail);
        let (rail, rail_there) = if in_turn { (next, next) } else { (rail, there) };
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if in_turn {
            connection.begin_doubt(from, place);
        }
        let now = Instant::now();
        connection.rounds[place] = connection.rounds[place].wrapping_add(1);
        connection.mends.push(Mend {
            place,
            rail,
            rail_there,
            in_turn,
            stream: None,
            since: now,
            next: now,
            tries: 0,
        });
    }

    /// Makes a queue pair for a place if there is none, and tells the peer.
    fn mend(&mut self, number: u32, place: usize) {
        let Some(rail) = self.mend_of(number, place).map(|mend| mend.rail) else {
            return;
        };
        let begun = Instant::now();
        self.try_to_mend(number, place);
        let took = begun.elapsed();
        if took > LONG {
            let rest = took * REST;
            self.rails[rail].rests_until = begun + took + rest;
            // The others have their turn first.
            let peers = self.connections.len() as u32;
            if let Some(mend) = self.mend_of(number, place) {
                mend.next = mend.next.max(begun + rest * peers);
            }
        }
    }

    fn try_to_mend(&mut self, number: u32, place: usize) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let is_alone = connection.live_streams() == 0;
        let Some(mend) = connection.mend(place) else {
            return;
        };
        let longest = if is_alone {
            LONGEST_PAUSE
        } else {
            LONGEST_PAUSE_BESIDE
        };
        mend.next = Instant::now() + pause(mend.tries, longest);
        let turn = if mend.in_turn { mend.tries } else { 0 };
        mend.tries = mend.tries.saturating_add(1);
        let (rail, there) = (mend.rail, mend.rail_there + turn as usize);
        if let Err(error) = self.equip(number, place) {
            return tracing::debug!("stream {place} is not made anew yet: {error}");
        }
        if let Some(connection) = self.connections.get(&number) {
            let to = *connection.address.rail(there);
            self.greet(number, rail, &to, false);
        }
    }

    /// The clock: tells peers of streams that are made anew, at first and again.
    pub(super) fn mend_what_is_due(&mut self, number: u32) {
        let Some(connection) = self.connections.get(&number) else {
            return;
        };
        let mends = connection.mends.iter();
        let due = mends.filter(|mend| self.due_at(mend) <= self.looked_at);
        let due: Vec<(usize, usize)> = due.map(|mend| (mend.place, mend.rail)).collect();
        for (place, rail) in due {
            // One before it may have taken long.
            if self.rails[rail].rests_until <= self.looked_at {
                self.mend(number, place);
            }
        }
    }

    /// When the peer is to be told of a stream.
    pub(super) fn due_at(&self, mend: &Mend) -> Instant {
        mend.next.max(self.rails[mend.rail].rests_until)
    }

    /// A place has a queue pair, of the port as it is now: it may have come back with another
    /// address.
    fn equip(&mut self, number: u32, place: usize) -> Result<(), VerbsError> {
        let connection = self.connections.get_mut(&number);
        let Some(mend) = connection.and_then(|it| it.mend(place)) else {
            return Ok(());
        };
        let (rail, there) = (mend.rail, mend.rail_there);
        self.rails[rail].renew_port(&self.settings)?;
        let port = self.rails[rail].port;
        let is_old = |stream: &Stream| {
            stream.pair.state() == QueuePairState::Initialised && *stream.pair.port() != port
        };
        if mend.stream.as_ref().is_some_and(is_old) {
            self.replace(number, place);
        }
        let Some(mend) = self.mend_of(number, place) else {
            return Ok(());
        };
        if mend.stream.is_none() {
            let stream = self.new_stream(number, rail, there)?;
            if let Some(mend) = self.mend_of(number, place) {
                mend.stream = Some(stream);
            }
        }
        Ok(())
    }

    /// Takes a queue pair down that the peer may have heard of: the next one has the next round.
    fn replace(&mut self, number: u32, place: usize) {
        let stream = self.mend_of(number, place).and_then(|it| it.stream.take());
        if let Some(stream) = stream {
            self.take_down(stream);
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.rounds[place] = connection.rounds[place].wrapping_add(1);
        }
    }

    /// Takes in what a peer that is ready says of its streams, by a greeting between these rails of
    /// this end and of the peer. True if it knows all of this end's, so that no answer is needed.
    pub(super) fn hear_streams(
        &mut self,
        number: u32,
        offers: &[Offer],
        way: (usize, usize),
    ) -> bool {
        let mut knows_all = true;
        for offer in offers {
            let connection = self.connections.get(&number).filter(|it| it.is_ready());
            let place = usize::from(offer.place);
            let Some(round) = connection.and_then(|it| it.rounds.get(place).copied()) else {
                continue;
            };
            if is_after(offer.round, round) {
                self.follow(number, place, offer.round);
            }
            if is_after(round, offer.round) {
                knows_all = false;
                continue;
            }
            self.change_way(number, place, offer, way);
            if let Err(error) = self.join(number, place, offer) {
                // The clock begins anew: at once it would be as often as the peer says it.
                tracing::debug!("stream {place} is not connected yet: {error}");
            } else {
                knows_all &= offer.is_used;
            }
        }
        knows_all
    }

    /// The peer has begun a round: what there is of an earlier one is of no use.
    fn follow(&mut self, number: u32, place: usize, round: u32) {
        self.stream_failed(number, place, Fault::Peer);
        let connected = |mend: &Mend| {
            let stream = mend.stream.as_ref();
            stream.is_some_and(|stream| stream.pair.state() != QueuePairState::Initialised)
        };
        if self.mend_of(number, place).is_some_and(|it| connected(it)) {
            self.replace(number, place);
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.rounds[place] = round;
        }
    }

    /// The peer has made a queue pair by another of its adapters, where a greeting came from: this
    /// end uses the one that it came to.
    fn change_way(
        &mut self,
        number: u32,
        place: usize,
        offer: &Offer,
        (here, there): (usize, usize),
    ) {
        let works = !self.rails[here].is_broken;
        let Some(mend) = self.mend_of(number, place) else {
            return;
        };
        let is_free = |stream: &Stream| stream.pair.state() == QueuePairState::Initialised;
        let has_moved = usize::from(offer.rail) == there && mend.rail_there != there;
        if !works || !has_moved || mend.rail == here || !mend.stream.as_ref().is_none_or(is_free) {
            return;
        }
        let left = core::mem::replace(&mut mend.rail, here);
        if mend.stream.is_some() {
            self.replace(number, place);
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.begin_doubt(left, place);
        }
    }

    /// Connects a place to the peer's queue pair of the same round, and uses it as soon as both
    /// ends are connected.
    fn join(&mut self, number: u32, place: usize, offer: &Offer) -> Result<(), VerbsError> {
        self.equip(number, place)?;
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(());
        };
        if connection.rounds[place] != offer.round {
            // The port has changed, and the next round has begun here.
            return Ok(());
        }
        let Some(mend) = connection.mend(place) else {
            return Ok(());
        };
        let Some(stream) = &mut mend.stream else {
            return Ok(());
        };
        if stream.pair.state() == QueuePairState::Initialised {
            stream.rail_there = offer.rail.into();
            let connected = stream.pair.connect(&offer.pair);
            (mend.rail_there, mend.in_turn) = (offer.rail.into(), false);
            if let Err(error) = connected {
                self.replace(number, place);
                return Err(error);
            }
        }
        if !offer.is_connected {
            return Ok(());
        }
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(());
        };
        let at = connection.mends.iter().position(|mend| mend.place == place);
        let mend = at.map(|at| connection.mends.swap_remove(at));
        connection.streams[place] = mend.and_then(|mend| mend.stream);
        tracing::debug!("stream {place} to peer {:#x} is made anew", connection.id);
        self.go_on(number);
        Ok(())
    }

    fn mend_of(&mut self, number: u32, place: usize) -> Option<&mut Mend> {
        self.connections.get_mut(&number)?.mend(place)
    }

    /// How long peers may be without any stream, and what is said of one that was for longer.
    pub(super) fn never_mended(&self) -> ConnectionFailure {
        let broken = self.rails.iter().filter(|rail| rail.is_broken);
        let broken = broken.map(|rail| rail.domain.context().name());
        let names: Vec<&str> = broken.collect();
        let why = format!(
            "no stream to it was made anew in {} ms, which LIMIC_VERBS_GREETING_MS allows",
            self.settings.greeting.as_millis()
        );
        if names.is_empty() {
            return ConnectionFailure::Lost(why);
        }
        let names = names.join(" and ");
        ConnectionFailure::Local(format!("{names} of this side has failed, and {why}"))
    }
}

impl Connection {
    fn mend(&mut self, place: usize) -> Option<&mut Mend> {
        self.mends.iter_mut().find(|mend| mend.place == place)
    }
}
