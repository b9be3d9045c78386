//! Sends, receives, probes, and waits for them.

use std::time::{Duration, Instant};

use crate::abi::{self, Iov};
use crate::session::{Errno, Session};

/// One request's slot.
pub type Slot = u32;

impl Session {
    /// Sends; gives the state.
    ///
    /// # Errors
    /// Of the call.
    pub fn send(&self, pieces: &[Iov], to: u32, tag: u64, slot: Slot) -> Result<u32, Errno> {
        self.send_with(pieces, to, tag, slot, 0)
    }

    /// Sends with flags; gives the state.
    ///
    /// # Errors
    /// Of the call.
    pub fn send_with(
        &self,
        pieces: &[Iov],
        to: u32,
        tag: u64,
        slot: Slot,
        flags: u32,
    ) -> Result<u32, Errno> {
        let mut arg = abi::Send_ {
            iov: pieces.as_ptr() as u64,
            nr_iov: pieces.len() as u32,
            flags,
            tag,
            cookie: cookie(slot),
            rank: to,
            slot,
            ..Default::default()
        };
        self.call(abi::SEND, &mut arg)?;
        Ok(arg.state)
    }

    /// Receives by exact tag; gives the state.
    ///
    /// # Errors
    /// Of the call.
    pub fn recv(&self, pieces: &[Iov], from: u32, tag: u64, slot: Slot) -> Result<u32, Errno> {
        self.recv_masked(pieces, from, (tag, !0), slot)
    }

    /// Receives by tag and mask; gives the state.
    ///
    /// # Errors
    /// Of the call.
    pub fn recv_masked(
        &self,
        pieces: &[Iov],
        from: u32,
        (tag, mask): (u64, u64),
        slot: Slot,
    ) -> Result<u32, Errno> {
        self.recv_from(pieces, from, (tag, mask), slot, 0)
    }

    /// Receives by exact tag, with flags; gives the state.
    ///
    /// # Errors
    /// Of the call.
    pub fn recv_with(
        &self,
        pieces: &[Iov],
        from: u32,
        tag: u64,
        slot: Slot,
        flags: u32,
    ) -> Result<u32, Errno> {
        self.recv_from(pieces, from, (tag, !0), slot, flags)
    }

    fn recv_from(
        &self,
        pieces: &[Iov],
        from: u32,
        (tag, mask): (u64, u64),
        slot: Slot,
        flags: u32,
    ) -> Result<u32, Errno> {
        let mut arg = abi::Recv {
            iov: pieces.as_ptr() as u64,
            nr_iov: pieces.len() as u32,
            flags,
            tag,
            mask,
            cookie: cookie(slot),
            rank: from,
            slot,
            ..Default::default()
        };
        self.call(abi::RECV, &mut arg)?;
        Ok(arg.state)
    }

    /// Receives a message that a probe took; gives the state.
    ///
    /// # Errors
    /// Of the call.
    pub fn recv_taken(&self, pieces: &[Iov], message: u64, slot: Slot) -> Result<u32, Errno> {
        let mut arg = abi::Recv {
            iov: pieces.as_ptr() as u64,
            nr_iov: pieces.len() as u32,
            flags: abi::RECV_MESSAGE,
            cookie: cookie(slot),
            message,
            slot,
            ..Default::default()
        };
        self.call(abi::RECV, &mut arg)?;
        Ok(arg.state)
    }

    /// Probes by exact tag.
    ///
    /// # Errors
    /// Of the call.
    pub fn probe(&self, from: u32, tag: u64, flags: u32) -> Result<abi::Probe, Errno> {
        let mut arg = abi::Probe {
            tag,
            mask: !0,
            rank: from,
            flags,
            ..Default::default()
        };
        self.call(abi::PROBE, &mut arg)?;
        Ok(arg)
    }

    /// Cancels.
    ///
    /// # Errors
    /// Of the call.
    pub fn cancel(&self, slot: Slot) -> Result<(), Errno> {
        self.cancel_with(slot, 0)
    }

    /// Cancels with flags.
    ///
    /// # Errors
    /// Of the call.
    pub fn cancel_with(&self, slot: Slot, flags: u32) -> Result<(), Errno> {
        let mut arg = abi::Cancel {
            slot,
            flags,
            ..Default::default()
        };
        self.call(abi::CANCEL, &mut arg)
    }

    /// Sleeps until so many of the slots are over; gives what the call wrote back.
    ///
    /// # Errors
    /// Of the call.
    pub fn wait(&self, slots: &[Slot], min: u32, timeout_ns: i64) -> Result<abi::Wait, Errno> {
        let mut arg = abi::Wait {
            slots: slots.as_ptr() as u64,
            nr: slots.len() as u32,
            min,
            timeout_ns,
            ..Default::default()
        };
        self.call(abi::WAIT, &mut arg).map(|()| arg)
    }

    /// Waits for one slot, by the call, and gives its status.
    pub fn finish(&self, slot: Slot) -> abi::Status {
        let arg = self
            .wait(&[slot], 1, 30_000_000_000)
            .expect("wait for a slot");
        assert_eq!(arg.done, 1, "slot {slot} is still pending after 30 s");
        self.status(slot)
    }

    /// Waits for one slot without any call, by looking at the mapped memory.
    pub fn watch(&self, slot: Slot) -> abi::Status {
        let end = Instant::now() + Duration::from_secs(30);
        while self.status(slot).state == abi::PENDING {
            assert!(Instant::now() < end, "slot {slot} is still pending");
            std::thread::yield_now();
        }
        self.status(slot)
    }
}

/// The cookie that all requests of these tests carry.
#[must_use]
pub fn cookie(slot: Slot) -> u64 {
    0xc00c_1e00_0000_0000 | u64::from(slot)
}
