//! Two endpoints meet: one calls, or both do at once.
//!
//! ```text
//! A  connects, says a greeting  ->  B  knows A by it: ready
//! A  ready                      <-  B  answers
//! ```
//!
//! If both call at once, each has a greeting out and hears the other's. The call of the endpoint
//! with the smaller id stays: that one answers so, and the other takes its call in place of its
//! own. A call whose greeting is not out yet gives way in any case. Calls are counted, so that one
//! that was given up and comes late is known.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use limic_fabric::{ConnectionFailure, ConnectionId, Event, Part};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

use crate::connection::{Connection, Known, Stage, Stranger};
use crate::fabric::{STRANGER, TcpFabric, place};
use crate::greeting::{Answer, Greeting, Heard, Verdict};
use crate::sockets;

/// Connections without a greeting. Who calls says it at once, so only those wait that say nothing;
/// the one that has waited longest goes.
const STRANGERS: usize = 64;
/// Calls that are accepted at a time.
const VISIT: usize = 64;
/// How long nobody is accepted after that has failed.
const PAUSE: Duration = Duration::from_millis(100);

impl TcpFabric {
    /// Begins a connection, or gives the one that there is.
    pub(crate) fn call(
        &mut self,
        to: &Part,
        id: u64,
        secret: u64,
    ) -> Result<u32, ConnectionFailure> {
        let at = place(to)?;
        let before = self.known.get(&id).copied();
        if let Some(known) = before {
            let there_is = self.connection(known.connection);
            if there_is.is_some_and(|connection| !connection.is_over()) {
                return Ok(known.connection);
            }
        }
        let socket = sockets::call(at, self.from).map_err(|error| match error {
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
                ConnectionFailure::Local(format!("a socket: {error} (ulimit -n?)"))
            }
            _ => ConnectionFailure::Unreachable(format!("{at}: {error}")),
        })?;
        let deadline = Instant::now() + self.timeout;
        let number = self.enter(Connection::new(id, Stage::Calling(deadline), None));
        self.watch(number, &socket, EventFlags::OUT);
        if let Some(connection) = self.connection(number) {
            connection.socket = Some(socket);
        }
        let known = Known {
            secret,
            connection: number,
            attempt: before.map_or(0, |known| known.attempt) + 1,
            heard: before.map_or(0, |known| known.heard),
        };
        self.known.insert(id, known);
        Ok(number)
    }

    /// The socket of a call has news: it is connected, or nobody is there.
    pub(crate) fn connected(&mut self, number: u32) {
        let (id, secret, timeout) = (self.id, self.secret, self.timeout);
        let Some(connection) = self.connection(number) else {
            return;
        };
        let (peer, Some(socket)) = (connection.id, connection.socket.as_ref()) else {
            return;
        };
        let failed = sockets::error_of(socket).or_else(|| sockets::prepare(socket, timeout).err());
        if let Some(error) = failed {
            return self.fail(number, ConnectionFailure::Unreachable(error.to_string()));
        }
        let Some(known) = self.known.get(&peer).copied() else {
            return;
        };
        let greeting = Greeting {
            to: peer,
            secret: known.secret,
            from: id,
            answer_secret: secret,
            attempt: known.attempt,
            hello: self.hello.clone(),
        };
        let bytes = greeting.to_bytes();
        if let Some(connection) = self.connection(number) {
            connection.out.add(bytes.len()).copy_from_slice(&bytes);
            connection.stage = Stage::Greeted { answer: Vec::new() };
        }
        self.watch_for(number, EventFlags::IN);
        self.flush(number);
    }

    /// Something of the answer to a greeting has come.
    pub(crate) fn answered(&mut self, number: u32) {
        let secret = self.secret;
        loop {
            let Some(connection) = self.connection(number) else {
                return;
            };
            let peer = connection.id;
            let (Stage::Greeted { answer }, Some(socket)) =
                (&mut connection.stage, &connection.socket)
            else {
                return;
            };
            match Answer::from_bytes(answer) {
                Ok(Heard::Missing(more)) => match hear(socket, answer, more) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(why) => {
                        return self.fail(number, ConnectionFailure::Unreachable(why));
                    }
                },
                Ok(Heard::Whole(answer)) if answer.from == peer && answer.secret == secret => {
                    return self.judged(number, answer);
                }
                Ok(Heard::Whole(_)) => {
                    let why = "somebody else answers at its address".to_owned();
                    return self.fail(number, ConnectionFailure::Unreachable(why));
                }
                Err(why) => {
                    let why = format!("it answers with {why}");
                    return self.fail(number, ConnectionFailure::Local(why));
                }
            }
        }
    }

    fn judged(&mut self, number: u32, answer: Answer) {
        let deadline = Instant::now() + self.timeout;
        let Some(connection) = self.connection(number) else {
            return;
        };
        match answer.verdict {
            Verdict::Taken => {
                connection.stage = Stage::Ready;
                self.beginning -= 1;
                if let Some(known) = self.known.get_mut(&answer.from) {
                    known.heard = known.heard.max(answer.attempt);
                }
                self.events.push_back(Event::Connected {
                    connection: ConnectionId(number),
                    peer: answer.from,
                    hello: answer.hello,
                });
            }
            Verdict::MineStays => {
                connection.stage = Stage::Awaited(deadline);
                if let Some(socket) = connection.socket.take() {
                    self.close_socket(socket);
                }
            }
        }
    }

    /// Accepts those who have called.
    pub(crate) fn accept(&mut self) {
        for _ in 0..VISIT {
            let Some(listener) = &self.listener else {
                return;
            };
            match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => self.receive_stranger(socket),
                Err(Errno::AGAIN) => return,
                // Who called has gone already, or the network has.
                Err(
                    Errno::INTR
                    | Errno::CONNABORTED
                    | Errno::NETDOWN
                    | Errno::NETUNREACH
                    | Errno::HOSTUNREACH
                    | Errno::PROTO,
                ) => {}
                Err(error) => {
                    // Mostly no descriptor is free. The call would wake this endpoint all the time.
                    tracing::warn!("calls over TCP wait: {error} (ulimit -n?)");
                    let _ = epoll::delete(&self.events_set, listener);
                    self.paused = Some(Instant::now() + PAUSE);
                    return;
                }
            }
        }
    }

    fn receive_stranger(&mut self, socket: OwnedFd) {
        let place = match self.strangers.iter().position(Option::is_none) {
            Some(free) => free,
            None if self.strangers.len() < STRANGERS => {
                self.strangers.push(None);
                self.strangers.len() - 1
            }
            None => {
                let since = |place: &usize| self.strangers[*place].as_ref().map(|s| s.since);
                let oldest = (0..self.strangers.len()).min_by_key(since).unwrap_or(0);
                self.send_away(oldest, "it waited longest without a greeting");
                oldest
            }
        };
        self.strangers[place] = Some(Stranger {
            socket,
            said: Vec::new(),
            since: Instant::now(),
        });
        let stranger = self.strangers[place].as_ref();
        if let Some(stranger) = stranger {
            let data = EventData::new_u64(STRANGER | place as u64);
            let watched = epoll::add(&self.events_set, &stranger.socket, data, EventFlags::IN);
            if watched.is_err() {
                return self.send_away(place, "it cannot be watched");
            }
        }
        // Mostly the greeting is here already.
        self.listen_to(place);
    }

    /// Closes the connection of somebody who is not let in.
    pub(crate) fn send_away(&mut self, place: usize, why: &str) {
        if let Some(stranger) = self.strangers.get_mut(place).and_then(Option::take) {
            tracing::debug!("a call over TCP is turned away: {why}");
            self.counts.refused += 1;
            self.close_socket(stranger.socket);
        }
    }

    /// Something of a greeting has come.
    pub(crate) fn listen_to(&mut self, place: usize) {
        while let Some(Some(stranger)) = self.strangers.get_mut(place) {
            match Greeting::from_bytes(&stranger.said) {
                Ok(Heard::Missing(more)) => {
                    match hear(&stranger.socket, &mut stranger.said, more) {
                        Ok(true) => {}
                        Ok(false) => return,
                        Err(why) => return self.send_away(place, &why),
                    }
                }
                Ok(Heard::Whole(greeting)) => return self.greeted(place, greeting),
                Err(why) => return self.send_away(place, why),
            }
        }
    }

    /// Somebody has said a greeting. Whoever does not know the secret is believed nothing.
    fn greeted(&mut self, place: usize, greeting: Greeting) {
        if (greeting.to, greeting.secret) != (self.id, self.secret) || greeting.from == self.id {
            return self.send_away(place, "it called another endpoint, or has not its secret");
        }
        let before = self.known.get(&greeting.from).copied();
        let mut mine_stays = false;
        let mut instead = None;
        if let Some(known) = before {
            if known.secret != greeting.answer_secret {
                return self.send_away(place, "it is not the peer whose name it gives");
            }
            if greeting.attempt <= known.heard {
                return self.send_away(place, "a call that was given up");
            }
            match self.connection(known.connection).map(|c| &c.stage) {
                Some(Stage::Greeted { .. }) => {
                    mine_stays = self.id < greeting.from;
                    instead = Some(known.connection);
                }
                Some(Stage::Calling(_) | Stage::Awaited(_)) => instead = Some(known.connection),
                // It would not call again if the connection was any good.
                Some(Stage::Ready) => {
                    let why = ConnectionFailure::Lost("it has connected anew".to_owned());
                    self.fail(known.connection, why);
                }
                Some(Stage::Over(_)) | None => {}
            }
        }
        let Some(Some(stranger)) = self.strangers.get_mut(place).map(Option::take) else {
            return;
        };
        let socket = stranger.socket;
        let answer = Answer {
            verdict: if mine_stays {
                Verdict::MineStays
            } else {
                Verdict::Taken
            },
            from: self.id,
            secret: greeting.answer_secret,
            attempt: before.map_or(0, |known| known.attempt),
            hello: self.hello.clone(),
        };
        let bytes = answer.to_bytes();
        // A new socket has room for it.
        let said = send(&socket, &bytes, SendFlags::NOSIGNAL) == Ok(bytes.len());
        let _ = epoll::delete(&self.events_set, &socket);
        if mine_stays || !said || sockets::prepare(&socket, self.timeout).is_err() {
            return;
        }
        self.take_call(socket, &greeting, instead, before);
    }

    /// A call is taken: as a new connection, or in place of one that this side has begun.
    fn take_call(
        &mut self,
        socket: OwnedFd,
        greeting: &Greeting,
        instead: Option<u32>,
        before: Option<Known>,
    ) {
        let number = instead.unwrap_or_else(|| {
            let stage = Stage::Awaited(Instant::now());
            self.enter(Connection::new(greeting.from, stage, None))
        });
        let Some(connection) = self.connection(number) else {
            return;
        };
        let own = connection.socket.take();
        connection.out.clear();
        connection.blocked = false;
        connection.stage = Stage::Ready;
        self.beginning -= 1;
        if let Some(own) = own {
            self.close_socket(own);
        }
        self.watch(number, &socket, EventFlags::IN);
        if let Some(connection) = self.connection(number) {
            connection.socket = Some(socket);
        }
        self.note_held(number);
        self.known.insert(
            greeting.from,
            Known {
                secret: greeting.answer_secret,
                connection: number,
                attempt: before.map_or(0, |known| known.attempt),
                heard: greeting.attempt,
            },
        );
        self.events.push_back(Event::Connected {
            connection: ConnectionId(number),
            peer: greeting.from,
            hello: greeting.hello.clone(),
        });
    }
}

/// Reads at most `more` bytes. False: none are here.
fn hear(socket: &OwnedFd, said: &mut Vec<u8>, more: usize) -> Result<bool, String> {
    let start = said.len();
    said.resize(start + more, 0);
    let got = loop {
        match recv(socket.as_fd(), &mut said[start..], RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            got => break got,
        }
    };
    let got = got.map(|(_, got)| got);
    said.truncate(start + got.unwrap_or(0));
    match got {
        Ok(0) => Err("it ended the connection in place of an answer".to_owned()),
        Ok(_) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}
