//! The first contact with a peer.

use std::collections::VecDeque;
use std::time::Instant;

use super::ConnectionFailure;
use super::clock::FIRST_PAUSE;
use super::connection::{Connection, Known, Stage, Stream};
use super::greeting::{Greeting, HELLO};
use super::{ConnectionId, Event, Fabric, FabricAddress, RailAddress, rail};
use crate::VerbsError;
use crate::objects::{Completion, QueuePairState};
use crate::packet::Sequence;

/// Peers that may be known; those without a connection are forgotten then.
const MOST_KNOWN: usize = 1 << 18;
impl Fabric {
    /// Connects to a peer, at the first call; the connection is ready with [`Event::Connected`], or
    /// over with [`Event::Failed`]. A peer whose connection failed is tried anew, by another one.
    ///
    /// # Errors
    /// [`VerbsError`] if this side cannot make its queue pairs.
    pub fn connect(
        &mut self,
        to: &FabricAddress,
        peer: u64,
        secret: u64,
    ) -> Result<ConnectionId, VerbsError> {
        let number = self.enter(to, peer, secret)?;
        self.greet_in_turn(number, 0);
        Ok(ConnectionId(number))
    }

    /// The number of the connection with a peer, made if there is none that lives.
    fn enter(&mut self, to: &FabricAddress, peer: u64, secret: u64) -> Result<u32, VerbsError> {
        if let Some(known) = self.known.get(&peer) {
            if self.connections.contains_key(&known.connection) {
                return Ok(known.connection);
            }
        }
        let number = self.next_number;
        let streams = self.streams_of(number)?;
        // The numbers of requests have room for so many.
        self.next_number = (number + 1) % (1 << 30);
        // What is over of the peer's stays over.
        let over = self.known.get(&peer).map_or(0, |known| known.over);
        if self.known.len() >= MOST_KNOWN {
            let lives = |known: &Known| self.connections.contains_key(&known.connection);
            self.known.retain(|_, known| lives(known));
        }
        let connection = number;
        self.known.insert(peer, Known { connection, over });
        let now = Instant::now();
        let connection = Connection {
            id: peer,
            secret,
            address: *to,
            stage: Stage::Greeting {
                since: now,
                // Who enters it greets at once.
                next: now + FIRST_PAUSE,
                tries: 1,
                unsent: None,
            },
            attempt: self.next_attempt(),
            heard: 0,
            hello: Vec::new(),
            mends: Vec::new(),
            rounds: vec![0; streams.len()],
            doubt: None,
            in_vain: 0,
            streams,
            packet_bytes: self.settings.packet_bytes,
            sequence: 0,
            last_sent: None,
            open: None,
            corked: false,
            again: VecDeque::new(),
            ring_out: None,
            ring_in: None,
            owes_pause: false,
            arrivals: Sequence::default(),
            last_received: None,
            received: 0,
            waiting: VecDeque::new(),
            turn: 0,
            heard_at: now,
            pinged_at: now,
        };
        self.connections.insert(number, Box::new(connection));
        Ok(number)
    }

    /// Queue pairs for a connection, not connected.
    fn streams_of(&mut self, number: u32) -> Result<Vec<Option<Stream>>, VerbsError> {
        let mut streams = Vec::new();
        for place in 0..usize::from(self.settings.streams) {
            match self.first_stream(number, place) {
                Ok(stream) => streams.push(Some(stream)),
                Err(error) => {
                    for stream in streams.into_iter().flatten() {
                        self.take_down(stream);
                    }
                    return Err(error);
                }
            }
        }
        Ok(streams)
    }

    /// A queue pair for a place: of the rail whose turn it is, or of another one if that has none.
    fn first_stream(&mut self, number: u32, place: usize) -> Result<Stream, VerbsError> {
        let mut refused = None;
        for rail in self.rails_in_order(place) {
            match self.new_stream(number, rail, 0) {
                Ok(stream) => return Ok(stream),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| rail::none_works(&self.rails)))
    }

    fn next_attempt(&mut self) -> u32 {
        // 0 says that none was heard.
        self.attempts = self.attempts.wrapping_add(1).max(1);
        self.attempts
    }

    /// The peer has lost what it had of a connection, and begins anew. One that was ready is over;
    /// else it is made anew here too, under its number.
    fn begins_anew(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if connection.is_ready() {
            let why = ConnectionFailure::Lost("the peer connects anew".to_owned());
            return self.end(number, why);
        }
        if let Some(known) = self.known.get_mut(&connection.id) {
            known.over = connection.heard;
        }
        self.greet_anew(number);
    }

    /// The next attempt to connect, with other queue pairs.
    pub(super) fn greet_anew(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        for stream in core::mem::take(&mut connection.streams)
            .into_iter()
            .flatten()
        {
            self.take_down(stream);
        }
        // The number is the same, but packets that came belong to what is over.
        for arrived in &mut self.arrived {
            arrived.connection.take_if(|it| *it == number);
        }
        let attempt = self.next_attempt();
        match self.streams_of(number) {
            Ok(streams) => {
                if let Some(connection) = self.connections.get_mut(&number) {
                    connection.streams = streams;
                    (connection.attempt, connection.heard) = (attempt, 0);
                }
            }
            Err(error) => self.end(number, ConnectionFailure::Local(error.to_string())),
        }
    }

    /// Greets by one of the ways: with two rails there are two, in turn.
    pub(super) fn greet_in_turn(&mut self, number: u32, turn: u32) {
        let Some(connection) = self.connections.get(&number) else {
            return;
        };
        let turn = turn as usize;
        let to = *connection.address.rail(turn);
        let rail = self.rails_from(turn).next();
        if let Some(rail) = rail {
            self.greet(number, rail, &to, false);
        }
    }

    /// Says who this is and whom it heard, from a rail to one of the peer's. One that asks is
    /// answered in any case.
    pub(super) fn greet(&mut self, number: u32, rail: usize, to: &RailAddress, asks: bool) {
        let address = self.address();
        let Some(connection) = self.connections.get(&number) else {
            return;
        };
        let mut streams = connection.offers();
        if streams.is_empty() {
            // That would be a refusal.
            return;
        }
        for offer in &mut streams {
            offer.is_used &= !asks;
        }
        let greeting = Greeting {
            to: connection.id,
            secret: connection.secret,
            from: self.id,
            attempt: connection.attempt,
            address,
            via: rail as u8,
            answer_secret: self.secret,
            ready: connection.is_ready(),
            heard: connection.heard,
            packet_bytes: self.settings.packet_bytes,
            streams,
            hello: match connection.stage {
                Stage::Greeting { .. } => self.hello.clone(),
                Stage::Ready => self.sent_on(number).to_bytes(),
            },
        };
        let sent = self.rails[rail].greet(to, &greeting.to_bytes());
        let connection = self.connections.get_mut(&number);
        if let Some(Stage::Greeting { unsent, .. }) = connection.map(|it| &mut it.stage) {
            *unsent = sent.err();
        }
    }

    /// Says that nothing comes of the peer's attempt, and why.
    fn refuse(&mut self, greeting: &Greeting, rail: usize, why: &str) {
        let refusal = Greeting {
            to: greeting.from,
            secret: greeting.answer_secret,
            from: self.id,
            attempt: self.next_attempt(),
            address: self.address(),
            via: rail as u8,
            answer_secret: self.secret,
            ready: false,
            heard: greeting.attempt,
            packet_bytes: 0,
            streams: Vec::new(),
            hello: why.bytes().take(HELLO).collect(),
        };
        let sent = self.rails[rail].greet(greeting.sender(), &refusal.to_bytes());
        if let Err(error) = sent {
            tracing::debug!("a refusal was not sent: {error}");
        }
    }

    /// The peer says that nothing comes of an attempt.
    fn refused(&mut self, greeting: &Greeting) {
        let Some(Known { connection, .. }) = self.known.get(&greeting.from).copied() else {
            return;
        };
        let meant = self.connections.get(&connection);
        let Some(meant) = meant.filter(|meant| meant.attempt == greeting.heard) else {
            return;
        };
        let why = format!("it refuses: {}", String::from_utf8_lossy(&greeting.hello));
        let why = match meant.stage {
            Stage::Greeting { .. } => ConnectionFailure::Local(why),
            Stage::Ready => ConnectionFailure::Lost(why),
        };
        self.end(connection, why);
    }

    /// A request of a rail's datagram queue is over.
    pub(super) fn datagram_completed(&mut self, rail: usize, completion: &Completion) {
        let mut bytes = core::mem::take(&mut self.scratch);
        self.rails[rail].greeter.completed(completion, &mut bytes);
        if let Some(greeting) = Greeting::from_bytes(&bytes) {
            self.greeted(&greeting, rail);
        }
        self.scratch = bytes;
    }

    /// A greeting came. Anybody can send one, so nothing is believed without the secret.
    fn greeted(&mut self, greeting: &Greeting, rail: usize) {
        let stranger = greeting.to != self.id || greeting.secret != self.secret;
        if stranger || greeting.from == self.id || greeting.attempt == 0 {
            return;
        }
        if greeting.streams.is_empty() {
            return self.refused(greeting);
        }
        if let Some(known) = self.known.get(&greeting.from).copied() {
            let connection = self.connections.get(&known.connection);
            let heard = connection.map_or(0, |connection| connection.heard);
            let is_late = heard != 0 && is_after(heard, greeting.attempt)
                || known.over != 0 && !is_after(greeting.attempt, known.over);
            if is_late {
                // One that lives is greeted itself, and the peer learns by that.
                if connection.is_none() {
                    self.refuse(greeting, rail, "this attempt to connect is over");
                }
                return;
            }
            if heard != 0 && heard != greeting.attempt {
                self.begins_anew(known.connection);
            }
        }
        let number = match self.enter(&greeting.address, greeting.from, greeting.answer_secret) {
            Ok(number) => number,
            Err(error) => {
                tracing::warn!("peer {:#x} is refused: {error}", greeting.from);
                return self.refuse(greeting, rail, &error.to_string());
            }
        };
        match self.hear(number, greeting, rail) {
            Ok(true) => {}
            Ok(false) => self.greet(number, rail, greeting.sender(), false),
            Err(why) => {
                self.refuse(greeting, rail, &why);
                self.end(number, ConnectionFailure::Local(why));
            }
        }
    }

    /// Takes in what a greeting says: connects the queue pairs at the first one, and is ready when
    /// the peer has heard this side. True if the peer knows all of this side, so that no answer is
    /// needed.
    fn hear(&mut self, number: u32, greeting: &Greeting, rail: usize) -> Result<bool, String> {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(true);
        };
        // The answer to an attempt that is over names queue pairs which are connected to those of
        // that attempt. The peer learns of this attempt by the answer, and begins anew.
        if greeting.heard != 0 && greeting.heard != connection.attempt {
            return Ok(false);
        }
        // A port may have another address when it comes back.
        connection.address = greeting.address;
        if connection.heard == 0 {
            if greeting.streams.len() != connection.streams.len() {
                // It greets on until its time is over; no queue pairs are made for that again.
                connection.heard = greeting.attempt;
                return Err(format!(
                    "streams of one end are {} and of the other {} (LIMIC_VERBS_STREAMS)",
                    greeting.streams.len(),
                    connection.streams.len()
                ));
            }
            for (stream, offer) in connection.streams.iter_mut().zip(&greeting.streams) {
                let Some(stream) = stream else { continue };
                stream.rail_there = offer.rail.into();
                if stream.pair.state() == QueuePairState::Initialised {
                    stream
                        .pair
                        .connect(&offer.pair)
                        .map_err(|error| error.to_string())?;
                }
            }
            connection.heard = greeting.attempt;
            connection.hello.clone_from(&greeting.hello);
            connection.packet_bytes = greeting.packet_bytes.clamp(256, self.settings.packet_bytes);
        }
        let was_heard = greeting.heard == connection.attempt;
        if was_heard {
            self.becomes_ready(number);
        }
        let way = (rail, greeting.via.into());
        let knows_all = self.hear_streams(number, &greeting.streams, way);
        if greeting.ready {
            self.hear_sent(number, greeting);
            if !knows_all {
                self.ask_adapters(number);
            }
        }
        Ok(greeting.ready & knows_all)
    }

    /// The peer knows this side, by its greeting or by a packet. True if that is news.
    pub(super) fn becomes_ready(&mut self, number: u32) -> bool {
        let Some(connection) = self.connections.get_mut(&number) else {
            return false;
        };
        if !matches!(connection.stage, Stage::Greeting { .. }) || connection.heard == 0 {
            return false;
        }
        connection.stage = Stage::Ready;
        connection.heard_at = Instant::now();
        connection.pinged_at = connection.heard_at;
        self.events.push_back(Event::Connected {
            connection: ConnectionId(number),
            peer: connection.id,
            hello: connection.hello.clone(),
        });
        true
    }
}

/// Whether an attempt, or a round, came after another one.
pub(super) fn is_after(attempt: u32, other: u32) -> bool {
    attempt != other && attempt.wrapping_sub(other) <= u32::MAX / 2
}
