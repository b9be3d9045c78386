//! The sockets of an endpoint: where it is found, and its connections to peers.
//!
//! # Invariants
//! - The event set watches the doorbell unless that is shut down, the listener unless it is paused,
//!   each connection that is not `unread`, and the peer's process of each.
//! - An index is another connection's only after the connection was removed.

mod paused;
mod visits;

use std::os::fd::{AsFd, OwnedFd};

use limic_shm::control::{
    ControlError, Doorbell, Event, EventSet, Listener, PidfdError, Socket, Trigger,
};
use limic_shm::idle::TimeShare;
use limic_shm::system::Instant;
use rustix::process::{Resource, geteuid, getrlimit};

use self::visits::{AT_ONCE, PARTS};
use super::greeting::Pending;
use crate::{Error, Result};

/// Calls that read one connection, one inside of the other: what a message says may lead to a look
/// at what is behind it, and a peer decides how many such messages there are.
const MOST_READERS: u8 = 3;

/// Descriptors that a connection takes: itself, its process, and the doorbell of its peer.
const DESCRIPTORS: usize = 3;
/// Connections that a process may have however few descriptors there are.
const FEW: usize = 32;

/// Tokens of the event set: the listener, the doorbell, then two for each connection.
const LISTENER: u64 = 0;
const DOORBELL: u64 = 1;
const FIRST: u64 = 2;
const NETWORK: u64 = u64::MAX;
pub(crate) const TIMER: u64 = u64::MAX - 1;

/// What the event set reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketEvent {
    /// Something to wake up for, and no more.
    Wake,
    /// A network has something to tell.
    Network,
    /// A connection wants to be accepted.
    Accept,
    /// A connection has something to read, or has ended.
    Readable(u32),
    /// The process of a connection's peer has ended.
    ProcessEnded(u32),
}

impl From<Event> for SocketEvent {
    fn from(event: Event) -> Self {
        match event.token {
            LISTENER => Self::Accept,
            DOORBELL | TIMER => Self::Wake,
            NETWORK => Self::Network,
            token => {
                let index = ((token - FIRST) / 2) as u32;
                if (token - FIRST) % 2 == 0 {
                    Self::Readable(index)
                } else {
                    Self::ProcessEnded(index)
                }
            }
        }
    }
}

/// A connection.
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    /// The peer at the other end, as soon as that is known.
    pub(crate) peer: Option<u32>,
    /// The number of the process at the other end; 0 for one of another namespace.
    pub(crate) pid: i32,
    /// The peer's process, if the kernel lets us watch it.
    pub(crate) pidfd: Option<OwnedFd>,
    /// No descriptor was free to watch it.
    unwatched: bool,
    /// The peer's process had ended, and was forgotten by the kernel, when the connection was made.
    died: bool,
    /// The other side said that it closes in good order.
    pub(crate) said_goodbye: bool,
    /// It is not watched for a while: no descriptor is free for those that its next message
    /// carries, or the kernel has no memory to watch it.
    unread: bool,
    /// How many calls are reading it, one inside of the other.
    readers: u8,
    /// Its greeting, while that waits.
    pub(crate) pending: Option<Box<Pending>>,
}

impl Connection {
    /// Whether the process at the other end ended before the connection was made.
    pub(crate) fn has_died(&self) -> bool {
        self.died
    }
}

/// The sockets of an endpoint.
pub(crate) struct Sockets {
    connections: Vec<Option<Connection>>,
    events: EventSet,
    event_buffer: Vec<Event>,
    listener: Listener,
    doorbell: Doorbell,
    /// A peer has shut the doorbell down, and nobody can ring any more.
    is_silenced: bool,
    /// What the endpoint sleeps on while it rests from visits to connections, once it has done so.
    quiet: Option<EventSet>,
    visits: TimeShare,
    /// The networks' descriptors, which are in the event sets.
    networks: Vec<OwnedFd>,
    /// Given up when no other descriptors are free for those that a peer sends.
    reserve_fds: Vec<OwnedFd>,
    /// The effective user when the endpoint was opened.
    user: u32,
    /// Since when no connection is accepted, or some messages are not read, if so.
    paused_since: Option<Instant>,
    /// The last connection was accepted, and read; if not, that was said.
    accept_ok: bool,
    /// The sockets are those of the process that this one was forked from.
    is_parents: bool,
    /// The last first contact met no limit of this process; if it did, that was said.
    connect_ok: bool,
}

impl Sockets {
    /// A listener under this id, and an event set that watches it, a doorbell and the networks.
    pub(crate) fn new(id: u64, networks: Vec<OwnedFd>) -> Result<Self> {
        let epoll = |error| Error::system("epoll", error);
        let listener = Listener::bind(id).map_err(|e| Error::system("listening socket", e))?;
        let events = EventSet::new().map_err(epoll)?;
        let doorbell = Doorbell::new().map_err(|e| Error::system("doorbell", e))?;
        doorbell.watch(&events, DOORBELL).map_err(epoll)?;
        events
            .add(listener.as_fd(), LISTENER, Trigger::Level)
            .map_err(epoll)?;
        for network in &networks {
            events
                .add(network.as_fd(), NETWORK, Trigger::Level)
                .map_err(epoll)?;
        }
        let mut sockets = Self {
            connections: Vec::new(),
            events,
            event_buffer: vec![Event::default(); 64],
            listener,
            doorbell,
            is_silenced: false,
            quiet: None,
            visits: TimeShare::new(PARTS, AT_ONCE, Instant::now()),
            networks,
            reserve_fds: Vec::new(),
            user: geteuid().as_raw(),
            paused_since: None,
            accept_ok: true,
            connect_ok: true,
            is_parents: false,
        };
        sockets.refill_reserve();
        Ok(sockets)
    }

    /// Closes this process's copies. The event set, which a fork does not copy, and what is said
    /// over the connections stay as they are.
    pub(crate) fn leave_to_parent(&mut self) {
        self.connections.clear();
        self.paused_since = None;
        self.is_parents = true;
    }

    /// The event set, to sleep on.
    pub(crate) fn events(&self) -> &EventSet {
        &self.events
    }

    /// This endpoint's doorbell, for its peers.
    pub(crate) fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }

    /// Whether nobody can ring: the endpoint has to look by itself.
    pub(crate) fn is_silenced(&self) -> bool {
        self.is_silenced
    }

    /// Takes the buffer back that [`wait`](Self::wait) gave.
    pub(crate) fn give_back(&mut self, events: Vec<Event>) {
        self.event_buffer = events;
    }

    /// Adds a connection; gives its index. One that cannot be watched is looked at now and then.
    pub(crate) fn add(&mut self, socket: Socket, peer: Option<u32>) -> u32 {
        let index = match self.connections.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.connections.push(None);
                self.connections.len() - 1
            }
        };
        let token = FIRST + 2 * index as u64;
        let watched = self.events.add(socket.as_fd(), token, Trigger::Level);
        if let Err(error) = &watched {
            tracing::warn!("a connection cannot be watched, and is looked at instead: {error}");
            self.paused_since.get_or_insert_with(Instant::now);
        }
        let pid = socket.credentials().map_or(0, |peer| peer.pid);
        let pidfd = self.pidfd_of(&socket);
        self.connections[index] = Some(Connection {
            socket,
            peer,
            pid,
            pidfd: None,
            unwatched: false,
            died: false,
            said_goodbye: false,
            unread: watched.is_err(),
            readers: 0,
            pending: None,
        });
        self.note_process(index as u32, pidfd);
        index as u32
    }

    /// What the kernel gave for the process at the other end of a connection, which is watched.
    fn note_process(&mut self, index: u32, pidfd: core::result::Result<OwnedFd, PidfdError>) {
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else {
            return;
        };
        connection.unwatched = paused::is_for_room(&pidfd);
        if connection.unwatched {
            self.paused_since.get_or_insert_with(Instant::now);
        }
        connection.died = matches!(pidfd, Err(PidfdError::Dead));
        connection.pidfd = pidfd.ok();
        if let Some(pidfd) = &connection.pidfd {
            let token = FIRST + 2 * u64::from(index) + 1;
            // Only a second way to learn of a death (a forked child may keep the socket open).
            let _ = self.events.add(pidfd.as_fd(), token, Trigger::Level);
        }
    }

    /// A call is about to read a connection. False: so many others are at that already, of which
    /// this one is a part, that it has to leave it to them.
    pub(crate) fn begin_reading(&mut self, index: u32) -> bool {
        let Some(connection) = self.get_mut(index) else {
            return false;
        };
        if connection.readers == MOST_READERS {
            return false;
        }
        connection.readers += 1;
        true
    }

    /// The call has read it. It may be another connection by now, which nobody reads.
    pub(crate) fn end_reading(&mut self, index: u32) {
        if let Some(connection) = self.get_mut(index) {
            connection.readers = connection.readers.saturating_sub(1);
        }
    }

    /// Takes a connection out.
    pub(crate) fn remove(&mut self, index: u32) -> Option<Connection> {
        let connection = self.connections.get_mut(index as usize)?.take()?;
        // Both fail only for descriptors that are not in the set.
        let _ = self.events.remove(connection.socket.as_fd());
        if let Some(pidfd) = &connection.pidfd {
            let _ = self.events.remove(pidfd.as_fd());
        }
        Some(connection)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Connection> {
        self.connections.get(index as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Connection> {
        self.connections.get_mut(index as usize)?.as_mut()
    }

    /// The number of the process at the other end of a connection; 0 for one of another namespace.
    pub(crate) fn pid_of(&self, index: u32) -> i32 {
        self.get(index).map_or(0, |connection| connection.pid)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().flatten()
    }

    /// Where a peer's connections are, oldest place first.
    pub(crate) fn of_peer(&self, peer: u32) -> Vec<u32> {
        self.indices_where(|connection| connection.peer == Some(peer))
    }

    /// Connections over which no greeting has come yet.
    pub(crate) fn ungreeted(&self) -> Vec<u32> {
        self.indices_where(|connection| connection.peer.is_none())
    }

    /// Of more than `most` connections without a greeting, one to do without, other than `newest`:
    /// of the process that has most of them. Others may just be slow.
    pub(crate) fn surplus_ungreeted(&self, most: usize, newest: u32) -> Option<u32> {
        let ungreeted = self.ungreeted();
        if ungreeted.len() <= most {
            return None;
        }
        let count = |index: &u32| {
            let same = |other: &&u32| self.pid_of(**other) == self.pid_of(*index);
            ungreeted.iter().filter(same).count()
        };
        let others = ungreeted.iter().filter(|index| **index != newest);
        others.copied().max_by_key(count)
    }

    /// Whether a process has so many connections, with `left` others that are over and left a
    /// descriptor here, that others may find none. The kernel gives no number
    /// to a process of another namespace, of which there may be many.
    pub(crate) fn is_over_share(&self, pid: i32, left: usize) -> bool {
        let its = self.iter().filter(|connection| connection.pid == pid);
        let count = its.count() + left;
        let limit = getrlimit(Resource::Nofile).current;
        let share = limit.map_or(usize::MAX, |limit| limit as usize / 2 / DESCRIPTORS);
        pid != 0 && count > share.max(FEW)
    }

    fn indices_where(&self, fits: impl Fn(&Connection) -> bool) -> Vec<u32> {
        let fits = |entry: &Option<Connection>| entry.as_ref().is_some_and(&fits);
        (0..self.connections.len() as u32)
            .filter(|index| fits(&self.connections[*index as usize]))
            .collect()
    }

    /// Why the process at the other end of a connection may not have this endpoint's memory, nor
    /// hand it any. Names of abstract sockets belong to no user: a process that knows the name of
    /// an endpoint that is gone can listen in its place.
    ///
    /// # Errors
    /// The kernel does not say who that is.
    pub(crate) fn foreign_user(
        &self,
        socket: &Socket,
    ) -> core::result::Result<Option<String>, ControlError> {
        let theirs = socket.credentials()?.uid;
        // A process that has changed its user since it opened the endpoint meets others that have
        // not yet.
        let ours = geteuid().as_raw();
        let is_foreign = theirs != ours && theirs != self.user;
        Ok(is_foreign.then(|| {
            format!(
                "a process of user {theirs} and one of user {ours} have met: all processes of a job \
                 have to be of one user"
            )
        }))
    }

    /// Whether something that a peer has handed over waits: for a free descriptor, for memory, or
    /// for an answer to its hello.
    pub(crate) fn has_unread(&self, peer: u32) -> bool {
        let mut connections = self.iter();
        connections.any(|connection| {
            let waits = connection.unread || connection.pending.is_some();
            waits && connection.peer == Some(peer)
        })
    }

    /// Whether the process at the other end of a connection ended before that was made.
    pub(crate) fn has_died(&self, index: u32) -> bool {
        self.get(index).is_some_and(Connection::has_died)
    }

    /// Whether a peer has said something that was not read, or its connection has ended.
    pub(crate) fn has_news(&self, peer: u32) -> bool {
        let mut connections = self.iter();
        connections.any(|it| it.peer == Some(peer) && it.socket.has_something())
    }

    /// A first contact met no limit of this process, or did; true if that is to be said.
    pub(crate) fn note_contact(&mut self, ok: bool) -> bool {
        core::mem::replace(&mut self.connect_ok, ok) && !ok
    }

    /// Whether a peer lives and has not closed, as far as its connections tell now.
    pub(crate) fn is_connected(&self, peer: u32) -> bool {
        let mut known = false;
        for connection in self.iter() {
            if connection.peer != Some(peer) {
                continue;
            }
            let pidfd = connection.pidfd.as_ref();
            if connection.said_goodbye || connection.socket.has_hung_up(pidfd) {
                return false;
            }
            known = true;
        }
        known
    }
}
