//! Peers are attached at the first message: two greetings over one of the `connections`, and each side maps the other's
//! segment.

use std::os::fd::{AsFd, OwnedFd};

use limic_shm::control::{Bell, ControlError, Sent};
use limic_shm::ring::shared::SharedProducer;
use limic_shm::ring::sleep::Waker;
use limic_shm::ring::{PackedFlags, ReleaseFlags};
use limic_shm::segment::{LOAN_FLAGS, PeerSegment};

use super::Core;
use super::greeting::{self, BadGreeting, Greeting, u32_at, u64_at};
use super::in_pieces;
use super::peer_arenas::PeerArenas;
use super::peers::{Link, Out};
use crate::counters::Event;
use crate::error::PeerFailure;
use crate::policy::lag::Lag;
use crate::policy::{Capabilities, INLINE_CAPACITY, Path, Skew, Thresholds};
use crate::single_copy::RemoteProcess;
use crate::topology::Locality;
use crate::{Error, Peer, Result};

impl Core {
    pub(crate) fn greeting(&self, kind: u32, to: u32) -> Greeting {
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

    /// Sends a greeting, the first message of this side over a connection.
    ///
    /// # Errors
    /// The peer has gone, or it has to wait ([`ControlError::is_temporary`]).
    pub(crate) fn greet(
        &mut self,
        connection: u32,
        greeting: &Greeting,
    ) -> core::result::Result<(), ControlError> {
        let Some(Some(entry)) = self.connections.get(connection as usize) else {
            return Err(ControlError::Closed);
        };
        let fds = [self.segment.fd(), self.bell.as_fd()];
        match entry.channel.send(&greeting.encode(), &fds) {
            Ok(Sent::Done) => Ok(()),
            // Nothing was sent before it, so that it is the kernel's memory that is short.
            Ok(Sent::WouldBlock) => Err(ControlError::InFlight),
            Err(error) => {
                tracing::debug!("a greeting could not be sent: {error}");
                Err(error)
            }
        }
    }

    pub(crate) fn on_message(&mut self, index: u32, bytes: &[u8], fds: Vec<OwnedFd>) {
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
                    // Over the other connection it may have said more, if both made the first contact at once.
                    self.has_ended(peer, PeerFailure::Refused(why));
                }
            }
            greeting::ARENA => {
                if let Some(link) = peer.and_then(|peer| self.peers.link(peer))
                    && let Some(fd) = fds.into_iter().next()
                {
                    let flags = &link.loans_released;
                    link.arenas
                        .enter(u32_at(bytes, 4), u64_at(bytes, 8), fd, flags);
                }
            }
            greeting::GOODBYE => {
                connection.said_goodbye = true;
                // A child that the peer has forked may keep the connection open: nobody waits for its end.
                if let Some(peer) = peer {
                    self.has_ended(peer, PeerFailure::Closed);
                }
            }
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
        if hello.address.id == self.address.id {
            return self.refuse(index, "it greets with this endpoint's own address");
        }
        let Some(peer) = self.peers.enter(&hello.address, &self.address) else {
            return self.refuse(index, "its address differs from the one it has here");
        };
        if self.closed {
            return self.turn_away(index);
        }
        let given_up = self.peers.get(peer).and_then(|entry| entry.failure.clone());
        if let Some(why) = given_up {
            return self.refuse(
                index,
                &format!("this endpoint has given the peer up: {why}"),
            );
        }
        if let Some(Some(connection)) = self.connections.get_mut(index as usize) {
            connection.peer = Some(peer);
        }
        self.answer(index, peer, hello, fds);
    }

    /// Attaches a peer that has greeted, and welcomes it. If it cannot be told now, its hello is kept: what is sent to a peer
    /// before its welcome is lost.
    pub(crate) fn answer(&mut self, index: u32, peer: u32, hello: Greeting, fds: Vec<OwnedFd>) {
        let welcome = self.greeting(greeting::WELCOME, peer);
        let welcomed = self.greet(index, &welcome);
        if let Err(error) = &welcomed
            && error.is_temporary()
        {
            if let Some(Some(connection)) = self.connections.get_mut(index as usize) {
                connection.unanswered = Some(Box::new((hello, fds)));
            }
            return self.put_off(peer, error);
        }
        if let Err(error) = self.attach(peer, index, &hello, fds) {
            return self.refuse(index, &error.to_string());
        }
        if welcomed.is_err() {
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

    /// Answers a hello that comes too late.
    fn turn_away(&mut self, index: u32) {
        if let Some(Some(connection)) = self.connections.get(index as usize) {
            // If it cannot be sent, the end of the connection says nearly the same.
            let _ = connection
                .channel
                .send(&greeting::GOODBYE.to_le_bytes(), &[]);
        }
        self.drop_connection(index);
    }

    pub(crate) fn refuse(&mut self, index: u32, why: &str) {
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
    pub(crate) fn attach(
        &mut self,
        peer: u32,
        index: u32,
        greeting: &Greeting,
        fds: Vec<OwnedFd>,
    ) -> Result<()> {
        let Some(entry) = self.peers.get(peer) else {
            return Ok(());
        };
        if let Some(why) = &entry.failure {
            return Err(Error::PeerFailed {
                peer: Peer(peer),
                why: why.clone(),
            });
        }
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
        let longest_record = {
            let chunk_bytes = u32::try_from(self.pool.chunk_bytes).unwrap_or(u32::MAX);
            in_pieces::longest_record(shape.ring_bytes, chunk_bytes)
        };
        let mut capabilities = Capabilities {
            paths: allowed,
            max_inline: INLINE_CAPACITY,
            max_eager: in_pieces::LONGEST,
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
            ReleaseFlags::new(segment.pool_flags(), shape.pool_pages()).map_err(|e| text(&e))?;
        let loans_released =
            PackedFlags::new(segment.loan_flags(), LOAN_FLAGS).map_err(|e| text(&e))?;
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
            pool: segment.pool(),
            released,
            loans_released,
            chunk_bytes: self.pool.chunk_bytes,
            window: u64::from(self.settings.pipeline_window()) * self.pool.chunk_bytes,
            thresholds: Thresholds::default(),
            record_below: 0,
            longest_whole: 0,
            longest_record,
            held_up: false,
            inbound: None,
            hand: super::in_hand::Hand::default(),
            answers_below: 0,
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
            regions: segment.regions(),
            access_slots: segment.access_slots(),
            region_places: Default::default(),
            segment,
        };
        link.fit(
            &self.settings,
            self.whereabouts.place(),
            self.pool.chunk_bytes,
        );
        // A connection before this one may have been put off.
        self.given_up.leave(peer);
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

    /// Hands an arena to a peer. False if the channel is full now.
    #[inline(always)]
    pub(crate) fn hand_arena(&mut self, to: u32, number: u32) -> bool {
        let link = self.peers.link(to);
        link.is_some_and(|link| link.arenas.given(number)) || self.hand_new_arena(to, number)
    }

    #[cold]
    fn hand_new_arena(&mut self, to: u32, number: u32) -> bool {
        let Some(link) = self.peers.link(to) else {
            return false;
        };
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
}
