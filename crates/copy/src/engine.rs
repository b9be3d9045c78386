//! What every single-copy engine offers, and the words in which buffers are named.

use std::fmt::Debug;

use crate::CopyError;

/// A slice of another process's memory, as its owner named it.
///
/// The owner makes it with [`CopyEngine::expose`] and sends its three numbers in a message. What
/// they mean is the engine's business:
///
/// - cross-memory attach: `key` is 0 and `address` is an address in the owner;
/// - an engine with handles: `key` is an unguessable handle and `address` an offset under it.
///
/// It comes from a peer, so it may hold anything. Engines hand it to the kernel, which checks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct RemoteRange {
    /// Handle of the exposure; 0 where the engine has none.
    pub key: u64,
    /// Address in the owner, or offset under `key`.
    pub address: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A slice of this process's memory that an engine may read.
///
/// It is an address and a length without a lifetime, because an operation may outlive the call
/// that started it. Only `unsafe` functions use it; they say what must hold then.
#[derive(Debug, Clone, Copy)]
pub struct LocalSlice {
    pointer: *const u8,
    len: usize,
}

/// A slice of this process's memory that an engine may write. See [`LocalSlice`].
#[derive(Debug, Clone, Copy)]
pub struct LocalSliceMut {
    pointer: *mut u8,
    len: usize,
}

impl LocalSlice {
    /// Names `len` bytes at `pointer`.
    #[must_use]
    pub const fn new(pointer: *const u8, len: usize) -> Self {
        Self { pointer, len }
    }

    /// First byte.
    #[must_use]
    pub const fn pointer(self) -> *const u8 {
        self.pointer
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether it names no byte.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
}

impl LocalSliceMut {
    /// Names `len` bytes at `pointer`.
    #[must_use]
    pub const fn new(pointer: *mut u8, len: usize) -> Self {
        Self { pointer, len }
    }

    /// First byte.
    #[must_use]
    pub const fn pointer(self) -> *mut u8 {
        self.pointer
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether it names no byte.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
}

// SAFETY: both types are two numbers that safe code cannot dereference. Whoever calls the unsafe
// function that uses them promises that the memory is valid there, on whatever thread that is.
unsafe impl Send for LocalSlice {}
// SAFETY: as for Send; a shared reference gives only copies of the two numbers.
unsafe impl Sync for LocalSlice {}
// SAFETY: as for `LocalSlice`.
unsafe impl Send for LocalSliceMut {}
// SAFETY: as for `LocalSlice`.
unsafe impl Sync for LocalSliceMut {}

impl From<&[u8]> for LocalSlice {
    fn from(bytes: &[u8]) -> Self {
        Self::new(bytes.as_ptr(), bytes.len())
    }
}

impl From<LocalSliceMut> for LocalSlice {
    fn from(slice: LocalSliceMut) -> Self {
        Self::new(slice.pointer, slice.len)
    }
}

impl From<&mut [u8]> for LocalSliceMut {
    fn from(bytes: &mut [u8]) -> Self {
        Self::new(bytes.as_mut_ptr(), bytes.len())
    }
}

/// What peers may do with an exposed buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Peers may read it.
    Read,
    /// Peers may write it.
    Write,
    /// Peers may read and write it.
    ReadWrite,
}

/// An engine that copies between this process's memory and a peer's with one copy.
///
/// The lists of a call may be cut differently (three remote slices, one local), but must have the
/// same total length. Lists are walked in order.
///
/// # Errors
/// Every copying method returns [`CopyError`].
pub trait CopyEngine: Debug + Send {
    /// A peer that this engine has reached. An engine makes it only after a successful probe.
    type Peer: Debug + Clone + Send;

    /// Short name for tables and log lines, as in "CMA to rank 3".
    fn name(&self) -> &'static str;

    /// Makes `local` reachable for peers and writes what they need to name it into `out`, in
    /// order; returns how many entries of `out` were used (at most `local.len()`: an engine with
    /// handles may name several slices by one range). The lengths add up to that of `local`.
    ///
    /// # Safety
    /// Until [`revoke`](Self::revoke), every slice stays valid for what `access` names; and unless
    /// that is [`Access::Read`], this process holds no reference to the bytes while a peer may
    /// write them.
    ///
    /// # Errors
    /// [`CopyError::ListTooShort`] if `out` has fewer entries than `local`; else the engine's own.
    unsafe fn expose(
        &self,
        local: &[LocalSlice],
        access: Access,
        out: &mut [RemoteRange],
    ) -> Result<usize, CopyError>;

    /// Ends the exposure of `ranges`, which [`expose`](Self::expose) made. A copy by an honest peer
    /// has ended before (the owner heard so in a message).
    ///
    /// # Errors
    /// The engine's own; a range that is not exposed is not an error.
    fn revoke(&self, ranges: &[RemoteRange]) -> Result<(), CopyError>;

    /// Copies a part of the peer's `remote` into `local`: `limit` bytes from byte `skip` of both
    /// lists on, or up to their end if that comes first. Returns the bytes copied, which is always
    /// that whole part; `Ok(0)` without a system call if there is nothing left.
    ///
    /// Checking and skipping costs a walk over both lists per call, so a list of thousands of
    /// slices wants a `limit` of many slices.
    ///
    /// # Safety
    /// For the whole call every slice of `local` is valid for writes of its length, and nobody
    /// else in this process reads or writes it. Nothing is asked of `remote`: the kernel checks
    /// it. What arrives is whatever the peer had there, torn if it was writing.
    ///
    /// # Errors
    /// [`CopyError`]. Bytes of `local` in the part may have changed on error.
    unsafe fn read_at(
        &self,
        peer: &Self::Peer,
        remote: &[RemoteRange],
        local: &[LocalSliceMut],
        skip: u64,
        limit: u64,
    ) -> Result<u64, CopyError>;

    /// Copies a part of `local` into the peer's `remote`: see [`read_at`](Self::read_at).
    ///
    /// # Safety
    /// For the whole call every slice of `local` is valid for reads of its length, and nobody in
    /// this process writes it. The peer consented to writes into `remote`: an engine whose
    /// kernel side does not ask for consent (cross-memory attach) changes whatever lies there.
    ///
    /// # Errors
    /// [`CopyError`].
    unsafe fn write_at(
        &self,
        peer: &Self::Peer,
        remote: &[RemoteRange],
        local: &[LocalSlice],
        skip: u64,
        limit: u64,
    ) -> Result<u64, CopyError>;

    /// Copies all of `remote` into `local`.
    ///
    /// # Safety
    /// As for [`read_at`](Self::read_at).
    ///
    /// # Errors
    /// [`CopyError`].
    unsafe fn read(
        &self,
        peer: &Self::Peer,
        remote: &[RemoteRange],
        local: &[LocalSliceMut],
    ) -> Result<u64, CopyError> {
        // SAFETY: the caller promises the same as `read_at` asks.
        unsafe { self.read_at(peer, remote, local, 0, u64::MAX) }
    }

    /// Copies all of `local` into `remote`.
    ///
    /// # Safety
    /// As for [`write_at`](Self::write_at).
    ///
    /// # Errors
    /// [`CopyError`].
    unsafe fn write(
        &self,
        peer: &Self::Peer,
        remote: &[RemoteRange],
        local: &[LocalSlice],
    ) -> Result<u64, CopyError> {
        // SAFETY: the caller promises the same as `write_at` asks.
        unsafe { self.write_at(peer, remote, local, 0, u64::MAX) }
    }
}
