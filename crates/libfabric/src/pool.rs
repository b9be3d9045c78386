//! Packets in memory: each has room, and the context that libfabric asks for with an operation.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::null_mut;

use limic_ofi_abi::fi_context2;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::packet::PACKET;

/// Packets of one stretch of memory.
const TOGETHER: usize = 16;
/// Bytes of it: whole pages, however long these are.
const BYTES: usize = TOGETHER * PACKET;

/// A packet by its number.
pub(crate) type Slot = u32;

/// What a provider does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// It sends a packet, or receives one.
    Packet(Slot),
    /// It reads a part of a long message, by the number of the read.
    Read(u32),
}

/// What is lent with an operation.
#[repr(C)]
struct Context {
    /// The provider's.
    own: UnsafeCell<fi_context2>,
    operation: Operation,
}

impl Context {
    fn new(operation: Operation) -> Self {
        let internal = [null_mut(); 8];
        let own = UnsafeCell::new(fi_context2 { internal });
        Self { own, operation }
    }
}

/// Some packets, in memory that is registered as one.
struct Stretch {
    memory: Memory,
    contexts: Box<[Context]>,
    description: *mut c_void,
}

/// All packets of an endpoint, and the contexts of its reads.
///
/// # Invariants
/// A packet is free, or of somebody who took it. One that is posted is the provider's, until its
/// completion is read: nothing here touches it.
#[derive(Default)]
pub(crate) struct Pool {
    stretches: Vec<Stretch>,
    free: Vec<Slot>,
    #[expect(clippy::vec_box, reason = "a provider has their addresses")]
    reads: Vec<Box<Context>>,
}

impl Pool {
    /// A packet of one's own. `None`: none is free.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    /// A packet is nobody's.
    pub(crate) fn give_back(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Adds packets in memory that the provider knows by this.
    pub(crate) fn add(&mut self, memory: Memory, description: *mut c_void) {
        let first = (self.stretches.len() * TOGETHER) as Slot;
        let slots = first..first + TOGETHER as Slot;
        let context = |slot| Context::new(Operation::Packet(slot));
        self.stretches.push(Stretch {
            memory,
            contexts: slots.clone().map(context).collect(),
            description,
        });
        self.free.extend(slots.rev());
    }

    /// The room of a packet that is one's own.
    #[expect(unsafe_code, reason = "memory that a provider reads and writes")]
    pub(crate) fn bytes(&mut self, slot: Slot) -> &mut [u8] {
        // SAFETY: the caller has it, so that the provider has not; it lives as long as the pool.
        unsafe { core::slice::from_raw_parts_mut(self.start(slot), PACKET) }
    }

    /// The first byte of a packet.
    #[expect(unsafe_code, reason = "memory that a provider reads and writes")]
    pub(crate) fn start(&self, slot: Slot) -> *mut u8 {
        let (stretch, at) = self.at(slot);
        // SAFETY: within the stretch.
        unsafe { stretch.memory.0.add(at * PACKET) }
    }

    /// What describes a packet's memory to the provider.
    pub(crate) fn description(&self, slot: Slot) -> *mut c_void {
        self.at(slot).0.description
    }

    /// What is lent with an operation. Numbers of reads are small.
    pub(crate) fn context(&mut self, of: Operation) -> *mut c_void {
        if let Operation::Read(number) = of {
            let next = |at: usize| Box::new(Context::new(Operation::Read(at as u32)));
            self.reads
                .extend((self.reads.len()..=number as usize).map(next));
        }
        self.lent(of).cast_mut().cast()
    }

    fn lent(&self, of: Operation) -> *const Context {
        match of {
            Operation::Packet(slot) => {
                let (stretch, at) = self.at(slot);
                &raw const stretch.contexts[at]
            }
            Operation::Read(number) => &raw const *self.reads[number as usize],
        }
    }

    /// The operation of a context that libfabric gives back.
    #[expect(unsafe_code, reason = "memory that a provider reads and writes")]
    pub(crate) fn operation(&self, context: *mut c_void) -> Option<Operation> {
        let context = context.cast_const().cast::<Context>();
        // SAFETY: it gives back what it got, or null; contexts live as long as the pool, and what
        // operation it is is never written.
        let operation = unsafe { context.as_ref() }?.operation;
        (self.lent(operation) == context).then_some(operation)
    }

    fn at(&self, slot: Slot) -> (&Stretch, usize) {
        let slot = slot as usize;
        (&self.stretches[slot / TOGETHER], slot % TOGETHER)
    }
}

/// Who has sent a packet that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Connection(u32),
    /// No connection, or one that is over, since this look at the clock.
    Nobody(u32),
    /// The same, and nobody waits for its completion: a provider may never give it.
    GivenUp,
}

/// The packets that are on their way.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    owners: Vec<Option<Owner>>,
    /// Those that are waited for.
    count: usize,
}

impl UnderWay {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn add(&mut self, slot: Slot, owner: Owner) {
        let slot = slot as usize;
        if slot >= self.owners.len() {
            self.owners.resize(slot + TOGETHER, None);
        }
        self.count += usize::from(self.owners[slot].replace(owner).is_none());
    }

    /// A packet is on its way no more. `None`: it was not.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Owner> {
        let owner = self.owners.get_mut(slot as usize)?.take()?;
        self.count -= usize::from(owner != Owner::GivenUp);
        Some(owner)
    }

    /// A connection is over, whose packets are on their way: they are of this one now.
    pub(crate) fn disown(&mut self, number: u32, now: Owner) {
        self.replace(now, |owner| owner == Owner::Connection(number));
    }

    /// Packets of nobody are not waited for if they are that since an earlier look at the clock
    /// than the last `most` ones.
    pub(crate) fn give_up(&mut self, walks: u32, most: u32) {
        let late = |owner| match owner {
            Owner::Nobody(since) => walks.wrapping_sub(since) > most,
            _ => false,
        };
        self.replace(Owner::GivenUp, late);
    }

    /// No packet is waited for any more.
    pub(crate) fn give_up_all(&mut self) {
        self.replace(Owner::GivenUp, |owner| owner != Owner::GivenUp);
    }

    fn replace(&mut self, now: Owner, which: impl Fn(Owner) -> bool) {
        for owner in self.owners.iter_mut().flatten() {
            if which(*owner) {
                *owner = now;
                self.count -= usize::from(now == Owner::GivenUp);
            }
        }
    }
}

impl core::fmt::Debug for Pool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let all = self.stretches.len() * TOGETHER;
        write!(f, "Pool({} of {all} free)", self.free.len())
    }
}

/// The memory of a stretch, which is a mapping of its own.
pub(crate) struct Memory(*mut u8);

impl Memory {
    /// # Errors
    /// There is none.
    #[expect(unsafe_code, reason = "memory that a provider reads and writes")]
    pub(crate) fn new() -> Result<Self, String> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel picks.
        let start = unsafe { mmap_anonymous(null_mut(), BYTES, rights, MapFlags::PRIVATE) };
        let start = start.map_err(|error| format!("no memory for packets: {error}"))?;
        // A forked child leaves all to its parent, and must not share these pages with an adapter:
        // a page that the parent writes then would be another one than the adapter's.
        // SAFETY: the mapping made above.
        let _ = unsafe { madvise(start, BYTES, Advice::LinuxDontFork) };
        Ok(Self(start.cast()))
    }

    /// Where it begins, and its bytes.
    pub(crate) fn range(&self) -> (*mut u8, usize) {
        (self.0, BYTES)
    }
}

impl Drop for Memory {
    #[expect(unsafe_code, reason = "memory that a provider reads and writes")]
    fn drop(&mut self) {
        // SAFETY: as it was made; the device is closed before its pool goes.
        let _ = unsafe { munmap(self.0.cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_gone_is_given_up() {
        let mut sending = UnderWay::default();
        for (slot, owner) in (0..).zip([1, 1, 2, 3].map(Owner::Connection)) {
            sending.add(slot, owner);
        }
        sending.disown(2, Owner::GivenUp);
        sending.disown(1, Owner::Nobody(u32::MAX));
        assert_eq!(sending.len(), 3);
        sending.give_up(3, 4);
        assert_eq!(sending.remove(1), Some(Owner::Nobody(u32::MAX)));
        sending.give_up(4, 4);
        assert_eq!(sending.len(), 1);
        assert_eq!(sending.remove(0), Some(Owner::GivenUp), "it comes late");
        assert_eq!(sending.remove(3), Some(Owner::Connection(3)));
        assert_eq!((sending.len(), sending.remove(3)), (0, None));
        sending.add(4, Owner::Connection(4));
        sending.give_up_all();
        sending.give_up_all();
        assert_eq!(sending.len(), 0);
    }
}
