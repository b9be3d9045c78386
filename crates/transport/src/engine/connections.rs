//! The socket connections to peers: begun, accepted, read, and ended. What is said over them is for `attach`. A connection
//! stays: its end tells that the peer is gone.

use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};

use limic_shm::control::{Channel, ControlError, MAX_MESSAGE, Received, Trigger};

use rustix::process::geteuid;

use super::Core;
use super::accepting::DEAF;
use super::greeting::{self, Greeting};
use crate::error::PeerFailure;

/// Tokens of the event set: the listener, the bell, then two for each channel.
pub(crate) const LISTENER: u64 = 0;
pub(crate) const BELL: u64 = 1;
pub(crate) const ADAPTER: u64 = u64::MAX;
pub(crate) const TIMER: u64 = u64::MAX - 1;
pub(crate) const FIRST: u64 = 2;

/// A connection.
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    /// Whose it is, as soon as that is known.
    pub(crate) peer: Option<u32>,
    /// The peer's process, if the kernel lets us watch it.
    pub(crate) pidfd: Option<OwnedFd>,
    /// The other side said that it closes in good order.
    pub(crate) said_goodbye: bool,
    /// It is not watched for a while: no descriptor is free for those that its next message carries.
    pub(crate) unheard: bool,
    /// Its hello, with what came with it, while that cannot be answered.
    pub(crate) unanswered: Option<Box<(Greeting, Vec<OwnedFd>)>>,
}

impl Core {
    /// Makes the first contact with a peer, or fails it.
    pub(crate) fn start_connection(&mut self, to: u32) {
        let Some(peer) = self.peers.get(to) else {
            return;
        };
        // With a link to itself an endpoint would have two ways for its messages to itself, and no order between them.
        if peer.failure.is_some() || peer.put_off || peer.address.id == self.address.id {
            return;
        }
        let address = peer.address;
        if self.remote.takes(&address) {
            return self.connect_remote(to);
        }
        if !address.is_local() {
            return self.fail_peer(to, PeerFailure::OtherNode);
        }
        match Channel::connect(address.id) {
            Ok(channel) => match self.stranger(&channel) {
                Some(why) => self.fail_peer(to, PeerFailure::Refused(why)),
                None => self.say_hello(to, channel),
            },
            Err(error) if error.is_temporary() => self.put_off(to, &error),
            Err(ControlError::NobodyListens { .. }) => self.fail_peer(to, PeerFailure::Unreachable),
            Err(error) => self.fail_peer(to, PeerFailure::Refused(error.to_string())),
        }
    }

    /// Why nobody at the other end of a channel may have this endpoint's memory, nor hand it any. Names of abstract sockets
    /// belong to no user: who knows that of an endpoint that is gone can listen in its place.
    pub(crate) fn stranger(&self, channel: &Channel) -> Option<String> {
        let theirs = match channel.credentials() {
            Ok(credentials) => credentials.uid,
            Err(error) => return Some(error.to_string()),
        };
        // A process that has changed its user since it opened the endpoint meets others that have not yet.
        let ours = geteuid().as_raw();
        (theirs != ours && theirs != self.user).then(|| {
            format!(
                "a process of user {theirs} and one of user {ours} have met: all of a job have to be of one user"
            )
        })
    }

    fn say_hello(&mut self, to: u32, channel: Channel) {
        if let Some(peer) = self.peers.get(to) {
            peer.connecting = true;
        }
        let Some(connection) = self.add_connection(channel, Some(to)) else {
            return self.endings.push((to, PeerFailure::Unreachable));
        };
        let hello = self.greeting(greeting::HELLO, to);
        match self.greet(connection, &hello) {
            Ok(()) => self.connects = true,
            Err(error) if error.is_temporary() => {
                self.drop_connection(connection);
                self.put_off(to, &error);
            }
            // It closed in between: fails, after its last records were read.
            Err(_) => self.ended(connection),
        }
    }

    /// The first contact with a peer that lives has to wait: the peer accepts nobody at the moment, or a limit of this process
    /// is reached.
    pub(crate) fn put_off(&mut self, to: u32, why: &ControlError) {
        let Some(peer) = self.peers.get(to) else {
            return;
        };
        peer.connecting = false;
        if !core::mem::replace(&mut peer.put_off, true) {
            self.waiting_to_connect.push(to);
        }
        let full = matches!(why, ControlError::BacklogFull { .. });
        if !full && core::mem::replace(&mut self.connects, false) {
            tracing::warn!("peer {to} cannot be met: {why}; tried again until it can");
            self.tally.reason(None, to, &why.to_string());
        }
    }

    /// Tries again what was put off.
    pub(crate) fn retry_connections(&mut self) {
        for to in core::mem::take(&mut self.waiting_to_connect) {
            let Some(peer) = self.peers.get(to) else {
                continue;
            };
            peer.put_off = false;
            let unknown = peer.link.is_none() && !peer.connecting;
            let mut answered = false;
            for index in self.connections_of(to) {
                if let Some(Some(connection)) = self.connections.get_mut(index as usize)
                    && let Some(unanswered) = connection.unanswered.take()
                {
                    let (hello, fds) = *unanswered;
                    self.answer(index, to, hello, fds);
                    answered = true;
                }
            }
            if unknown && !answered {
                self.start_connection(to);
            }
        }
    }

    /// Where a peer's connections are.
    pub(crate) fn connections_of(&self, peer: u32) -> Vec<u32> {
        let of_peer =
            |entry: &Option<Connection>| entry.as_ref().is_some_and(|c| c.peer == Some(peer));
        (0..self.connections.len() as u32)
            .filter(|index| of_peer(&self.connections[*index as usize]))
            .collect()
    }

    pub(crate) fn add_connection(&mut self, channel: Channel, peer: Option<u32>) -> Option<u32> {
        let index = match self.connections.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.connections.push(None);
                self.connections.len() - 1
            }
        };
        let token = FIRST + 2 * index as u64;
        if let Err(error) = self.events.add(channel.as_fd(), token, Trigger::Level) {
            tracing::warn!("a connection cannot be watched: {error}");
            return None;
        }
        let pidfd = channel.pidfd().ok();
        if let Some(pidfd) = &pidfd {
            // Only a second way to learn of a death (a forked child may keep the socket open).
            let _ = self.events.add(pidfd.as_fd(), token + 1, Trigger::Level);
        }
        self.connections[index] = Some(Connection {
            channel,
            peer,
            pidfd,
            said_goodbye: false,
            unheard: false,
            unanswered: None,
        });
        Some(index as u32)
    }

    pub(crate) fn drop_connection(&mut self, index: u32) {
        let Some(connection) = self
            .connections
            .get_mut(index as usize)
            .and_then(Option::take)
        else {
            return;
        };
        // Both fail only for descriptors that are not in the set.
        let _ = self.events.remove(connection.channel.as_fd());
        if let Some(pidfd) = connection.pidfd {
            let _ = self.events.remove(pidfd.as_fd());
            if let Some(peer) = connection.peer
                && !self.closed
            {
                self.arenas.outlived_by(peer, &pidfd);
                // Who has said goodbye is in the middle of nothing.
                if !connection.said_goodbye {
                    self.given_up.enter(peer, pidfd);
                }
            }
        }
    }

    /// Looks at the sockets once. True if anything happened.
    pub(crate) fn poll_events(&mut self, timeout: Option<Duration>) -> bool {
        if self.deaf_since.is_some_and(|since| since.elapsed() > DEAF) {
            self.deaf_since = None;
            self.hear_again();
            // If it cannot be watched, first contacts have to be made from this side.
            let _ = self
                .events
                .add(self.listener.as_fd(), LISTENER, Trigger::Level);
        }
        let mut events = core::mem::take(&mut self.event_buffer);
        let count = self.events.wait(timeout, &mut events).unwrap_or(0);
        // New connections last: they may get the index of one that ends in this round, for which there
        // may be two events.
        let mut accept = false;
        for event in &events[..count] {
            match event.token {
                LISTENER => accept = true,
                BELL | ADAPTER | TIMER => {}
                token if (token - FIRST).is_multiple_of(2) => {
                    self.read_connection(((token - FIRST) / 2) as u32);
                }
                token => self.process_ended(((token - FIRST) / 2) as u32),
            }
        }
        self.event_buffer = events;
        if count > 0 {
            // What it would wake up for is taken out of the set.
            self.poller.disturb();
        }
        if accept {
            self.accept_connections();
        }
        if !self.waiting_to_connect.is_empty() {
            self.retry_connections();
        }
        self.take_back_from_ended();
        count > 0
    }

    /// Reads the messages of a connection until there are none.
    pub(crate) fn read_connection(&mut self, index: u32) {
        let mut buffer = [0; MAX_MESSAGE];
        loop {
            let Some(Some(connection)) = self.connections.get_mut(index as usize) else {
                return;
            };
            match connection.channel.receive(&mut buffer) {
                Ok(Received::Message { len, fds }) => {
                    self.on_message(index, &buffer[..len], fds);
                    self.keep_spare();
                }
                Ok(Received::WouldBlock) => return,
                Ok(Received::Closed) | Err(ControlError::Closed) => return self.ended(index),
                // Those of a greeting and of an arena are needed for as long as it takes to map them.
                Err(ControlError::NoDescriptor) if !self.spare.is_empty() => self.spare.clear(),
                Err(error @ ControlError::NoDescriptor) => {
                    self.keep_spare();
                    return self.hear_later(index, &error);
                }
                Err(error) => {
                    tracing::warn!("a connection is given up: {error}");
                    // The peer lives, and learns it only now.
                    if let Some(peer) = connection.peer {
                        self.stop_writer(peer, true);
                    }
                    return self.ended(index);
                }
            }
        }
    }

    /// A connection ended.
    pub(crate) fn ended(&mut self, index: u32) {
        let Some(Some(connection)) = self.connections.get(index as usize) else {
            return;
        };
        let (peer, mut goodbye) = (connection.peer, connection.said_goodbye);
        self.drop_connection(index);
        let Some(peer) = peer else { return };
        // Where both sides made the first contact at once, it may have closed before it accepted this connection, and has said
        // goodbye over the other one.
        let others = if goodbye {
            Vec::new()
        } else {
            self.connections_of(peer)
        };
        for other in others {
            self.read_connection(other);
            let other = self.connections.get(other as usize);
            let other = other.and_then(Option::as_ref);
            goodbye |= other.is_some_and(|other| other.peer == Some(peer) && other.said_goodbye);
        }
        // The index may soon be another connection's.
        if let Some(link) = self.peers.link(peer) {
            link.channels.retain(|channel| *channel != index);
        }
        let why = if goodbye {
            PeerFailure::Closed
        } else {
            PeerFailure::Died
        };
        self.has_ended(peer, why);
    }

    /// Enters that a peer is gone, if nothing of its other connection has said so.
    pub(crate) fn has_ended(&mut self, peer: u32, why: PeerFailure) {
        if self.endings.iter().all(|(ended, _)| *ended != peer) {
            self.endings.push((peer, why));
        }
    }

    /// A peer's process ended, though its socket may live on in a child.
    fn process_ended(&mut self, index: u32) {
        self.read_connection(index);
        self.ended(index);
    }

    /// Whether a peer lives and has not closed, as far as its connections tell now.
    #[cfg(feature = "cma")]
    pub(crate) fn is_connected(&self, peer: u32) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let mut known = false;
        for connection in self.connections.iter().flatten() {
            if connection.peer != Some(peer) {
                continue;
            }
            if connection.said_goodbye {
                return false;
            }
            known = true;
            let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
            let pidfd = connection.pidfd.as_ref();
            let mut fds: Vec<_> = pidfd
                .map(|fd| PollFd::new(fd, PollFlags::IN))
                .into_iter()
                .collect();
            fds.push(PollFd::new(&connection.channel, PollFlags::RDHUP));
            if poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
                && fds
                    .iter()
                    .any(|fd| fd.revents().intersects(gone | PollFlags::IN))
            {
                return false;
            }
        }
        known
    }

    /// Tells all peers that this endpoint closes in good order. Nothing is written into their memory from now on: they may give
    /// it to others.
    pub(crate) fn say_goodbye(&mut self) {
        for peer in 0..self.peers.len() {
            if let Some(peer) = self.peers.get(peer) {
                peer.backlog.clear();
            }
        }
        for connection in self.connections.iter().flatten() {
            // A peer that cannot be told learns it from the end of the connection.
            let _ = connection
                .channel
                .send(&greeting::GOODBYE.to_le_bytes(), &[]);
        }
    }

    /// Reads what a peer has sent over its connections by now: a greeting, or an arena that a message names.
    pub(crate) fn read_connections_of(&mut self, peer: u32) {
        for index in self.connections_of(peer) {
            self.read_connection(index);
        }
    }
}
