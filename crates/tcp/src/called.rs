//! Those who call, until they have said a greeting.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use limic_fabric::{ConnectionFailure, ConnectionId, Event};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags, accept_with, getpeername, send};

use crate::connection::{Connection, Known, Stage, Stranger};
use crate::contact::hear;
use crate::fabric::{LISTENER, STRANGER, TcpFabric};
use crate::greeting::{Answer, Greeting, Heard, Limit, Verdict};
use crate::sockets;

/// Connections without a greeting. The kernel keeps a caller until it says something, so mostly
/// only those wait here that say nothing.
const STRANGERS: usize = 64;
/// How long a stranger keeps its place though others wait for one. Then the one that has waited
/// longest goes.
const YOUNG: Duration = Duration::from_secs(1);
/// Calls that are accepted at a time.
pub(crate) const VISIT: usize = 64;
/// How long nobody is accepted after that has failed.
const PAUSE: Duration = Duration::from_millis(100);
/// Endpoints that may be known.
pub(crate) const MOST_KNOWN: usize = 1 << 18;
/// Connections that may have been made from one address and are not over.
pub(crate) const MOST_FROM_ONE_ADDRESS: usize = 4096;

impl TcpFabric {
    /// Accepts those who have called; true if there may be more of them.
    pub(crate) fn accept(&mut self) -> bool {
        for _ in 0..VISIT {
            if let Some(wait) = self.is_full_for() {
                self.accept_later(wait);
                return false;
            }
            let Some(listener) = &self.listener else {
                return false;
            };
            match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => self.receive_stranger(socket),
                Err(Errno::AGAIN) => return false,
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
                    self.accept_later(PAUSE);
                    return false;
                }
            }
        }
        true
    }

    /// How long no stranger gives its place to another one.
    fn is_full_for(&self) -> Option<Duration> {
        if !self.is_full() {
            return None;
        }
        let oldest = self.strangers.iter().flatten().map(|s| s.since).min()?;
        YOUNG.checked_sub(oldest.elapsed())
    }

    fn is_full(&self) -> bool {
        self.strangers.len() == STRANGERS && self.strangers.iter().all(Option::is_some)
    }

    /// Calls wait in the kernel for so long, or until a stranger leaves its place.
    fn accept_later(&mut self, wait: Duration) {
        if let Some(listener) = &self.listener {
            // It fails only for a socket that is not in the set.
            let _ = epoll::delete(&self.events_set, listener);
        }
        self.paused = Some(Instant::now() + wait);
    }

    /// A stranger leaves its place.
    fn take_stranger(&mut self, place: usize) -> Option<Stranger> {
        let full = self.paused.is_some() && self.is_full();
        let stranger = self.strangers.get_mut(place)?.take();
        if full {
            self.accept_again();
        }
        stranger
    }

    /// Watches the listener again.
    pub(crate) fn accept_again(&mut self) {
        self.paused = None;
        if let Some(listener) = &self.listener {
            let data = EventData::new_u64(LISTENER);
            if epoll::add(&self.events_set, listener, data, EventFlags::IN).is_err() {
                self.paused = Some(Instant::now() + PAUSE);
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
                // Its greeting may have come meanwhile.
                self.listen_to(oldest);
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
        if let Some(stranger) = self.take_stranger(place) {
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

    /// Somebody who calls is told why it is not let in.
    fn refuse(&mut self, place: usize, greeting: &Greeting, verdict: Verdict, why: &str) {
        let answer = Answer {
            verdict,
            from: greeting.to,
            secret: greeting.answer_secret,
            attempt: 0,
            hello: Vec::new(),
        };
        if let Some(Some(stranger)) = self.strangers.get(place) {
            // Where there is no room, the caller finds out by its limit.
            let _ = send(&stranger.socket, &answer.to_bytes(), SendFlags::NOSIGNAL);
        }
        self.send_away(place, why);
    }

    /// Forgets endpoints whose connection is over, if all names are taken: a quarter of them, since
    /// that is a look at all, and those first that were connected first. One that comes back is new
    /// here. Living ones keep their names, which nobody takes who has not their secret.
    fn forget_gone(&mut self) {
        if self.known.len() < MOST_KNOWN {
            return;
        }
        let connections = &self.connections;
        let is_gone = |known: &Known| !connections.contains_key(&known.connection);
        let gone = self.known.values().filter(|known| is_gone(known));
        let mut gone: Vec<u32> = gone.map(|known| known.connection).collect();
        if gone.is_empty() {
            return;
        }
        let last = gone.len() / 4;
        let (_, last, _) = gone.select_nth_unstable(last);
        let last = *last;
        self.known
            .retain(|_, known| known.connection > last || !is_gone(known));
    }

    /// Somebody has said a greeting. Whoever does not know the secret is believed nothing.
    fn greeted(&mut self, place: usize, greeting: Greeting) {
        if (greeting.to, greeting.secret) != (self.id, self.secret) || greeting.from == self.id {
            // Its address of that one may be old: it does not call again.
            let why = "it called another endpoint, or has not its secret";
            return self.refuse(place, &greeting, Verdict::Refused, why);
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
                Some(Stage::Calling(_) | Stage::Pausing(_) | Stage::Awaited(_)) => {
                    instead = Some(known.connection);
                }
                // It would not call again if the connection was any good.
                Some(Stage::Ready) => {
                    let why = ConnectionFailure::Lost("it has connected anew".to_owned());
                    self.fail(known.connection, why);
                }
                None => {}
            }
        }
        if before.is_none() {
            self.forget_gone();
            if self.known.len() >= MOST_KNOWN {
                let verdict = Verdict::Full(Limit::Known);
                return self.refuse(place, &greeting, verdict, "too many endpoints have called");
            }
        }
        let Some(from) = self.caller(place) else {
            return self.send_away(place, "it has gone");
        };
        if instead.is_none() && self.has_many_from(from) {
            let (verdict, why) = (
                Verdict::Full(Limit::FromAddress),
                "its address has called often",
            );
            return self.refuse(place, &greeting, verdict, why);
        }
        let Some(stranger) = self.take_stranger(place) else {
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
        if !said || sockets::prepare(&socket, self.timeout).is_err() {
            return self.close_socket(socket);
        }
        if mine_stays {
            // The peer ends the connection, when it has read the answer.
            let _ = epoll::delete(&self.events_set, &socket);
            return;
        }
        let mut taken = Connection::new(greeting.from, Stage::Ready, Some(socket));
        taken.from = Some(from);
        self.take_call(taken, &greeting, instead, before);
    }

    /// From where a stranger calls; `None` if it has gone.
    fn caller(&self, place: usize) -> Option<IpAddr> {
        let stranger = self.strangers.get(place)?.as_ref()?;
        let at = SocketAddr::try_from(getpeername(&stranger.socket).ok()??).ok()?;
        Some(at.ip().to_canonical())
    }

    /// Whether no more connections are taken from an address.
    fn has_many_from(&self, from: IpAddr) -> bool {
        // Mostly there are not so many of all.
        self.connections.len() >= MOST_FROM_ONE_ADDRESS && {
            let of_it = self.connections.values().filter(|c| c.from == Some(from));
            of_it.count() >= MOST_FROM_ONE_ADDRESS
        }
    }

    /// A call is taken: as a new connection, or in place of one that this side has begun.
    fn take_call(
        &mut self,
        mut taken: Connection,
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
        // Nothing of this side's own call stays.
        (taken.corked, taken.listed) = (connection.corked, connection.listed);
        let own = core::mem::replace(connection, taken);
        self.beginning -= 1;
        self.blocked -= u32::from(own.blocked);
        if let Some(own) = own.socket {
            self.close_socket(own);
        }
        self.watch_anew(number);
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
