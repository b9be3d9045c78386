//! What limic asks of a network, over verbs.

use core::time::Duration;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use limic_fabric::{
    Arrivals, ConnectionFailure, ConnectionId, Counts, Event, Fabric, Form, Limits, Network, Part,
    RemoteRange, SendRefused,
};

use crate::VerbsError;
use crate::fabric::{self, FabricAddress, FabricSettings, Spread};
use crate::objects::Access;

/// The verbs of one endpoint, with what it has registered for its operations.
#[derive(Debug)]
pub struct VerbsFabric {
    fabric: fabric::Fabric,
    part: Part,
    /// What peers may read, by token.
    offered: HashMap<u64, Arc<Spread>>,
    /// What reads write into, by token.
    reading: HashMap<u64, Arc<Spread>>,
}

/// What a connection takes whose packets have so many bytes.
const fn limits(packet_bytes: u32) -> Limits {
    Limits {
        longest: fabric::longest_message(packet_bytes) as u64,
        in_place_from: u64::MAX,
        has_reads: true,
        sends_cost: false,
    }
}

impl VerbsFabric {
    /// What connections take where both ends have these settings.
    #[must_use]
    pub const fn limits_with(settings: &FabricSettings) -> Limits {
        limits(settings.packet_bytes)
    }

    /// Opens the devices; `id` and `secret` are those of the endpoint.
    ///
    /// # Errors
    /// As [`fabric::Fabric::open`].
    pub fn open(settings: FabricSettings, id: u64, secret: u64) -> Result<Self, VerbsError> {
        let fabric = fabric::Fabric::open(settings, id, secret, Vec::new())?;
        let part = Part::new(Network::Verbs, &fabric.address().to_bytes());
        let part = part.expect("a place in verbs is short enough");
        Ok(Self {
            fabric,
            part,
            offered: HashMap::new(),
            reading: HashMap::new(),
        })
    }
}

impl Fabric for VerbsFabric {
    fn part(&self) -> Part {
        self.part
    }

    fn set_hello(&mut self, hello: Vec<u8>) {
        self.fabric.set_hello(hello);
    }

    fn connect(
        &mut self,
        to: &Part,
        id: u64,
        secret: u64,
    ) -> Result<ConnectionId, ConnectionFailure> {
        let there = FabricAddress::from_bytes(to.place());
        let failed = |why: &str| ConnectionFailure::Local(why.to_owned());
        let there =
            there.ok_or_else(|| failed("its address is none of verbs in this version of limic"))?;
        let connection = self.fabric.connect(&there, id, secret);
        connection.map_err(|error| failed(&error.to_string()))
    }

    fn disconnect(&mut self, connection: ConnectionId) {
        self.fabric.disconnect(connection);
    }

    fn is_connected(&self, connection: ConnectionId) -> bool {
        self.fabric.is_connected(connection)
    }

    fn limits(&self, connection: ConnectionId) -> Limits {
        limits(self.fabric.packet_bytes(connection))
    }

    fn send(
        &mut self,
        to: ConnectionId,
        form: Form,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendRefused> {
        let Form { kind, tag, len } = form;
        self.fabric.send(to, kind, tag, len as usize, fill)
    }

    fn cork(&mut self, to: ConnectionId) {
        self.fabric.cork(to);
    }

    fn uncork(&mut self, to: ConnectionId) {
        self.fabric.uncork(to);
    }

    fn holding(&self) -> u32 {
        self.fabric.holding()
    }

    fn gave_time(&mut self) {
        self.fabric.gave_time();
    }

    fn poll(&mut self, arrivals: &mut Arrivals) -> Option<Event> {
        let event = self.fabric.poll(arrivals)?;
        if let Event::Transferred { token, .. } = event {
            self.reading.remove(&token);
        }
        Some(event)
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.fabric.wake_fds().collect()
    }

    fn arm(&mut self) -> Result<(), String> {
        self.fabric.arm().map_err(|error| error.to_string())
    }

    fn longest_sleep(&self) -> Option<Duration> {
        self.fabric.longest_sleep()
    }

    fn needs_processors(&self) -> bool {
        self.fabric.in_software()
    }

    fn counts(&self) -> Counts {
        self.fabric.counts()
    }

    fn close(&mut self, within: Duration) {
        self.fabric.close(Instant::now() + within);
    }

    fn leave_to_parent(self: Box<Self>) {
        // A forked child has a copy of the queues, which are its parent's.
        core::mem::forget(self);
    }

    unsafe fn offer(
        &mut self,
        token: u64,
        start: *const u8,
        len: usize,
    ) -> Result<RemoteRange, String> {
        let spread = match self.offered.get(&token) {
            Some(spread) => Arc::clone(spread),
            None => {
                let access = Access::REMOTE_READ;
                // SAFETY: the bytes are only read. The registration goes with `withdraw`, until
                // which they stay mapped (the caller's promise); or it is kept, and the peer, which
                // has the key, can go on reading what lies there: it gets bytes that may be any,
                // and nothing here changes.
                let made = unsafe { self.fabric.register_again(start.cast_mut(), len, access) };
                let spread = made.map_err(|error| error.to_string())?;
                self.offered.insert(token, Arc::clone(&spread));
                spread
            }
        };
        Ok(RemoteRange {
            start: spread.start(),
            keys: spread.remote_keys(),
        })
    }

    fn withdraw(&mut self, token: u64) {
        self.offered.remove(&token);
    }

    unsafe fn read(
        &mut self,
        from: ConnectionId,
        remote: RemoteRange,
        into: *mut u8,
        len: usize,
        token: u64,
    ) -> Result<(), String> {
        // SAFETY: the room stays as it is until the read is over, or its queue pairs are destroyed
        // (the caller's promise). The registration is dropped before the caller learns of the end,
        // or kept: peers have no key for it, so only reads that this endpoint starts write there.
        let spread = unsafe { self.fabric.register_again(into, len, Access::LOCAL) };
        let spread = spread.map_err(|error| error.to_string())?;
        // SAFETY: as above.
        unsafe { self.fabric.read(from, remote, &spread, 0, len, token) }
            .map_err(|error| error.to_string())?;
        self.reading.insert(token, spread);
        Ok(())
    }
}
