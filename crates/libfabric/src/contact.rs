//! Two endpoints meet: one calls, or both do at once.
//!
//! ```text
//! A  HELLO: its number and token   ->  B  knows A by it: ready
//! A  ready                         <-  B  WELCOME: its number and token
//! ```
//!
//! Who calls in the name of a peer with which there is a connection has to show its secret too. If
//! both call at once, each hears the other's HELLO, and so what it needs: one connection at each
//! side, whoever was first. A HELLO with another number than before is of a peer that has begun
//! anew.
//!
//! A call has no end as long as packets go to its peer: one that computes looks later. The HELLO is
//! said again now and then, which finds out whether anybody is there.

use limic_fabric::{ConnectionFailure, ConnectionId, Event, Part};
use limic_ofi_abi::fi_addr_t;

use crate::connection::{Connection, Outgoing, Remote};
use crate::fabric::OfiFabric;
use crate::packet::{Greeting, HEADER, Header, Kind};

/// Most endpoints that are known by their names: libfabric keeps them.
const MOST_NAMES: usize = 1 << 18;
/// Packets that wait for a peer, beyond which it gets no more answers to its calls.
const MOST_ANSWERS: usize = 8;
/// Connections with packets that wait, beyond which no more calls of others are taken: each has an
/// answer, which fills a packet.
const MOST_BLOCKED: usize = 1 << 14;

fn too_many() -> ConnectionFailure {
    ConnectionFailure::Local(format!("no more than {MOST_NAMES} endpoints are known"))
}

impl OfiFabric {
    /// Begins a connection, or gives the one that there is.
    pub(crate) fn call(
        &mut self,
        to: &Part,
        id: u64,
        secret: u64,
    ) -> Result<u32, ConnectionFailure> {
        if let Some(number) = self.known.get(&id) {
            return Ok(*number);
        }
        let address = self.address_of(to.place())?;
        let number = self.enter((id, secret), address)?;
        if let Err(why) = self.say_hello(number) {
            self.end(number, false);
            return Err(ConnectionFailure::Short(why));
        }
        Ok(number)
    }

    /// Calls the peer of a connection, or does so again: the same call twice is one.
    pub(crate) fn say_hello(&mut self, number: u32) -> Result<(), String> {
        let Some(connection) = self.at(number) else {
            return Ok(());
        };
        let greeting = Greeting {
            words: [connection.id, self.id, connection.token, self.secret],
            place: self.device.part.place().to_vec(),
            hello: self.hello.clone(),
        };
        let header = Header {
            kind: Kind::Hello,
            number,
            token: connection.secret,
            sequence: 0,
        };
        self.greet(number, header, &greeting)
    }

    /// The address of a place, which may be anything.
    fn address_of(&mut self, place: &[u8]) -> Result<fi_addr_t, ConnectionFailure> {
        let name = self.device.name_at(place).ok_or_else(|| {
            let why = "its address is none of this provider of libfabric";
            ConnectionFailure::Local(why.to_owned())
        })?;
        if let Some(address) = self.addresses.get(&name) {
            return Ok(*address);
        }
        if self.addresses.len() >= MOST_NAMES {
            return Err(too_many());
        }
        let address = self.device.insert(&name);
        let address = address.map_err(ConnectionFailure::Local)?;
        self.addresses.insert(name, address);
        Ok(address)
    }

    /// Adds a connection with an endpoint; gives its number.
    fn enter(
        &mut self,
        (id, secret): (u64, u64),
        address: fi_addr_t,
    ) -> Result<u32, ConnectionFailure> {
        if self.connections.len() >= MOST_NAMES {
            return Err(too_many());
        }
        let token = getrandom::u64()
            .map_err(|error| ConnectionFailure::Local(format!("no random numbers: {error}")))?;
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        let connection = Connection::new(id, secret, address, token);
        self.connections.insert(number, Box::new(connection));
        self.known.insert(id, number);
        Ok(number)
    }

    /// Queues a packet of the contact.
    fn greet(&mut self, number: u32, header: Header, greeting: &Greeting) -> Result<(), String> {
        let slot = self.device.take()?;
        let greeting = greeting.to_bytes();
        let len = HEADER + greeting.len();
        let room = self.device.pool.bytes(slot);
        room[..HEADER].copy_from_slice(&header.to_bytes());
        room[HEADER..len].copy_from_slice(&greeting);
        if let Some(connection) = self.connection(number) {
            connection.queue.push_back(Outgoing { slot, len });
        }
        self.flush(number);
        Ok(())
    }

    /// A HELLO has come, which may be anybody's.
    pub(crate) fn called(&mut self, header: Header, more: &[u8]) {
        let taken = self.take_call(header, more);
        if taken.is_none() {
            self.counts.refused += 1;
        }
    }

    fn take_call(&mut self, header: Header, more: &[u8]) -> Option<()> {
        let greeting = Greeting::from_bytes(more)?;
        let [to, from, token, secret] = greeting.words;
        if to != self.id || header.token != self.secret {
            return None;
        }
        let remote = Remote {
            number: header.number,
            token,
        };
        let before = self.known.get(&from).copied();
        if let Some(number) = before {
            let known = self.at(number)?;
            if known.secret != secret {
                return None;
            }
            if known.remote.is_some_and(|known| known != remote) {
                let why = "it calls anew".to_owned();
                self.fail(number, ConnectionFailure::Lost(why));
            }
        }
        let number = match self.known.get(&from) {
            Some(number) => *number,
            None => {
                // The caller calls again.
                if self.blocked.len() >= MOST_BLOCKED {
                    return None;
                }
                let address = self.address_of(&greeting.place);
                let entered = address.and_then(|to| self.enter((from, secret), to));
                let entered =
                    entered.inspect_err(|why| tracing::debug!("a call is not taken: {why}"));
                entered.ok()?
            }
        };
        let connection = self.at(number)?;
        if connection.queue.len() < MOST_ANSWERS {
            let answer = Greeting {
                words: [self.id, number.into(), connection.token, 0],
                place: Vec::new(),
                hello: self.hello.clone(),
            };
            let header = Header {
                kind: Kind::Welcome,
                number: remote.number,
                token: remote.token,
                sequence: 0,
            };
            self.greet(number, header, &answer).ok()?;
        }
        self.met(number, remote, greeting.hello);
        Some(())
    }

    /// A WELCOME has come over a connection whose token it shows.
    pub(crate) fn answered(&mut self, number: u32, more: &[u8]) {
        let greeting = Greeting::from_bytes(more);
        let Some(connection) = self.at(number) else {
            return;
        };
        let id = connection.id;
        let greeting = greeting.filter(|greeting| greeting.words[0] == id);
        match greeting.and_then(|greeting| Some((greeting.remote()?, greeting.hello))) {
            Some((remote, hello)) => self.met(number, remote, hello),
            None => {
                let why = "an answer of another endpoint".to_owned();
                self.fail(number, ConnectionFailure::Corrupt(why));
            }
        }
    }

    /// The peer of a connection is known.
    fn met(&mut self, number: u32, remote: Remote, hello: Vec<u8>) {
        let Some(connection) = self.connection(number) else {
            return;
        };
        connection.heard = true;
        match connection.remote {
            Some(known) if known == remote => {}
            Some(_) => {
                let why = "it has begun anew".to_owned();
                self.fail(number, ConnectionFailure::Lost(why));
            }
            None => {
                connection.remote = Some(remote);
                let peer = connection.id;
                self.events.push_back(Event::Connected {
                    connection: ConnectionId(number),
                    peer,
                    hello,
                });
                // What has overtaken the greeting.
                self.deliverable.push_back(number);
            }
        }
    }
}
