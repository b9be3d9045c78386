//! Peers are attached at the first message: a socket connection, two greetings, and each side maps
//! the other's segment. The connection stays: its end tells that the peer is gone.

use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use limic_shm::control::{Bell, Channel, ControlError, MAX_MESSAGE, Received, Sent, Trigger};
use limic_shm::ring::ReleaseFlags;
use limic_shm::ring::shared::SharedProducer;
use limic_shm::ring::sleep::Waker;
use limic_shm::segment::{LOAN_FLAGS, PeerSegment};

use super::Core;
use super::arenas::PeerArenas;
use super::greeting::{self, BadGreeting, Greeting, u32_at, u64_at};
use super::peers::{Link, Out};
use crate::counters::Event;
use crate::error::PeerFailure;
use crate::policy::lag::Lag;
use crate::policy::{Capabilities, INLINE_CAPACITY, Path, Skew, Thresholds};
use crate::single_copy::RemoteProcess;
use crate::topology::Locality;
use crate::{Error, Result};

/// Tokens of the event set: the listener, the bell, then two for each channel.
pub(crate) const LISTENER: u64 = 0;
pub(crate) const BELL: u64 = 1;
pub(crate) const ADAPTER: u64 = u64::MAX;
const FIRST: u64 = 2;

/// How long nobody is accepted after that has failed.
const DEAF: Duration = Duration::from_millis(100);
/// Most connections over which nobody has greeted yet.
const MOST_SILENT: usize = 32;

/// A connection.
pub(crate) struct Connection {
    channel: Channel,
    /// Whose it is, as soon as that is known.
    peer: Option<u32>,
    /// The peer's process, if the kernel lets us watch it.
    pidfd: Option<OwnedFd>,
    /// The other side said that it closes in good order.
    said_goodbye: bool,
}

impl Core {
    /// Makes the first contact with a peer, or fails it.
    pub(crate) fn start_connection(&mut self, to: u32) {
        let Some(peer) = self.peers.get(to) else {
            return;
        };
        if peer.failure.is_some() {
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
            Ok(channel) => {
                if let Some(peer) = self.peers.get(to) {
                    peer.connecting = true;
                }
                let connection = self.add_connection(channel, Some(to));
                let hello = self.greeting(greeting::HELLO, to);
                match connection {
                    Some(connection) if self.greet(connection, &hello) => {}
                    // It closed in between: fails, after its last records were read.
                    Some(connection) => self.ended(connection),
                    None => self.endings.push((to, PeerFailure::Unreachable)),
                }
            }
            // The peer accepts nobody at the moment: `retry_connections` tries again.
            Err(ControlError::BacklogFull { .. }) => self.waiting_to_connect.push(to),
            Err(ControlError::NobodyListens { .. }) => self.fail_peer(to, PeerFailure::Unreachable),
            Err(error) => self.fail_peer(to, PeerFailure::Refused(error.to_string())),
        }
    }

    /// Tries again what a full backlog prevented.
    pub(crate) fn retry_connections(&mut self) {
        for to in core::mem::take(&mut self.waiting_to_connect) {
            if self
                .peers
                .get(to)
                .is_some_and(|peer| peer.link.is_none() && !peer.connecting)
            {
                self.start_connection(to);
            }
        }
    }

    fn greeting(&self, kind: u32, to: u32) -> Greeting {
        let secret = self
            .peers
            .iter()
            .nth(to as usize)
            .map_or(0, |(_, peer)| peer.address.secret);
        Greeting {
            kind,
            secret,
            address: self.address,
            number: to,
            process: crate::same_process::identity(),
            probe: self.probe_word.data(),
            place: self.whereabouts.place(),
            epoch: self.segment.epoch(),
            kmod: self.device.session(),
        }
    }

    fn add_connection(&mut self, channel: Channel, peer: Option<u32>) -> Option<u32> {
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
        if let Some(pidfd) = &connection.pidfd {
            let _ = self.events.remove(pidfd.as_fd());
        }
    }

    fn greet(&mut self, connection: u32, greeting: &Greeting) -> bool {
        let Some(Some(entry)) = self.connections.get(connection as usize) else {
            return false;
        };
        let fds = [self.segment.fd(), self.bell.as_fd()];
        match entry.channel.send(&greeting.encode(), &fds) {
            Ok(Sent::Done) => true,
            Ok(Sent::WouldBlock) => false,
            Err(error) => {
                tracing::debug!("a greeting could not be sent: {error}");
                false
            }
        }
    }

    /// Looks at the sockets once. True if anything happened.
    pub(crate) fn poll_events(&mut self, timeout: Option<Duration>) -> bool {
        if self.deaf_since.is_some_and(|since| since.elapsed() > DEAF) {
            self.deaf_since = None;
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
                BELL | ADAPTER => {}
                token if (token - FIRST).is_multiple_of(2) => {
                    self.read_connection(((token - FIRST) / 2) as u32);
                }
                token => self.process_ended(((token - FIRST) / 2) as u32),
            }
        }
        self.event_buffer = events;
        if accept {
            self.accept_connections();
        }
        if !self.waiting_to_connect.is_empty() {
            self.retry_connections();
        }
        count > 0
    }

    fn accept_connections(&mut self) {
        loop {
            match self.listener.accept() {
                Ok(Some(channel)) => {
                    self.accepts = true;
                    let index = self.add_connection(channel, None);
                    // A peer greets before it waits for anything, so mostly the greeting is there.
                    if let Some(index) = index {
                        self.read_connection(index);
                        self.drop_a_silent_one(index);
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    // Mostly no descriptor is free. The connection stays in the queue, and would wake this endpoint
                    // all the time.
                    if core::mem::replace(&mut self.accepts, false) {
                        tracing::warn!(
                            "connections cannot be accepted: {error}; tried again every {} ms (ulimit -n?)",
                            DEAF.as_millis()
                        );
                    }
                    if self.events.remove(self.listener.as_fd()).is_ok() {
                        self.deaf_since = Some(Instant::now());
                    }
                    return;
                }
            }
        }
    }

    /// Any process of the network namespace can connect, and say nothing: that must not use up the descriptors.
    fn drop_a_silent_one(&mut self, newest: u32) {
        let silent = |connection: &Option<Connection>| {
            connection.as_ref().is_some_and(|one| one.peer.is_none())
        };
        if self.connections.iter().filter(|one| silent(one)).count() > MOST_SILENT
            && let Some(other) = (0..self.connections.len() as u32)
                .find(|index| *index != newest && silent(&self.connections[*index as usize]))
        {
            tracing::debug!("a connection that nobody greets over is dropped");
            self.drop_connection(other);
        }
    }

    /// Reads the messages of a connection until there are none.
    pub(crate) fn read_connection(&mut self, index: u32) {
        let mut buffer = [0; MAX_MESSAGE];
        loop {
            let Some(Some(connection)) = self.connections.get_mut(index as usize) else {
                return;
            };
            match connection.channel.receive(&mut buffer) {
                Ok(Received::Message { len, fds }) => self.on_message(index, &buffer[..len], fds),
                Ok(Received::WouldBlock) => return,
                Ok(Received::Closed) | Err(ControlError::Closed) => return self.ended(index),
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

    fn on_message(&mut self, index: u32, bytes: &[u8], fds: Vec<OwnedFd>) {
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else {
            return;
        };
        let peer = connection.peer;
        match u32_at(bytes, 0) {
            greeting::HELLO if peer.is_none() => self.on_hello(index, bytes, fds),
            greeting::WELCOME => {
                if let Some(peer) = peer {
                    self.on_welcome(index, peer, bytes, fds);
                }
            }
            greeting::REFUSAL => {
                if let Some(peer) = peer {
                    let why = String::from_utf8_lossy(bytes.get(4..).unwrap_or_default());
                    // Another process's text goes to a terminal: no control sequences.
                    let why = why.replace(char::is_control, " ");
                    self.fail_peer(peer, PeerFailure::Refused(why));
                }
            }
            greeting::ARENA => {
                if let Some(link) = peer.and_then(|peer| self.peers.link(peer))
                    && let Some(fd) = fds.into_iter().next()
                {
                    link.arenas.enter(u32_at(bytes, 4), u64_at(bytes, 8), fd);
                }
            }
            greeting::GOODBYE => connection.said_goodbye = true,
            other => tracing::debug!("control message {other} is not known and left aside"),
        }
    }

    /// Somebody wants to talk to this endpoint.
    fn on_hello(&mut self, index: u32, bytes: &[u8], fds: Vec<OwnedFd>) {
        let hello = match Greeting::decode(bytes) {
            Ok(hello) if hello.secret == self.address.secret => hello,
            Ok(_) => return self.refuse(index, "it does not know this endpoint's secret"),
            Err(BadGreeting::Version { theirs }) => {
                let why = format!(
                    "protocol version {theirs} meets {}; build all ranks with one version of limic",
                    greeting::PROTOCOL
                );
                return self.refuse(index, &why);
            }
            Err(error) => return self.refuse(index, &error.to_string()),
        };
        let Some(peer) = self.peers.enter(&hello.address, &self.address) else {
            return self.refuse(index, "its address differs from the one it has here");
        };
        if self.closed
            || self
                .peers
                .get(peer)
                .is_some_and(|entry| entry.failure.is_some())
        {
            return self.refuse(index, "this endpoint has given the peer up, or is closed");
        }
        if let Some(Some(connection)) = self.connections.get_mut(index as usize) {
            connection.peer = Some(peer);
        }
        let welcome = self.greeting(greeting::WELCOME, peer);
        if let Err(error) = self.attach(peer, index, &hello, fds) {
            return self.refuse(index, &error.to_string());
        }
        if !self.greet(index, &welcome) {
            // It has gone already. Its goodbye is still to be read, and so are its last records.
            self.read_connection(index);
            self.ended(index);
        }
        self.flush(peer);
    }

    fn on_welcome(&mut self, index: u32, peer: u32, bytes: &[u8], fds: Vec<OwnedFd>) {
        let welcome = match Greeting::decode(bytes) {
            Ok(welcome) => welcome,
            Err(error) => return self.fail_peer(peer, PeerFailure::Refused(error.to_string())),
        };
        if let Err(error) = self.attach(peer, index, &welcome, fds) {
            return self.fail_peer(peer, PeerFailure::Refused(error.to_string()));
        }
        self.flush(peer);
    }

    fn refuse(&mut self, index: u32, why: &str) {
        tracing::warn!("a connection was refused: {why}");
        self.tally.event(Event::Refused);
        self.tally.reason(None, u32::MAX, why);
        if let Some(Some(connection)) = self.connections.get(index as usize) {
            let mut message = greeting::REFUSAL.to_le_bytes().to_vec();
            message.extend(why.bytes().take(1024));
            // If it cannot be sent, the end of the connection says the same with fewer words.
            let _ = connection.channel.send(&message, &[]);
        }
        self.drop_connection(index);
    }

    /// Maps a peer's segment and finds out what this pair can do.
    fn attach(
        &mut self,
        peer: u32,
        index: u32,
        greeting: &Greeting,
        fds: Vec<OwnedFd>,
    ) -> Result<()> {
        let Some(entry) = self.peers.get(peer) else {
            return Ok(());
        };
        entry.connecting = false;
        if let Some(link) = &mut entry.link {
            // Both sides connected at the same time: the second connection only watches.
            link.channels.push(index);
            return Ok(());
        }
        let text = |error: &dyn core::fmt::Display| Error::Segment(error.to_string());
        let mut fds = fds.into_iter();
        let (Some(segment), Some(bell)) = (fds.next(), fds.next()) else {
            return Err(Error::Segment(
                "the greeting came without its descriptors".into(),
            ));
        };
        let segment = PeerSegment::attach(segment, Some(greeting.epoch)).map_err(|e| text(&e))?;
        let bell = Bell::from_fd(bell).map_err(|e| text(&e))?;
        let shape = segment.shape();
        let credentials = self
            .connections
            .get(index as usize)
            .and_then(Option::as_ref)
            .and_then(|connection| connection.channel.credentials().ok());
        let allowed = self.settings.allowed();
        let same_process = greeting.process == crate::same_process::identity();
        let remote = if !allowed.contains(Path::Cma) && !allowed.contains(Path::BothSides) {
            RemoteProcess::none("switched off by the settings")
        } else {
            let mut probe = greeting.probe;
            probe.pid = credentials.map_or(0, |credentials| credentials.pid);
            RemoteProcess::probe(probe)
        };
        let mut capabilities = Capabilities {
            paths: allowed,
            max_inline: INLINE_CAPACITY,
            // A record may take a quarter of a private ring; a chunk must hold what does not fit the shared one.
            max_eager: u64::from(shape.ring_bytes / 4).min(self.pool.chunk_bytes),
            max_chunk: u32::try_from(self.pool.chunk_bytes).unwrap_or(u32::MAX),
        };
        if let Some(why) = remote.refusal() {
            if allowed.contains(Path::Cma) {
                tracing::info!("cma to peer {peer}: {why}; using pipeline");
                self.tally.reason(Some(Path::Cma), peer, why);
            }
            capabilities.demote(Path::Cma);
            capabilities.demote(Path::BothSides);
        }
        let kmod = self.device.pair(greeting.kmod);
        if let Some(why) = kmod.refusal() {
            // A machine without the module is nothing to speak of.
            tracing::debug!("kmod to peer {peer}: {why}");
            capabilities.demote(Path::Kmod);
        }
        if !same_process {
            capabilities.demote(Path::SameProcess);
        }
        // A pair that shares memory has no adapter between it.
        capabilities.demote(Path::RcEager);
        capabilities.demote(Path::RcRendezvous);
        let producer =
            SharedProducer::new(segment.shared_ring(), shape.shared_slots, greeting.number)
                .map_err(|e| text(&e))?;
        let waker = Waker::new(segment.sleep(), self.barrier).map_err(|e| text(&e))?;
        let released =
            ReleaseFlags::new(segment.chunk_flags(), shape.chunks).map_err(|e| text(&e))?;
        let loans_released =
            ReleaseFlags::new(segment.loan_flags(), LOAN_FLAGS).map_err(|e| text(&e))?;
        let chunks = (0..shape.chunks)
            .filter_map(|chunk| segment.chunk(chunk))
            .collect();
        self.give_row(peer);
        self.tally.event(Event::Attached);
        let Some(entry) = self.peers.get(peer) else {
            return Ok(());
        };
        let mut link = Link {
            out: Out::Shared(producer),
            counts: entry.counts.clone(),
            switching: None,
            waker,
            bell,
            chunks,
            released,
            loans_released,
            chunk_bytes: self.pool.chunk_bytes,
            window: self.settings.pipeline_window() as usize,
            thresholds: Thresholds::default(),
            ahead_below: 0,
            skew: Skew::None,
            lag: Lag::default(),
            adapter: None,
            passing: super::hand_over::Passing::default(),
            place: (!same_process).then_some(greeting.place),
            locality: Locality::SameProcess,
            capabilities,
            same_process: same_process && allowed.contains(Path::SameProcess),
            remote,
            kmod,
            my_number: greeting.number,
            channels: vec![index],
            arenas: PeerArenas::default(),
            status: segment.status(),
            segment,
        };
        link.fit(
            &self.settings,
            self.whereabouts.place(),
            self.pool.chunk_bytes,
        );
        if let Some(entry) = self.peers.get(peer) {
            entry.link = Some(Box::new(link));
            self.peers.attached += 1;
            self.adapt_spins();
            if self.whereabouts.has_moved() {
                // Perhaps since the greeting was written.
                self.tell_place(peer);
            }
        }
        Ok(())
    }

    /// A connection ended.
    fn ended(&mut self, index: u32) {
        let Some(Some(connection)) = self.connections.get(index as usize) else {
            return;
        };
        let (peer, goodbye) = (connection.peer, connection.said_goodbye);
        self.drop_connection(index);
        let Some(peer) = peer else { return };
        // The index may soon be another connection's.
        if let Some(link) = self.peers.link(peer) {
            link.channels.retain(|channel| *channel != index);
        }
        let why = if goodbye {
            PeerFailure::Closed
        } else {
            PeerFailure::Died
        };
        self.endings.push((peer, why));
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

    /// Tells a peer that this endpoint closes in good order.
    pub(crate) fn say_goodbye(&mut self) {
        for connection in self.connections.iter().flatten() {
            // A peer that cannot be told learns it from the end of the connection.
            let _ = connection
                .channel
                .send(&greeting::GOODBYE.to_le_bytes(), &[]);
        }
    }

    /// Hands an arena to a peer. False if the channel is full now.
    pub(crate) fn hand_arena(&mut self, to: u32, number: u32) -> bool {
        let Some(link) = self.peers.link(to) else {
            return false;
        };
        if link.arenas.given(number) {
            return true;
        }
        let Some(index) = link.channels.first().copied() else {
            return false;
        };
        let Some(Some(connection)) = self.connections.get(index as usize) else {
            return false;
        };
        let Some((fd, bytes)) = self.arenas.descriptor(number) else {
            return false;
        };
        let mut message = greeting::ARENA.to_le_bytes().to_vec();
        message.extend(number.to_le_bytes());
        message.extend((bytes as u64).to_le_bytes());
        let done = matches!(connection.channel.send(&message, &[fd]), Ok(Sent::Done));
        if done && let Some(link) = self.peers.link(to) {
            link.arenas.mark_given(number);
        }
        done
    }

    /// Reads what a peer has sent over its connections by now: a greeting, or an arena that a message names.
    pub(crate) fn read_connections_of(&mut self, peer: u32) {
        let of_peer =
            |entry: &Option<Connection>| entry.as_ref().is_some_and(|c| c.peer == Some(peer));
        for index in 0..self.connections.len() {
            if of_peer(&self.connections[index]) {
                self.read_connection(index as u32);
            }
        }
    }
}
