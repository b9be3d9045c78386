//! Where message bytes lie or go to: records of rings, windows of shared memory, private memory.

use core::marker::PhantomData;

use super::{Sink, Source};
use crate::ring::{self, Mapped, Memory, StoreMode};
use crate::segment::PeerArena;

impl Sink for ring::line::Reservation<'_, Mapped> {
    #[inline(always)]
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize) {
        // SAFETY: the caller's promise; records are shorter than 4 GiB.
        unsafe { self.write(at as u32, from, len as u32) }
    }
}

impl Sink for ring::shared::Reservation<'_, Mapped> {
    #[inline(always)]
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize) {
        // SAFETY: the caller's promise; records are shorter than 4 GiB.
        unsafe { self.write(at as u32, from, len as u32) }
    }
}

// SAFETY: a record has one length, and writes what it was asked for.
unsafe impl Source for ring::Record<'_, Mapped> {
    #[inline(always)]
    fn len(&self) -> u64 {
        u64::from(self.len)
    }
    #[inline(always)]
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.read(at as u32, to, len as u32) }
    }
}

/// A range of mapped memory: a staging buffer or a loan.
#[derive(Debug)]
pub struct Window<'a> {
    memory: &'a Mapped,
    start: usize,
    len: usize,
    to_far: bool,
}

impl<'a> Window<'a> {
    /// `None` unless the range lies within the memory; the numbers may come from a peer.
    #[inline]
    pub fn new(memory: &'a Mapped, start: u64, len: u64) -> Option<Self> {
        let (start, len) = (usize::try_from(start).ok()?, usize::try_from(len).ok()?);
        (start.checked_add(len)? <= memory.len()).then_some(Self {
            memory,
            start,
            len,
            to_far: false,
        })
    }

    /// The same. `to_far`: whether who reads what is written here is far away.
    #[inline(always)]
    pub fn to_far(self, to_far: bool) -> Self {
        Self { to_far, ..self }
    }
}

impl Sink for Window<'_> {
    #[inline(always)]
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize) {
        debug_assert!(at as usize + len <= self.len);
        let at = self.start + at as usize;
        // SAFETY: the caller keeps within the window, which `new` checked against the memory.
        unsafe {
            if self.to_far {
                self.memory.write_to_far(at, from, len);
            } else {
                self.memory.write(at, from, len);
            }
        }
    }
}

// SAFETY: `Memory::read` writes what it was asked for.
unsafe impl Source for Window<'_> {
    #[inline]
    fn len(&self) -> u64 {
        self.len as u64
    }
    #[inline]
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        debug_assert!(at as usize + len <= self.len);
        // SAFETY: the caller keeps within the window, which `new` checked against the memory.
        unsafe { self.memory.read(self.start + at as usize, to, len) }
    }
    #[inline]
    unsafe fn get_to(&self, how: StoreMode, at: u64, to: *mut u8, len: usize) {
        debug_assert!(at as usize + len <= self.len);
        // SAFETY: as in `get`.
        unsafe { self.memory.read_to(how, self.start + at as usize, to, len) }
    }
}

/// A part of a message, the room for which is written as this says.
#[derive(Debug)]
pub struct StoreHint<'a, S: ?Sized>(pub StoreMode, pub &'a S);

// SAFETY: as the source within.
unsafe impl<S: Source + ?Sized> Source for StoreHint<'_, S> {
    #[inline]
    fn len(&self) -> u64 {
        self.1.len()
    }
    #[inline]
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.1.get_to(self.0, at, to, len) }
    }
}

/// Bytes of a peer's arena, which stays mapped meanwhile.
#[derive(Debug)]
pub struct ArenaBytes<'a> {
    start: *const u8,
    len: u64,
    _arena: PhantomData<&'a PeerArena>,
}

impl<'a> ArenaBytes<'a> {
    /// `None` unless the range lies within the arena; the numbers come from a peer.
    #[inline]
    pub fn new(arena: &'a PeerArena, offset: u64, len: u64) -> Option<Self> {
        Some(Self {
            start: arena.pointer(offset, len)?,
            len,
            _arena: PhantomData,
        })
    }
}

// SAFETY: a plain copy.
unsafe impl Source for ArenaBytes<'_> {
    #[inline]
    fn len(&self) -> u64 {
        self.len
    }
    #[inline]
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        // SAFETY: within the range that `new` checked, of an arena that is mapped as long as this
        // value lives. A sender that writes now changes which bytes are copied, nothing else.
        unsafe { ring::copy_from_peer(self.start.wrapping_add(at as usize), to, len) }
    }
    #[inline]
    unsafe fn get_to(&self, how: StoreMode, at: u64, to: *mut u8, len: usize) {
        // SAFETY: as in `get`.
        unsafe { ring::copy_from_peer_to(how, self.start.wrapping_add(at as usize), to, len) }
    }
}

// SAFETY: a plain copy.
unsafe impl Source for [u8] {
    #[inline]
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }
    #[inline]
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        debug_assert!(at as usize + len <= <[u8]>::len(self));
        // SAFETY: the caller's promise; `to` is memory of an operation, never this slice.
        unsafe { ring::copy_bytes(self.as_ptr().add(at as usize), to, len) }
    }
}

/// Private memory of this process as a place to write to.
#[derive(Debug)]
pub struct PrivateBytes<'a>(&'a mut [u8]);

impl<'a> PrivateBytes<'a> {
    /// All of `room`.
    pub fn new(room: &'a mut [u8]) -> Self {
        Self(room)
    }
}

impl Sink for PrivateBytes<'_> {
    #[inline]
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize) {
        debug_assert!(at as usize + len <= self.0.len());
        // SAFETY: the caller's promise; `from` is memory of an operation, never this slice.
        unsafe { ring::copy_bytes(from, self.0.as_mut_ptr().add(at as usize), len) }
    }
}

/// The bytes of a source or sink behind its first `skip` ones.
#[derive(Debug)]
pub struct Skip<S> {
    /// All bytes.
    pub inner: S,
    /// How many of them are left out.
    pub skip: u64,
}

// SAFETY: as the source within; `len` changes only with who has this value alone.
unsafe impl<S: Source + ?Sized> Source for Skip<&S> {
    #[inline(always)]
    fn len(&self) -> u64 {
        self.inner.len().saturating_sub(self.skip)
    }
    #[inline(always)]
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise; `skip + at + len` is within the inner source.
        unsafe { self.inner.get(self.skip + at, to, len) }
    }
}

impl<S: Sink> Sink for Skip<&mut S> {
    #[inline(always)]
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize) {
        // SAFETY: the caller's promise, `skip` bytes further on.
        unsafe { self.inner.put(self.skip + at, from, len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lies_within_its_memory_whatever_the_numbers() {
        let memory = ring::heap(4096);
        let numbers = [
            0,
            1,
            63,
            64,
            4095,
            4096,
            4097,
            1 << 32,
            1 << 63,
            u64::MAX - 1,
            u64::MAX,
        ];
        for (start, len) in numbers
            .iter()
            .flat_map(|start| numbers.map(|len| (*start, len)))
        {
            let is_within = u128::from(start) + u128::from(len) <= 4096;
            let window = Window::new(&memory, start, len);
            assert_eq!(window.is_some(), is_within, "{len} bytes at {start}");
            if let Some(window) = window {
                let mut bytes = vec![1; Source::len(&window) as usize];
                // SAFETY: the vector has as many bytes as the window.
                unsafe { window.get(0, bytes.as_mut_ptr(), bytes.len()) };
                assert!(bytes.iter().all(|byte| *byte == 0));
            }
        }
    }
}
