//! The loop that moves any list over a system call that moves a bounded one.

use std::ptr;

use libc::iovec;
use nix::errno::Errno;

use crate::window::{Cursor, EMPTY, MAX_BYTES_PER_CALL, Span, total};
use crate::{CmaPeer, RemoteRange};

/// Bytes of the word by which a peer is known.
const WORD: usize = size_of::<u64>();
/// Entries per side that the usual call keeps on the stack (512 bytes for both sides).
const FEW: usize = 16;
/// Entries per side and system call of longer lists (8 KiB of stack for both sides; below the
/// kernel's limit of 1024, where more would no longer make the call cheaper per entry).
const MANY: usize = 256;

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the peer: `process_vm_readv`.
    Read,
    /// To the peer: `process_vm_writev`.
    Write,
}

/// The system call, so that tests can put one in its place that stops where they want.
pub(crate) trait VmSyscall {
    /// Copies between `local` and `remote` of process `pid`; returns the bytes copied, or errno.
    ///
    /// # Safety
    /// Every entry of `local` is valid for reads ([`Direction::Write`]) or for writes
    /// ([`Direction::Read`]) of its length, as [`crate::CopyEngine::read_at`] says.
    unsafe fn call(
        &self,
        direction: Direction,
        pid: i32,
        local: &[iovec],
        remote: &[iovec],
    ) -> Result<usize, i32>;
}

/// The kernel's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel;

impl VmSyscall for Kernel {
    unsafe fn call(
        &self,
        direction: Direction,
        pid: i32,
        local: &[iovec],
        remote: &[iovec],
    ) -> Result<usize, i32> {
        #[cfg(limic_sim)]
        if let Some(call) = crate::simulated::installed() {
            return call(direction == Direction::Write, pid, local, remote);
        }
        // The counts are at most `MANY`.
        let (locals, remotes) = (local.len() as libc::c_ulong, remote.len() as libc::c_ulong);
        let result = match direction {
            // SAFETY: both lists are valid arrays of their length; the caller promises that what
            // `local` names may be written; `remote` is checked by the kernel.
            Direction::Read => unsafe {
                libc::process_vm_readv(pid, local.as_ptr(), locals, remote.as_ptr(), remotes, 0)
            },
            // SAFETY: as above, with `local` being read.
            Direction::Write => unsafe {
                libc::process_vm_writev(pid, local.as_ptr(), locals, remote.as_ptr(), remotes, 0)
            },
        };
        usize::try_from(result).map_err(|_| Errno::last_raw())
    }
}

/// How a transfer ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The kernel said so, after `copied` bytes.
    Errno { errno: i32, copied: u64 },
    /// The lists do not have the same length.
    Mismatch { remote: u64, local: u64 },
    /// `skip` is longer than the lists.
    Skip { skip: u64, total: u64 },
    /// What was read is not the peer's: another process has its pid, or it runs another program.
    Stranger,
}

/// The word that another process has at `address`, if it has one there.
pub(crate) fn read_word<V: VmSyscall>(
    vm: &V,
    pid: i32,
    address: usize,
) -> Result<Option<u64>, i32> {
    let mut word = 0_u64;
    let (local, remote) = (&raw mut word, ptr::without_provenance_mut(address));
    let (local, remote) = ([word_entry(local)], [word_entry(remote)]);
    // SAFETY: the call writes to `word` alone, of this frame.
    let read = unsafe { vm.call(Direction::Read, pid, &local, &remote) };
    read.map(|bytes| (bytes == WORD).then_some(word))
}

/// Moves `limit` bytes from byte `skip` of both lists on, or to their end. The usual case is one
/// system call, two walks over the lists and no allocation.
///
/// # Safety
/// As [`VmSyscall::call`] for every slice of `local`, for the whole call.
pub(crate) unsafe fn transfer<V: VmSyscall, L: Span>(
    vm: &V,
    direction: Direction,
    peer: &CmaPeer,
    remote: &[RemoteRange],
    local: &[L],
    skip: u64,
    limit: u64,
) -> Result<u64, Stopped> {
    let (remote_total, local_total) = (total(remote), total(local));
    let total = match (remote_total, local_total) {
        (Some(remote), Some(local)) if remote == local => local,
        _ => {
            return Err(Stopped::Mismatch {
                remote: remote_total.unwrap_or(u64::MAX),
                local: local_total.unwrap_or(u64::MAX),
            });
        }
    };
    let Some(left) = total.checked_sub(skip) else {
        return Err(Stopped::Skip { skip, total });
    };
    // A range that leaves the address space is what the kernel calls EFAULT; say so before the
    // arithmetic of a window wraps.
    let in_address_space = |range: &RemoteRange| {
        range
            .address
            .checked_add(range.len)
            .is_some_and(|end| usize::try_from(end).is_ok())
    };
    if !remote.iter().all(in_address_space) {
        return Err(Stopped::Errno {
            errno: libc::EFAULT,
            copied: 0,
        });
    }

    let mut remote = Cursor::new(remote);
    let mut local = Cursor::new(local);
    if skip > 0 {
        remote.advance(skip);
        local.advance(skip);
    }
    let wanted = left.min(limit);
    // SAFETY: the caller's promise, passed on.
    unsafe {
        if remote.is_short(FEW - 1) && local.is_short(FEW - 1) {
            run::<FEW, V, L>(vm, direction, peer, remote, local, wanted)
        } else {
            run::<MANY, V, L>(vm, direction, peer, remote, local, wanted)
        }
    }
}

/// Moves `wanted` bytes from both cursors on, fewer than `N` entries per side and call.
///
/// A read takes the peer's word along. The kernel reads all of a call out of one memory, so the
/// bytes are the peer's if the word is.
///
/// # Safety
/// As [`transfer`].
// Not inlined: the long form's 8 KiB of stack must not be part of the short form's frame.
#[inline(never)]
unsafe fn run<const N: usize, V: VmSyscall, L: Span>(
    vm: &V,
    direction: Direction,
    peer: &CmaPeer,
    mut remote: Cursor<'_, RemoteRange>,
    mut local: Cursor<'_, L>,
    wanted: u64,
) -> Result<u64, Stopped> {
    let (mut remote_entries, mut local_entries) = ([EMPTY; N], [EMPTY; N]);
    let mut word = 0_u64;
    let mut copied = 0;
    while copied < wanted {
        let limit = (wanted - copied).min(MAX_BYTES_PER_CALL);
        let (mut locals, bytes) = local.window(&mut local_entries[..N - 1], limit);
        let (mut remotes, reach) = remote.window(&mut remote_entries[..N - 1], bytes);
        if reach < bytes {
            // The remote entries ran out first. Both sides must name the same bytes, or the
            // kernel would pin pages that it does not copy.
            (locals, _) = local.window(&mut local_entries[..N - 1], reach);
        }
        if direction == Direction::Read {
            local_entries[locals] = word_entry(&raw mut word);
            remote_entries[remotes] = word_entry(ptr::without_provenance_mut(peer.word));
            (locals, remotes) = (locals + 1, remotes + 1);
        }
        // SAFETY: the entries name parts of the caller's slices, for which it vouches, and a word
        // of this frame.
        let moved = unsafe {
            vm.call(
                direction,
                peer.pid,
                &local_entries[..locals],
                &remote_entries[..remotes],
            )
        };
        match moved {
            // The kernel gives a count only if it is above 0, and no window is empty; an endless
            // loop must not hang on that.
            Ok(bytes) if bytes == 0 || reach == 0 => {
                return Err(Stopped::Errno {
                    errno: libc::EIO,
                    copied,
                });
            }
            Ok(bytes) => {
                let bytes = bytes as u64;
                let is_peer = match direction {
                    Direction::Write => true,
                    Direction::Read if bytes == reach + WORD as u64 => word == peer.value,
                    // The word was not reached. A process that has it now had it before.
                    Direction::Read => read_word(vm, peer.pid, peer.word) == Ok(Some(peer.value)),
                };
                if !is_peer {
                    return Err(Stopped::Stranger);
                }
                // A short count means that the kernel met something bad after some bytes. The
                // next call starts there and gets the errno.
                let bytes = bytes.min(reach);
                copied += bytes;
                if copied < wanted {
                    remote.advance(bytes);
                    local.advance(bytes);
                }
            }
            Err(libc::EINTR) => {}
            Err(errno) => return Err(Stopped::Errno { errno, copied }),
        }
    }
    Ok(copied)
}

/// A word in a list.
fn word_entry(word: *mut u64) -> iovec {
    iovec {
        iov_base: word.cast(),
        iov_len: WORD,
    }
}

#[cfg(test)]
mod tests;
