//! Which connection is read next, and when the event set is asked.
//!
//! To ask the event set is a call of the kernel, and each message of a connection in it wakes it,
//! which costs the kernel time too. The next bytes mostly come over the connection that brought the
//! last ones: the hot one. So that one is read without a question, and if it goes on for long, it
//! leaves the set:
//!
//! | hot | what it means | what ends it |
//! |---|---|---|
//! | nobody | each look asks the event set | a connection brings something: watched |
//! | watched | it is read, and the set is asked now and then | many reads in a row: quiet |
//! | quiet | it is not in the set | another one brings something, a sleep, a full socket: watched |
//!
//! The end of the hot connection leaves nobody.
//!
//! - A quiet connection is read whenever the event set is asked, since that does not tell of it.
//!   Whoever sleeps asks for notice first (`arm`), which ends the quiet.
//! - `next_look` says how far the next poll looks. Notice of something makes it look at
//!   everything, and a read that took all that was there ends it at once, so that the caller has
//!   time for what came. The first goes before the second.
//! - `readable` holds the connections that are to be read, each once: its own mark, `listed`, says
//!   that it is there. A connection that is read is taken out first, and listed again if more may
//!   be there.

use core::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use limic_fabric::{Arrivals, ConnectionFailure, Event};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::called::VISIT;
use crate::connection::Stage;
use crate::fabric::{CONNECTION, LISTENER, STRANGER, TcpFabric};

/// Reads of one connection in a row after which it is watched no longer.
const QUIET_AFTER: u32 = 32;
/// Polls between two questions to the event set, and reads, while one of several connections brings
/// messages.
const ASK_EVERY: u32 = 4;
/// The same with one connection or none: the endpoint's own event set tells of a call.
const ASK_SELDOM: u32 = 64;
/// Polls between two looks at the clock.
const CLOCK_EVERY: u32 = 64;
/// Events that are taken at a time.
const EVENTS: usize = 64;

/// The connection that brought the last bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hot {
    Nobody,
    /// It is in the event set, and was read so many times in a row.
    Watched {
        number: u32,
        reads: u32,
    },
    /// It is not in the event set.
    Quiet {
        number: u32,
    },
}

impl Hot {
    pub(crate) fn number(self) -> Option<u32> {
        match self {
            Self::Nobody => None,
            Self::Watched { number, .. } | Self::Quiet { number } => Some(number),
        }
    }
}

/// How far the next poll looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// At what is to be read; at the event set when its turn has come.
    AsUsual,
    /// At the event set too: it may have news.
    Everything,
    /// At nothing but what is to be read: who has just been read to the end has nothing more, most
    /// likely.
    Readable,
}

impl TcpFabric {
    /// Watches the socket of a connection.
    ///
    /// # Errors
    /// The kernel has no room for it: nobody would read it.
    pub(crate) fn watch(
        &self,
        number: u32,
        socket: &OwnedFd,
        flags: EventFlags,
    ) -> Result<(), ConnectionFailure> {
        let data = EventData::new_u64(CONNECTION | u64::from(number));
        epoll::add(&self.events_set, socket, data, flags).map_err(|error| {
            let hint = "sysctl fs.epoll.max_user_watches";
            ConnectionFailure::Local(format!("a socket cannot be watched: {error} ({hint}?)"))
        })
    }

    /// Watches a connection for what it waits for now.
    pub(crate) fn watch_anew(&mut self, number: u32) {
        if self.hot == (Hot::Quiet { number }) {
            return self.watch_hot();
        }
        let Some(connection) = self.at(number) else {
            return;
        };
        if let Some(socket) = connection.socket.as_ref() {
            let data = EventData::new_u64(CONNECTION | u64::from(number));
            // It fails only for a socket that is not in the set.
            let _ = epoll::modify(&self.events_set, socket, data, connection.waits_for());
        }
    }

    /// A connection has been read, and there was something. `more`: most likely there is more.
    pub(crate) fn was_read(&mut self, number: u32, more: bool) {
        if self.next_look != Look::Everything {
            self.next_look = if more { Look::AsUsual } else { Look::Readable };
        }
        self.reads += 1;
        if self.hot.number() != Some(number) {
            self.watch_hot();
            self.hot = Hot::Watched { number, reads: 0 };
        }
        let Hot::Watched { reads, .. } = &mut self.hot else {
            return;
        };
        *reads = reads.saturating_add(1);
        if *reads < QUIET_AFTER {
            return;
        }
        // One that is blocked waits for the event set.
        let connection = self.at(number).filter(|connection| !connection.blocked);
        if let Some(socket) = connection.and_then(|c| c.socket.as_ref()) {
            if epoll::delete(&self.events_set, socket).is_ok() {
                self.hot = Hot::Quiet { number };
            }
        }
    }

    /// The event set tells of everything from now on.
    pub(crate) fn watch_hot(&mut self) {
        let Some(number) = self.hot.number() else {
            return;
        };
        let before = core::mem::replace(&mut self.hot, Hot::Watched { number, reads: 0 });
        if !matches!(before, Hot::Quiet { .. }) {
            return;
        }
        let connection = self.at(number);
        let socket = connection.and_then(|c| Some((c.socket.as_ref()?, c.waits_for())));
        let watched = socket.map(|(socket, flags)| self.watch(number, socket, flags));
        if let Some(Err(why)) = watched {
            self.fail(number, why);
        }
    }

    /// A connection is to be read.
    pub(crate) fn list(&mut self, number: u32) {
        let Some(connection) = self.connection(number) else {
            return;
        };
        if !core::mem::replace(&mut connection.listed, true) {
            self.readable.push_back(number);
        }
    }

    /// The next event; the messages of one are in `arrivals`.
    pub(crate) fn take_next(&mut self, arrivals: &mut Arrivals) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if self.next_look == Look::Readable {
            self.next_look = Look::AsUsual;
            if self.readable.is_empty() {
                return None;
            }
        }
        // A connection that always has more does not keep the others from being seen.
        if self.readable.is_empty() || self.reads >= self.ask_every() {
            self.look();
        }
        while let Some(number) = self.readable.pop_front() {
            if self.read(number, arrivals) {
                return Some(Event::Messages);
            }
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
        }
        self.events.pop_front()
    }

    /// Polls between two questions to the event set.
    fn ask_every(&self) -> u32 {
        if self.connections.len() > 1 {
            ASK_EVERY
        } else {
            ASK_SELDOM
        }
    }

    /// Looks where something is to be read.
    fn look(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        if self.turn % CLOCK_EVERY == 0 {
            self.look_at_the_clock();
        }
        let strangers = self.strangers.iter().any(Option::is_some);
        let hot = self.hot.number();
        let waits = strangers || self.beginning + self.blocked > 0;
        let every = match self.next_look {
            Look::Everything => 1,
            _ if waits || self.reads >= self.ask_every() => 1,
            _ if hot.is_none() && !self.connections.is_empty() => 1,
            _ => self.ask_every(),
        };
        if self.turn % every == 0 {
            self.next_look = Look::AsUsual;
            self.ask();
        } else if let Some(hot) = hot {
            self.list(hot);
        }
    }

    /// Asks the event set.
    fn ask(&mut self) {
        self.reads = 0;
        if let Hot::Quiet { number } = self.hot {
            self.list(number);
        }
        let mut ready = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        let now = Timespec::default();
        let Ok((ready, _)) = epoll::wait(&self.events_set, &mut ready[..], Some(&now)) else {
            return;
        };
        let before = self.unseen;
        // The kernel tells of each in turn: who always has news hides none of the others.
        self.unseen = match ready.len() {
            EVENTS => self.unseen.saturating_sub(EVENTS),
            _ => 0,
        };
        let mut more_call = false;
        for event in ready.iter() {
            let (token, flags) = ({ event.data }.u64(), { event.flags });
            let low = token as u32;
            match token & !u64::from(u32::MAX) {
                STRANGER => self.listen_to(low as usize),
                CONNECTION => self.has_news(low, flags),
                _ if token == LISTENER => more_call = self.accept(),
                _ => {}
            }
        }
        // The listener is one event, however many have called.
        if more_call {
            self.unseen = before.saturating_sub(VISIT);
        }
    }

    fn has_news(&mut self, number: u32, flags: EventFlags) {
        match self.connection(number).map(|c| &c.stage) {
            Some(Stage::Calling(_)) => self.connected(number),
            Some(Stage::Greeted { .. }) => {
                self.flush(number);
                self.answered(number);
            }
            Some(Stage::Ready) => {
                if flags.contains(EventFlags::OUT) {
                    self.has_room(number);
                }
                if flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP) {
                    self.list(number);
                }
            }
            Some(Stage::Pausing(_) | Stage::Awaited(_)) | None => {}
        }
    }
}
