//! What became of an operation, for C.

use core::ffi::c_int;

use limic::Outcome;
use limic::{Error, Status};

use crate::errors::Failure;
use crate::errors::limic_error::{self, LIMIC_OK};
use crate::struct_version;

/// What a finished operation or a probe tells. The caller sets `size`; everything else is set by
/// the library, fields that it does not know yet to 0. `limic_status status = LIMIC_STATUS_INIT;`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct limic_status {
    /// Size of this structure in bytes, set by the caller. In an array, that of the first one
    /// counts for all.
    pub size: u32,
    /// `LIMIC_OK`, or what went wrong with this operation.
    pub error: c_int,
    /// The other side: the sender of a received message, the receiver of a sent one. If a peer
    /// failed: which. `LIMIC_ANY_SOURCE` where there is none.
    pub source: u32,
    /// The message's tag.
    pub tag: u32,
    /// The message's context.
    pub context: u32,
    /// 0.
    pub reserved: u32,
    /// The length of the message in bytes, as it was sent: more than the buffer's for
    /// `LIMIC_ERR_TRUNCATED`.
    pub length: u64,
    /// Since 1.1: the word that came beside the bytes, if `has_immediate` is 1; else 0.
    pub immediate: u64,
    /// Since 1.1: 1 if the sender gave such a word (`LIMIC_SEND_IMMEDIATE`), else 0.
    pub has_immediate: u32,
    /// 0.
    pub reserved_too: u32,
}

/// A caller's status, of the size that the caller knows, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusOut {
    to: *mut u8,
    size: usize,
}

/// Bytes of it in version 1.0.
const LEAST: usize = 32;
const _: () = assert!(LEAST <= size_of::<limic_status>());
/// No structure of any version is larger; a size beyond was not set.
const MOST: usize = 4096;

impl StatusOut {
    /// # Safety
    /// `status` is NULL, or its field `size` is readable and as many bytes as that says are
    /// writable (for all elements of an array, which are of equal size), until the call from C
    /// returns.
    #[inline(always)]
    pub(crate) unsafe fn new(status: *mut limic_status) -> Result<Self, Failure> {
        if status.is_null() {
            return Ok(Self {
                to: core::ptr::null_mut(),
                size: 0,
            });
        }
        // SAFETY: the caller's promise.
        let size = unsafe { (&raw const (*status).size).read() } as usize;
        if !(LEAST..=MOST).contains(&size) || !size.is_multiple_of(align_of::<limic_status>()) {
            return Err(struct_version::wrong(size, LEAST, "limic_status"));
        }
        Ok(Self {
            to: status.cast(),
            size,
        })
    }

    /// The element of an array.
    pub(crate) fn at(self, index: usize) -> Self {
        Self {
            to: self.to.wrapping_add(index * self.size),
            ..self
        }
    }

    /// Writes what became of an operation.
    #[inline(always)]
    pub(crate) fn set(self, outcome: &Outcome) {
        if self.to.is_null() {
            return;
        }
        let status = match outcome {
            Ok(status) => done(status),
            Err(error) => failed(error),
        };
        self.write(status);
    }

    /// Writes why a message is not to be had, if that is so: a peer that failed is named here.
    pub(crate) fn unless<T>(self, outcome: limic::Result<T>) -> limic::Result<T> {
        if let (Err(why), false) = (&outcome, self.to.is_null()) {
            self.write(failed(why));
        }
        outcome
    }

    /// Writes what a probe found.
    pub(crate) fn found(self, status: &Status) {
        if !self.to.is_null() {
            self.write(done(status));
        }
    }

    #[inline(always)]
    fn write(self, mut status: limic_status) {
        status.size = self.size as u32;
        // SAFETY: `new` was promised that `size` bytes are writable, and found that `size` is at
        // least the least.
        unsafe { struct_version::give(status, self.to, self.size, LEAST) };
    }
}

#[inline(always)]
fn done(status: &Status) -> limic_status {
    let (immediate, has_immediate) = words(status.immediate);
    limic_status {
        size: 0,
        error: LIMIC_OK as c_int,
        source: status.peer.index(),
        tag: status.tag.mpi_tag(),
        context: status.tag.mpi_context(),
        reserved: 0,
        length: status.len,
        immediate,
        has_immediate,
        reserved_too: 0,
    }
}

#[inline(always)]
fn words(immediate: Option<u64>) -> (u64, u32) {
    (immediate.unwrap_or(0), u32::from(immediate.is_some()))
}

#[cold]
fn failed(error: &Error) -> limic_status {
    let (tag, length, immediate) = match *error {
        Error::Truncated {
            tag,
            sent,
            immediate,
            ..
        } => (tag, sent, immediate),
        _ => (limic::Tag(0), 0, None),
    };
    let (immediate, has_immediate) = words(immediate);
    limic_status {
        size: 0,
        error: limic_error::of(error) as c_int,
        source: error
            .peer()
            .map_or(crate::arguments::LIMIC_ANY_SOURCE, limic::Peer::index),
        tag: tag.mpi_tag(),
        context: tag.mpi_context(),
        reserved: 0,
        length,
        immediate,
        has_immediate,
        reserved_too: 0,
    }
}
