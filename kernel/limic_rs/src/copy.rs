// SPDX-License-Identifier: GPL-2.0

//! The copy itself: between a peer's pinned memory and the caller's own.

use crate::abi::Iov;
use crate::costs::{Step, Trip};
use crate::ffi;
use crate::held::Held;
use crate::pinned::Position;
use kernel::prelude::*;

/// Bytes that are copied inside the gate at once: what its owner waits for at most when it shuts
/// it.
const BURST: usize = 128 << 10;
/// Faults in a row after which a page that is brought in but cannot be copied is given up.
const STALLS: u32 = 16;

/// Which way the bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From pinned memory to the caller.
    Out,
    /// From the caller to pinned memory.
    In,
}

/// Why a copy ended early.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The caller's memory cannot be read or written.
    Fault,
    /// The owner of the pinned memory shut it.
    Shut,
    /// The caller is being killed.
    Killed,
}

/// Copies `len` bytes between `held` from `offset` on and the caller's pieces; returns the bytes
/// that certainly got through, and why they are not `len`.
///
/// The caller holds no lock: its own memory may take faults here, which user space may serve
/// whenever it likes. The gate is not held meanwhile.
pub(crate) fn copy(
    held: &Held,
    offset: u64,
    pieces: &[Iov],
    len: u64,
    direction: Direction,
    trip: &mut Trip,
) -> (u64, Option<Stopped>) {
    let mut place = Place {
        pieces,
        into: 0,
        left: len,
        direction,
    };
    // What comes before the first burst.
    let mut step = Step::Map;
    let mut stalls = 0;
    let mut stopped = None;
    while place.left > 0 {
        if ffi::killed() {
            stopped = Some(Stopped::Killed);
            break;
        }
        let before = place.left;
        // The pins may go between two bursts, so each one looks for its place anew.
        let burst = held.enter(offset + (len - before), |pinned| {
            trip.step(core::mem::replace(&mut step, Step::Copy));
            place.burst(pinned)
        });
        let Some(burst) = burst else {
            stopped = Some(Stopped::Shut);
            break;
        };
        if let Burst::Fault { addr, bytes } = burst {
            stalls = if place.left < before { 0 } else { stalls + 1 };
            let in_now = ffi::fault_in(addr, bytes.min(BURST), direction == Direction::Out);
            if in_now.is_none() || stalls > STALLS {
                // A signal that kills also ends a fault.
                stopped = Some(if ffi::killed() {
                    Stopped::Killed
                } else {
                    Stopped::Fault
                });
                break;
            }
        } else if place.left == before {
            // Both sides were measured before, so this is not reached; it would end the copy and
            // not the kernel.
            stopped = Some(Stopped::Fault);
            break;
        } else {
            stalls = 0;
        }
        ffi::resched();
    }
    trip.step(Step::Copy);
    (len - place.left, stopped)
}

/// Where a copy is, on the caller's side.
struct Place<'a> {
    /// The piece that is being copied is the first one.
    pieces: &'a [Iov],
    /// Bytes of it that are done.
    into: u64,
    left: u64,
    direction: Direction,
}

/// How far [`Place::burst`] came.
enum Burst {
    /// As far as it may at once.
    Went,
    /// To a user address that is not there; so many bytes are wanted from it.
    Fault { addr: usize, bytes: usize },
}

impl Place<'_> {
    /// Copies up to [`BURST`] bytes, without taking a fault.
    fn burst(&mut self, mut pinned: Position<'_>) -> Burst {
        if self.direction == Direction::In {
            pinned.set_written();
        }
        let mut budget = BURST;
        while budget > 0 && self.left > 0 {
            let Some(piece) = self.pieces.first() else {
                break;
            };
            let here = piece.len - self.into;
            if here == 0 {
                self.pieces = self.pieces.get(1..).unwrap_or(&[]);
                self.into = 0;
                continue;
            }
            let wanted = here.min(self.left);
            let addr = (piece.base + self.into) as usize;
            let Some(stretch) = pinned.stretch() else {
                break;
            };
            let len = (wanted as usize).min(stretch.len).min(budget);
            let done = match self.direction {
                Direction::Out => stretch.copy_out(addr, len),
                Direction::In => stretch.copy_in(addr, len),
            };
            pinned.advance(done);
            self.into += done as u64;
            self.left -= done as u64;
            if done < len {
                let bytes = wanted as usize - done;
                return Burst::Fault {
                    addr: addr + done,
                    bytes,
                };
            }
            budget -= len;
        }
        Burst::Went
    }
}

/// Copies kernel memory to the caller's pieces; returns the bytes that certainly got through.
pub(crate) fn copy_bytes(bytes: &[u8], pieces: &[Iov]) -> (u64, Option<Stopped>) {
    let mut left = bytes;
    for piece in pieces {
        if left.is_empty() {
            break;
        }
        let (now, rest) = left.split_at(left.len().min(piece.len as usize));
        let to = kernel::uaccess::UserPtr::from_addr(piece.base as usize);
        let mut writer = kernel::uaccess::UserSlice::new(to, now.len()).writer();
        if writer.write_slice(now).is_err() {
            return ((bytes.len() - left.len()) as u64, Some(Stopped::Fault));
        }
        left = rest;
    }
    ((bytes.len() - left.len()) as u64, None)
}

/// Copies the caller's pieces into kernel memory.
pub(crate) fn gather(pieces: &[Iov], len: u64) -> Result<KVec<u8>> {
    let mut bytes = KVec::with_capacity(len as usize, GFP_KERNEL_ACCOUNT)?;
    for piece in pieces {
        let from = kernel::uaccess::UserPtr::from_addr(piece.base as usize);
        kernel::uaccess::UserSlice::new(from, piece.len as usize)
            .read_all(&mut bytes, GFP_KERNEL_ACCOUNT)?;
    }
    Ok(bytes)
}
