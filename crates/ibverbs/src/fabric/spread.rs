//! Memory that is registered on every rail that works, so that any stream may carry it.

use super::rail::{self, RAILS, Rail};
use super::ring::FRAME;
use crate::VerbsError;
use crate::objects::{Access, Bytes, LocalSlice, Registration, StableBytes};

/// One range, registered on every rail that works.
#[derive(Debug)]
pub struct Spread {
    /// `None` for a rail that has failed.
    registrations: Vec<Option<Registration>>,
}

impl Spread {
    /// # Safety
    /// As [`Registration::new`].
    pub(super) unsafe fn new(
        rails: &[Rail],
        start: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<Self, VerbsError> {
        let register = |rail: &Rail| {
            // SAFETY: the caller's promise.
            let register = || unsafe { Registration::new(&rail.domain, start, len, access) };
            (!rail.is_broken).then(register).transpose()
        };
        let registrations = rails.iter().map(register).collect::<Result<Vec<_>, _>>()?;
        if registrations.iter().all(Option::is_none) {
            return Err(rail::none_works(rails));
        }
        Ok(Self { registrations })
    }

    /// First byte.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.first().map_or(0, Registration::start)
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first().map_or(0, Registration::len)
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What adapters may do with it.
    #[must_use]
    pub fn access(&self) -> Access {
        self.first()
            .map_or(Access::LOCAL_READ, Registration::access)
    }

    /// The keys for a peer, of all rails in one word.
    #[must_use]
    pub fn remote_keys(&self) -> u64 {
        let mut keys = [0; RAILS];
        for (key, registration) in keys.iter_mut().zip(&self.registrations) {
            *key = registration.as_ref().map_or(0, Registration::remote_key);
        }
        u64::from(keys[0]) | u64::from(keys[1]) << 32
    }

    pub(super) fn slice(&self, rail: usize, at: usize, len: usize) -> Option<LocalSlice> {
        LocalSlice::of(self.registrations.get(rail)?.as_ref()?, at, len)
    }

    fn first(&self) -> Option<&Registration> {
        self.registrations.iter().flatten().next()
    }
}

/// The key for one of its owner's rails out of a word of [`Spread::remote_keys`].
pub(super) fn key_of(keys: u64, rail: usize) -> u32 {
    (keys >> (32 * rail)) as u32
}

/// Bytes before and behind each packet, where the words that frame it in a ring's slot stand
/// (`ring`).
const MARGIN: usize = 8;

/// Packet buffers on their way out, a fixed number for all peers.
#[derive(Debug)]
pub(super) struct Packets {
    // The registrations before their memory.
    spread: Spread,
    memory: Bytes,
    packet_bytes: usize,
    count: usize,
    free: Vec<u32>,
}

impl Packets {
    pub(super) fn new(rails: &[Rail], count: u32, packet_bytes: u32) -> Result<Self, VerbsError> {
        let packet_bytes = packet_bytes as usize;
        let memory = Bytes::zeroed((packet_bytes + 2 * MARGIN) * count as usize)?;
        // SAFETY: the memory is this value's own, and stays until the registrations are gone;
        // adapters only read it.
        let spread = unsafe {
            Spread::new(
                rails,
                memory.start().as_ptr(),
                memory.len(),
                Access::LOCAL_READ,
            )?
        };
        Ok(Self {
            spread,
            memory,
            packet_bytes,
            count: count as usize,
            free: (0..count).rev().collect(),
        })
    }

    pub(super) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Whether more than half of them are on their way, or waiting for that.
    pub(super) fn are_few(&self) -> bool {
        self.free.len() < self.count.div_ceil(2)
    }

    /// The number of the packet in a buffer that was posted.
    pub(super) fn sequence(&self, buffer: u32) -> u32 {
        let mut bytes = [0; 4];
        self.memory.read(self.start_of(buffer), &mut bytes);
        u32::from_le_bytes(bytes)
    }

    pub(super) fn put_back(&mut self, buffer: u32) {
        self.free.push(buffer);
    }

    /// A buffer that was taken and not posted, or whose bytes are only read meanwhile.
    pub(super) fn bytes(&mut self, buffer: u32) -> &mut [u8] {
        let at = self.start_of(buffer);
        debug_assert!(at + self.packet_bytes + MARGIN <= self.memory.len());
        // SAFETY: inside the mapping: buffers are numbers that `new` made. Adapters do not write
        // here (the access is local read), nothing else refers to it, and `&mut self` keeps a
        // second slice from being made.
        unsafe {
            core::slice::from_raw_parts_mut(self.memory.start().as_ptr().add(at), self.packet_bytes)
        }
    }

    /// Puts the words around a packet that a ring's reader looks for. The packet stays as it is, so
    /// that it can still go without them. Gives the bytes of all.
    pub(super) fn frame(&mut self, buffer: u32, len: usize) -> usize {
        let at = self.start_of(buffer);
        let padded = len.next_multiple_of(4);
        let word = padded as u32;
        self.memory.write(at - 4, &word.to_le_bytes());
        self.memory.write(at + len, &[0; 3][..padded - len]);
        self.memory.write(at + padded, &(!word).to_le_bytes());
        padded + FRAME
    }

    pub(super) fn slice(&self, buffer: u32, rail: usize, len: usize) -> Option<LocalSlice> {
        self.spread.slice(rail, self.start_of(buffer), len)
    }

    /// A packet with its frame, of so many bytes in all.
    pub(super) fn framed(&self, buffer: u32, rail: usize, len: usize) -> Option<LocalSlice> {
        self.spread.slice(rail, self.start_of(buffer) - 4, len)
    }

    fn start_of(&self, buffer: u32) -> usize {
        buffer as usize * (self.packet_bytes + 2 * MARGIN) + MARGIN
    }
}
