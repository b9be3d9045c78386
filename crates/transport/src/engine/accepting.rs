//! New connections, and the descriptors that come over them: accepted and taken in while this process has room for them.

use core::time::Duration;
use std::os::fd::AsFd;
use std::time::Instant;

use limic_shm::control::{ControlError, Trigger};

use super::Core;
use super::connections::{Connection, FIRST};

/// How long nobody is accepted after that has failed.
pub(crate) const DEAF: Duration = Duration::from_millis(100);
/// Descriptors that are kept for what comes: as many as a greeting brings. An arena brings one, but may stand behind a greeting
/// over a second connection.
const SPARE: usize = 2;
/// Most connections over which nobody has greeted yet.
const MOST_SILENT: usize = 32;

impl Core {
    pub(crate) fn accept_connections(&mut self) {
        loop {
            match self.listener.accept() {
                Ok(Some(channel)) => {
                    self.accepts = true;
                    let stranger = self.stranger(&channel);
                    let index = self.add_connection(channel, None);
                    match (index, stranger) {
                        (Some(index), Some(why)) => self.refuse(index, &why),
                        // A peer greets before it waits for anything, so mostly the greeting is there.
                        (Some(index), None) => {
                            self.read_connection(index);
                            self.drop_a_silent_one(index);
                        }
                        (None, _) => {}
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

    /// Descriptors that can be given up for others.
    pub(crate) fn keep_spare(&mut self) {
        while self.spare.len() < SPARE
            && let Ok(another) = self.bell.as_fd().try_clone_to_owned()
        {
            self.spare.push(another);
        }
    }

    /// The next message of a connection waits, and would wake this endpoint all the time.
    pub(crate) fn hear_later(&mut self, index: u32, why: &ControlError) {
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else {
            return;
        };
        if self.events.remove(connection.channel.as_fd()).is_ok() {
            connection.unheard = true;
            self.deaf_since.get_or_insert_with(Instant::now);
        }
        if core::mem::replace(&mut self.accepts, false) {
            tracing::warn!(
                "what a peer hands over waits: {why}; tried again every {} ms",
                DEAF.as_millis()
            );
        }
    }

    /// Watches all connections again.
    pub(crate) fn hear_again(&mut self) {
        for (index, connection) in self.connections.iter_mut().enumerate() {
            if let Some(connection) = connection
                && core::mem::take(&mut connection.unheard)
            {
                // It was in the set before.
                let _ = self.events.add(
                    connection.channel.as_fd(),
                    FIRST + 2 * index as u64,
                    Trigger::Level,
                );
            }
        }
    }

    /// Whether something that a peer has handed over waits for a free descriptor.
    pub(crate) fn is_unheard(&self, peer: u32) -> bool {
        let mut connections = self.connections.iter().flatten();
        connections.any(|connection| connection.unheard && connection.peer == Some(peer))
    }

    /// Nobody can connect any more, and who waits to be accepted is told why: nobody would answer.
    pub(crate) fn stop_listening(&mut self) {
        self.listener.stop();
        self.accept_connections();
        // It fails only if the listener is not watched at the moment.
        let _ = self.events.remove(self.listener.as_fd());
        self.deaf_since = None;
    }
}
