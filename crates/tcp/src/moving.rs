//! Messages go out, and come in.

use core::mem::MaybeUninit;
use std::os::fd::AsFd;

use limic_fabric::{ConnectionFailure, ConnectionId, Event, Form, Inbox, SendRefused};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::connection::Stage;
use crate::fabric::{CONNECTION, LISTENER, STRANGER, TcpFabric};
use crate::record::{self, HEADER, LONGEST};

/// Bytes that are read at a time: the longest record fits, and what is behind it.
const READ: usize = 128 << 10;
/// Bytes of messages that travel together.
const TOGETHER: usize = 64 << 10;
/// Polls between two questions to the event set, and reads, while one connection brings messages.
const ASK_EVERY: u32 = 4;
/// The same without any connection: the endpoint's own event set tells of a call.
const ASK_IDLE: u32 = 64;
/// Polls between two looks at the clock.
const CLOCK_EVERY: u32 = 64;
/// Events that are taken at a time.
const EVENTS: usize = 64;

impl TcpFabric {
    /// Sends a message, or lets it wait for those that follow.
    pub(crate) fn write_message(
        &mut self,
        number: u32,
        form: Form,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendRefused> {
        let len = form.len as usize;
        if len > LONGEST {
            return Err(SendRefused::TooLong { len, most: LONGEST });
        }
        let Some(connection) = self.connection(number) else {
            return Err(SendRefused::Later);
        };
        match &connection.stage {
            Stage::Ready => {}
            Stage::Over(why) => return Err(SendRefused::Failed(why.clone())),
            _ => return Err(SendRefused::Later),
        }
        // What the socket does not take is kept, and nothing is put behind it: so little is kept.
        if connection.blocked || connection.broken.is_some() {
            connection.refused = true;
            self.note_held(number);
            return Err(SendRefused::Later);
        }
        let together = connection.out.len() + HEADER + len <= TOGETHER;
        if !connection.out.is_empty() && !together {
            self.flush(number);
            return self.write_message(number, form, fill);
        }
        let room = connection.out.add(HEADER + len);
        let (head, payload) = room.split_at_mut(HEADER);
        head.copy_from_slice(&record::header(form));
        fill(payload);
        self.counts.messages += 1;
        self.flush_unless_corked(number);
        Ok(())
    }

    fn flush_unless_corked(&mut self, number: u32) {
        if self.connection(number).is_some_and(|c| c.corked) {
            self.note_held(number);
        } else {
            self.flush(number);
        }
    }

    /// Writes what waits, as far as the socket takes it.
    pub(crate) fn flush(&mut self, number: u32) {
        let Some(connection) = self.connection(number) else {
            return;
        };
        let Some(socket) = connection.socket.as_ref() else {
            return;
        };
        if connection.out.is_empty() || connection.broken.is_some() {
            return;
        }
        let was_blocked = connection.blocked;
        match connection.out.write(socket.as_fd()) {
            Ok(all) => {
                connection.blocked = !all;
                connection.refused &= !all;
            }
            Err(error) => {
                // What the peer has sent before can be read still; then the connection ends.
                connection.broken = Some(error.to_string());
                connection.blocked = false;
                connection.out.clear();
                self.list(number);
            }
        }
        let blocked = self.connection(number).is_some_and(|c| c.blocked);
        if blocked != was_blocked {
            let more = if blocked {
                EventFlags::OUT
            } else {
                EventFlags::empty()
            };
            self.watch_for(number, EventFlags::IN | more);
        }
        self.counts.packets += 1;
        self.note_held(number);
    }

    /// Keeps count of the connections that hold messages. Who has more for a peer than its socket
    /// takes has to call again in any case, and other calls do not wait for that peer.
    pub(crate) fn note_held(&mut self, number: u32) {
        let Some(connection) = self.connection(number) else {
            return;
        };
        let holds = connection.is_ready() && !connection.out.is_empty() && !connection.refused;
        let held = core::mem::replace(&mut connection.holds, holds);
        self.holding = self.holding + u32::from(holds) - u32::from(held);
    }

    /// A connection is to be read.
    fn list(&mut self, number: u32) {
        let Some(connection) = self.connection(number) else {
            return;
        };
        if !core::mem::replace(&mut connection.listed, true) {
            self.readable.push_back(number);
        }
    }

    /// The next event; the messages of one are in the inbox.
    pub(crate) fn take_next(&mut self, inbox: &mut Inbox) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        // A connection that always has more does not keep the others from being seen.
        if self.readable.is_empty() || self.reads >= ASK_EVERY {
            self.look();
        }
        while let Some(number) = self.readable.pop_front() {
            if self.read(number, inbox) {
                return Some(Event::Messages);
            }
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
        }
        self.events.pop_front()
    }

    /// Looks where something is to be read.
    fn look(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        if self.turn % CLOCK_EVERY == 0 {
            self.look_at_the_clock();
        }
        let strangers = self.strangers.iter().any(Option::is_some);
        let every = match self.hot {
            _ if self.noticed || strangers || self.beginning > 0 => 1,
            _ if self.reads >= ASK_EVERY => 1,
            _ if self.alive == 0 => ASK_IDLE,
            Some(_) => ASK_EVERY,
            None => 1,
        };
        if self.turn % every == 0 {
            self.noticed = false;
            self.ask();
        } else if let Some(hot) = self.hot {
            self.list(hot);
        }
    }

    /// Asks the event set.
    fn ask(&mut self) {
        self.reads = 0;
        let mut ready = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        let now = Timespec::default();
        let Ok((ready, _)) = epoll::wait(&self.events_set, &mut ready[..], Some(&now)) else {
            return;
        };
        for event in ready.iter() {
            let (token, flags) = ({ event.data }.u64(), { event.flags });
            let low = token as u32;
            match token & !u64::from(u32::MAX) {
                STRANGER => self.listen_to(low as usize),
                CONNECTION => self.has_news(low, flags),
                _ if token == LISTENER => self.accept(),
                _ => {}
            }
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
                    self.flush(number);
                }
                if flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP) {
                    self.list(number);
                }
            }
            Some(Stage::Pausing(_) | Stage::Awaited(_) | Stage::Over(_)) | None => {}
        }
    }

    /// Reads a connection once. True if there are messages in the inbox.
    fn read(&mut self, number: u32, inbox: &mut Inbox) -> bool {
        let mut spare = core::mem::take(&mut self.spare);
        let Some(connection) = self.connection(number) else {
            self.spare = spare;
            return false;
        };
        connection.listed = false;
        let (true, Some(socket)) = (connection.is_ready(), &connection.socket) else {
            self.spare = spare;
            return false;
        };
        let have = connection.have;
        let mut bytes = if have > 0 {
            core::mem::take(&mut connection.input)
        } else {
            core::mem::take(&mut spare)
        };
        bytes.resize(READ, 0);
        let got = recv(socket.as_fd(), &mut bytes[have..], RecvFlags::empty());
        let broken = connection.broken.is_some();
        let whole = match got {
            Ok((_, got)) if got > 0 => have + got,
            // All that came before it broke has been read.
            Err(Errno::AGAIN) if broken => {
                self.spare = bytes;
                self.ended(number, None);
                return false;
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                // As it was.
                if have > 0 {
                    connection.input = bytes;
                } else {
                    spare = bytes;
                }
                self.spare = spare;
                return false;
            }
            ended => {
                self.spare = bytes;
                let why = ended.err().map(|error| (error, error.to_string()));
                self.ended(number, why);
                return false;
            }
        };
        inbox.begin(ConnectionId(number));
        let taken = match record::take(&bytes[..whole], inbox) {
            Ok(taken) => taken,
            Err(why) => {
                inbox.begin(ConnectionId(number));
                self.spare = bytes;
                self.fail(number, ConnectionFailure::Corrupt(why));
                return false;
            }
        };
        connection.have = whole - taken.bytes;
        if taken.bytes == 0 {
            // Not one whole record yet.
            connection.input = bytes;
            self.spare = spare;
        } else {
            core::mem::swap(inbox.bytes_mut(), &mut bytes);
            let rest = &inbox.bytes()[taken.bytes..whole];
            if !rest.is_empty() {
                let mut input = core::mem::take(&mut bytes);
                input.resize(READ, 0);
                input[..rest.len()].copy_from_slice(rest);
                connection.input = input;
            }
            // The larger one of the two that are left.
            self.spare = if spare.is_empty() { bytes } else { spare };
        }
        if taken.goodbye {
            self.fail(number, ConnectionFailure::Closed);
        } else if whole == READ || broken {
            // Mostly there is more; and a connection that is broken is read to its end.
            self.list(number);
        }
        self.hot = Some(number);
        self.reads += 1;
        !inbox.is_empty()
    }

    /// A connection has ended without a goodbye.
    fn ended(&mut self, number: u32, error: Option<(Errno, String)>) {
        let broken = self.connection(number).and_then(|c| c.broken.take());
        let why = match error {
            Some((Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH, text)) => {
                ConnectionFailure::Unreachable(text)
            }
            Some((_, text)) => ConnectionFailure::Lost(text),
            None => ConnectionFailure::Lost(broken.unwrap_or_else(|| "it ended".to_owned())),
        };
        self.fail(number, why);
    }
}
