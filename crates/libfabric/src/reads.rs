//! Long messages are read by their receivers, out of the memory of their senders.
//!
//! A provider can end a read before it is done in one way only, by the end of the whole endpoint.
//! So a connection that is over stays known until its last read has ended, well or not, and only
//! then an event tells of it: the memory is the caller's again. Who does not wait for events waits
//! a moment. If a read does not end within the time after which peers count as lost, the endpoint
//! is closed, with all connections.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use limic_fabric::{ConnectionFailure, ConnectionId, Event, RemoteRange, TransferError};

use crate::device::{Failure, Posted, Registration, Remote};
use crate::fabric::OfiFabric;

/// Reads of one peer that are under way at once: who does not look keeps nobody else from reading.
const SHARE: usize = 4;
/// Of what an endpoint has under way at once, this part is reads.
const PART: usize = 4;
/// Reads that are tried at one poll.
const TRIED: usize = 8;
/// How long the end of a connection waits for its reads where no event tells of it.
const MOMENT: Duration = Duration::from_secs(1);

/// A read that is not done.
#[derive(Debug)]
struct Read {
    token: u64,
    connection: u32,
    /// What is to be read next.
    remote: Remote,
    into: *mut u8,
    left: usize,
    /// Bytes that the provider reads now; 0: it waits for its turn.
    posted: usize,
    room: Option<Registration>,
}

// SAFETY: the memory is the read's alone until it has ended, whichever thread polls.
#[expect(unsafe_code, reason = "memory behind the borrow checker")]
unsafe impl Send for Read {}

/// A connection that is over, and has reads that are not.
#[derive(Debug)]
pub(crate) struct Ending {
    id: u64,
    why: ConnectionFailure,
    /// The look at the clock at which it was over.
    since: u32,
}

/// All reads.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    all: Vec<Option<Read>>,
    free: Vec<u32>,
    /// Those that wait for their turn.
    waiting: VecDeque<u32>,
    /// Those that the provider has.
    posted: usize,
}

impl Reads {
    fn add(&mut self, read: Read) {
        let number = self.free.pop().unwrap_or(self.all.len() as u32);
        if number as usize == self.all.len() {
            self.all.push(None);
        }
        self.all[number as usize] = Some(read);
        self.waiting.push_back(number);
    }

    fn get(&mut self, number: u32) -> Option<&mut Read> {
        self.all.get_mut(number as usize)?.as_mut()
    }

    fn remove(&mut self, number: u32) -> Option<Read> {
        let read = self.all.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(read)
    }

    /// Those that the provider has.
    pub(crate) fn posted(&self) -> usize {
        self.posted
    }

    pub(crate) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the provider has any of this connection.
    fn are_under_way(&self, connection: u32) -> bool {
        let of_it = |read: &Read| read.connection == connection && read.posted > 0;
        self.all.iter().flatten().any(of_it)
    }
}

impl OfiFabric {
    /// Lets peers read memory, until [`take_back`](Self::take_back).
    ///
    /// # Safety
    /// The memory stays until then.
    #[expect(unsafe_code, reason = "memory behind the borrow checker")]
    pub(crate) unsafe fn lend(
        &mut self,
        token: u64,
        start: *const u8,
        len: usize,
    ) -> Result<RemoteRange, String> {
        if self.longest_read == 0 {
            return Err("the provider has no remote reads".to_owned());
        }
        let range = match self.offered.get(&token) {
            Some((_, range)) => *range,
            None => {
                // SAFETY: the caller's promise.
                let (made, start, key) = unsafe { self.device.offer(start, len) }?;
                self.counts.registrations_made += 1;
                // No key is the highest one, and 0 says that there is none.
                let keys = key.wrapping_add(1);
                let range = RemoteRange { start, keys };
                self.offered.insert(token, (made, range));
                range
            }
        };
        Ok(range)
    }

    /// Peers read this no more.
    pub(crate) fn take_back(&mut self, token: u64) {
        if let Some((made, _)) = self.offered.remove(&token) {
            self.device.forget(made);
        }
    }

    /// Begins to read what a peer has offered.
    ///
    /// # Safety
    /// `into` has room for `len` bytes, which are the read's until the event that ends it, or until
    /// the connection is over.
    #[expect(unsafe_code, reason = "memory behind the borrow checker")]
    pub(crate) unsafe fn begin_read(
        &mut self,
        connection: u32,
        remote: RemoteRange,
        (into, len): (*mut u8, usize),
        token: u64,
    ) -> Result<(), String> {
        if self.longest_read == 0 {
            return Err("the provider has no remote reads".to_owned());
        }
        let peer = self.at(connection).map(|connection| connection.address);
        let peer = peer.ok_or("the connection is over")?;
        if len == 0 {
            let result = Ok(());
            self.events.push_back(Event::Transferred { token, result });
            return Ok(());
        }
        // SAFETY: the caller's promise; it is forgotten before the caller learns of the end.
        let room = unsafe { self.device.make_room(into, len) }?;
        self.counts.registrations_made += u64::from(room.is_some());
        let RemoteRange { start, keys } = remote;
        let key = keys.wrapping_sub(1);
        self.reads.add(Read {
            token,
            connection,
            remote: Remote { peer, start, key },
            into,
            left: len,
            posted: 0,
            room,
        });
        self.post_reads();
        Ok(())
    }

    /// Reads that wait are posted, as far as the provider takes them.
    pub(crate) fn post_reads(&mut self) {
        let most = (self.most_sends / PART).max(1);
        for _ in 0..self.reads.waiting.len().min(TRIED) {
            if self.reads.posted >= most {
                return;
            }
            let Some(number) = self.reads.waiting.pop_front() else {
                return;
            };
            match self.post_read(number) {
                Posted::Yes => {}
                Posted::Later => self.reads.waiting.push_back(number),
                Posted::Failed(why) => {
                    let read = self.reads.remove(number);
                    if let Some(connection) = read.map(|read| self.dismiss(&read)) {
                        self.lose(connection, why);
                    }
                }
            }
        }
    }

    /// Posts the next part of a read.
    #[expect(unsafe_code, reason = "memory behind the borrow checker")]
    fn post_read(&mut self, number: u32) -> Posted {
        let Some(read) = self.reads.get(number) else {
            return Posted::Yes;
        };
        let connection = self.connections.get_mut(&read.connection);
        let Some(connection) = connection.filter(|connection| connection.reading < SHARE) else {
            return Posted::Later;
        };
        let len = read.left.min(self.longest_read);
        // SAFETY: the room is the read's, which ends after its parts do.
        let posted = unsafe {
            let into = (read.into, len);
            self.device.post_read(number, read.remote, into, read.room)
        };
        if matches!(posted, Posted::Yes) {
            read.posted = len;
            connection.reading += 1;
            self.reads.posted += 1;
            self.counts.parts += 1;
        }
        posted
    }

    /// The provider is done with a part of a read.
    pub(crate) fn part_ended(&mut self, number: u32, result: Result<(), Failure>) {
        let Some(read) = self.reads.get(number) else {
            return;
        };
        let (len, of) = (core::mem::take(&mut read.posted), read.connection);
        if len == 0 {
            return;
        }
        read.left -= len;
        read.into = read.into.wrapping_add(len);
        read.remote.start = read.remote.start.wrapping_add(len as u64);
        let is_done = read.left == 0;
        self.reads.posted -= 1;
        let is_over = match self.connections.get_mut(&of) {
            Some(connection) => {
                connection.reading -= 1;
                connection.moved = true;
                false
            }
            None => true,
        };
        if !is_over && result.is_ok() && !is_done {
            return self.reads.waiting.push_front(number);
        }
        let Some(read) = self.reads.remove(number) else {
            return;
        };
        self.dismiss(&read);
        let token = read.token;
        match result {
            _ if is_over => self.end_if_quiet(of),
            Ok(()) => {
                let result = Ok(());
                self.events.push_back(Event::Transferred { token, result });
            }
            Err(Failure { error, .. }) if is_refusal(error) => {
                let result = Err(TransferError::Refused);
                self.events.push_back(Event::Transferred { token, result });
            }
            Err(Failure { why, .. }) => self.lose(of, why),
        }
    }

    /// The room of a read is the caller's again. Gives its connection.
    fn dismiss(&mut self, read: &Read) -> u32 {
        if let Some(room) = read.room {
            self.device.forget(room);
        }
        read.connection
    }

    /// A connection is over: its reads that were not posted are so too. True if there are others.
    pub(crate) fn end_reads(&mut self, connection: u32) -> bool {
        let mut waiting = core::mem::take(&mut self.reads.waiting);
        waiting.retain(|number| {
            let read = self.reads.get(*number);
            if read.is_some_and(|read| read.connection != connection) {
                return true;
            }
            if let Some(read) = self.reads.remove(*number) {
                self.dismiss(&read);
            }
            false
        });
        self.reads.waiting = waiting;
        self.reads.are_under_way(connection)
    }

    /// A connection is over that has reads under way: the event follows.
    pub(crate) fn tell_when_quiet(&mut self, number: u32, id: u64, why: ConnectionFailure) {
        // Nobody else is connected under its name meanwhile.
        self.known.insert(id, number);
        let since = self.walks;
        self.ending.insert(number, Ending { id, why, since });
    }

    fn end_if_quiet(&mut self, number: u32) {
        if self.reads.are_under_way(number) {
            return;
        }
        if let Some(Ending { id, why, .. }) = self.ending.remove(&number) {
            self.known.remove(&id);
            let connection = ConnectionId(number);
            self.events.push_back(Event::Failed { connection, why });
        }
    }

    /// A connection is over, and no event tells of it: waits until no read of it is under way.
    pub(crate) fn wait_until_quiet(&mut self, number: u32) {
        let until = Instant::now() + MOMENT;
        while self.reads.are_under_way(number) {
            if Instant::now() >= until {
                return self.close_endpoint();
            }
            self.look();
        }
    }

    /// Connections that are over for so many looks at the clock have reads that do not end.
    pub(crate) fn end_late_reads(&mut self, most: u32) {
        let late = |ending: &Ending| self.walks.wrapping_sub(ending.since) > most;
        if self.ending.values().any(late) {
            self.close_endpoint();
        }
    }

    /// Nothing writes memory of reads any more: the endpoint is closed, if there are any. It is not
    /// closed again if that fails, since it may be half gone.
    fn stop_reads(&mut self) {
        if self.reads.posted == 0 || self.device.close_endpoint() {
            return;
        }
        // The memory is the callers' from here on, who may borrow it to others, or unmap it.
        let text = b"limic: libfabric cannot close an endpoint that reads into memory: ended\n";
        let _ = rustix::io::write(std::io::stderr(), text);
        std::process::abort();
    }

    /// Reads that do not end otherwise end with the endpoint, and so does all else.
    fn close_endpoint(&mut self) {
        let why = "a read could not be ended otherwise than with the whole endpoint of libfabric";
        tracing::warn!("{why}: all its connections are over");
        self.stop_reads();
        for read in core::mem::take(&mut self.reads).all.iter().flatten() {
            self.dismiss(read);
        }
        let over: Vec<u32> = self.ending.keys().copied().collect();
        for number in over {
            self.end_if_quiet(number);
        }
        let all: Vec<u32> = self.connections.keys().copied().collect();
        for number in all {
            self.lose(number, why.to_owned());
        }
        // What was posted ends without a word.
        self.sending.give_up_all();
        for slot in core::mem::take(&mut self.unposted) {
            self.device.pool.give_back(slot);
        }
    }
}

impl Drop for OfiFabric {
    fn drop(&mut self) {
        self.stop_reads();
    }
}

/// Whether the peer's adapter has refused a read, over a connection that works.
fn is_refusal(error: i32) -> bool {
    [libc::EACCES, libc::EPERM, libc::EKEYREJECTED].contains(&error)
}
