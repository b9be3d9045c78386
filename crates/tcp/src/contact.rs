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
//! that was given up and comes late is known. A call that ends without an answer is made anew, and
//! so is one while the network is away.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use limic_fabric::{ConnectionFailure, ConnectionId, Event, Part};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::connection::{Connection, FIRST_PAUSE, Known, Stage};
use crate::fabric::{TcpFabric, place};
use crate::greeting::{Answer, Greeting, Heard, Verdict};
use crate::sockets;

/// Why a call has not begun.
enum NotBegun {
    /// The network is away: it may come back.
    Away(ConnectionFailure),
    Failed(ConnectionFailure),
}

impl From<ConnectionFailure> for NotBegun {
    fn from(why: ConnectionFailure) -> Self {
        Self::Failed(why)
    }
}

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
            if self.at(known.connection).is_some() {
                return Ok(known.connection);
            }
        }
        let now = Instant::now();
        let until = now + self.timeout;
        let (stage, socket) = match self.begin_call(self.next_number, at) {
            Ok(socket) => (Stage::Calling(until), Some(socket)),
            Err(NotBegun::Away(_)) => (Stage::Pausing(now), None),
            Err(NotBegun::Failed(why)) => return Err(why),
        };
        let mut connection = Connection::new(id, stage, socket);
        connection.at = Some(at);
        connection.until = Some(until);
        let number = self.enter(connection);
        let known = Known {
            secret,
            connection: number,
            attempt: before.map_or(0, |known| known.attempt) + 1,
            heard: before.map_or(0, |known| known.heard),
        };
        self.known.insert(id, known);
        Ok(number)
    }

    /// A socket that is being connected, and watched for a connection of this number.
    fn begin_call(&self, number: u32, at: SocketAddr) -> Result<OwnedFd, NotBegun> {
        let socket = sockets::call(at, self.from).map_err(|error| match error {
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
                let what = format!("a socket: {error} (ulimit -n?)");
                NotBegun::Failed(ConnectionFailure::Short(what))
            }
            _ => {
                let why = ConnectionFailure::Unreachable(format!("{at}: {error}"));
                if sockets::is_network_away(error) {
                    NotBegun::Away(why)
                } else {
                    NotBegun::Failed(why)
                }
            }
        })?;
        self.watch(number, &socket, EventFlags::OUT)?;
        Ok(socket)
    }

    /// A call has ended without a byte of an answer, or the peer has no room for it. The peer turns
    /// away whoever is silent between connecting and its greeting, as a caller that computes is. So
    /// the call is made anew, after a pause that doubles each time; all pauses together last as
    /// long as a call may.
    fn turned_away(&mut self, number: u32, why: ConnectionFailure) {
        let timeout = self.timeout;
        let Some(connection) = self.connection(number) else {
            return;
        };
        let pause = connection.pause_turned_away;
        if pause > timeout / 2 {
            return self.fail(number, why);
        }
        connection.pause_turned_away = 2 * pause;
        let end = Instant::now() + pause;
        connection.until = Some(end + timeout);
        self.pause_until(number, end);
    }

    /// The network was away when a call was made, or no descriptor was free. It is made anew until
    /// its time is over, and then once more: a caller that computes may not have looked meanwhile.
    fn not_made(&mut self, number: u32, why: ConnectionFailure) {
        let longest = self.timeout / 8;
        let Some(connection) = self.connection(number) else {
            return;
        };
        let Some(until) = connection.until else {
            return self.fail(number, why);
        };
        let pause = connection.pause_not_made;
        if pause == FIRST_PAUSE || matches!(why, ConnectionFailure::Short(_)) {
            tracing::warn!("a call over TCP is made anew: {why}");
        }
        connection.pause_not_made = pause.max((2 * pause).min(longest));
        self.pause_until(number, until.min(Instant::now() + pause));
    }

    /// Nothing of a call stays; it is made anew then.
    fn pause_until(&mut self, number: u32, end: Instant) {
        let Some(connection) = self.connection(number) else {
            return;
        };
        connection.stage = Stage::Pausing(end);
        connection.out.clear();
        let blocked = core::mem::take(&mut connection.blocked);
        connection.broken = None;
        let socket = connection.socket.take();
        self.blocked -= u32::from(blocked);
        if let Some(socket) = socket {
            self.close_socket(socket);
        }
    }

    /// The pause is over.
    pub(crate) fn call_again(&mut self, number: u32) {
        let (now, timeout) = (Instant::now(), self.timeout);
        let Some(connection) = self.connection(number) else {
            return;
        };
        let Some(at) = connection.at else {
            return;
        };
        // The last call has some time too.
        connection.until = connection.until.filter(|until| now < *until);
        let deadline = connection.until.unwrap_or(now + timeout / 4);
        let socket = match self.begin_call(number, at) {
            Ok(socket) => socket,
            Err(NotBegun::Away(why)) => return self.not_made(number, why),
            Err(NotBegun::Failed(why @ ConnectionFailure::Short(_))) => {
                // The address was not asked: its time begins anew, as at a first call.
                if let Some(connection) = self.connection(number) {
                    connection.until = Some(now + timeout);
                }
                return self.not_made(number, why);
            }
            Err(NotBegun::Failed(why)) => return self.fail(number, why),
        };
        let Some(connection) = self.connection(number) else {
            return;
        };
        connection.stage = Stage::Calling(deadline);
        connection.socket = Some(socket);
        let peer = connection.id;
        if let Some(known) = self.known.get_mut(&peer) {
            known.attempt += 1;
        }
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
        if let Some(error) = sockets::error_of(socket) {
            let why = ConnectionFailure::Unreachable(error.to_string());
            return if sockets::is_network_away(error) {
                self.not_made(number, why)
            } else {
                self.fail(number, why)
            };
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
        self.watch_anew(number);
        self.flush(number);
        // A caller that has computed for long is asked for a sign of life at once: were that the
        // first thing that comes to the peer's kernel, it might refuse the greeting behind it.
        let socket = self.at(number).and_then(|c| c.socket.as_ref());
        let prepared = socket.map(|socket| sockets::prepare(socket, timeout));
        if let Some(Err(error)) = prepared {
            return self.fail(number, ConnectionFailure::Unreachable(error.to_string()));
        }
        self.answered(number);
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
                Ok(Heard::Missing(more)) => {
                    let why = match hear(socket, answer, more) {
                        Ok(true) => continue,
                        Ok(false) => match connection.broken.take() {
                            Some(error) => error.to_string(),
                            None => return,
                        },
                        Err(why) => why,
                    };
                    if answer.is_empty() {
                        let why = ConnectionFailure::Unreachable(why);
                        return self.turned_away(number, why);
                    }
                    return self.fail(number, ConnectionFailure::Unreachable(why));
                }
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
            Verdict::Refused => {
                let why = "whoever is at its address is another endpoint, or has another secret";
                self.fail(number, ConnectionFailure::Unreachable(why.to_owned()));
            }
            Verdict::Full(limit) => {
                self.turned_away(number, ConnectionFailure::Local(limit.text()));
            }
            Verdict::MineStays => {
                connection.stage = Stage::Awaited(deadline);
                if let Some(socket) = connection.socket.take() {
                    self.close_socket(socket);
                }
            }
        }
    }
}

/// Reads at most `more` bytes. False: none are here.
pub(crate) fn hear(socket: &OwnedFd, said: &mut Vec<u8>, more: usize) -> Result<bool, String> {
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
