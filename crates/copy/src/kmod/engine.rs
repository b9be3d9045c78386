//! The engine over `/dev/limic`.

use std::sync::Arc;

use super::abi::{self, Iov};
use super::group::Group;
use super::lasting::Lasting;
use super::session::Session;
use crate::window::{Cursor, MAX_BYTES_PER_CALL, Span, total};
use crate::{
    Access, CopyEngine, CopyError, LocalSlice, LocalSliceMut, RefusalReason, Refused, RemoteRange,
};

/// Slices that a call keeps on the stack; longer lists take more calls of this many.
const SLICES: usize = 64;

/// This process's session with the kernel module, shared by the engines of all pairs.
#[derive(Debug, Clone)]
pub struct Kmod {
    session: Arc<Session>,
}

impl Kmod {
    /// Opens `/dev/limic`. Two system calls; the session ends with the last clone and the last
    /// [`KmodPair`].
    ///
    /// # Errors
    /// [`Refused`] with the reason and what to do: no module loaded, no permission, another
    /// version.
    pub fn open() -> Result<Self, Refused> {
        Session::open().map(|session| Self {
            session: Arc::new(session),
        })
    }

    /// The number by which peers name this session: random, not 0, and of no use to anybody to whom
    /// nothing was exposed.
    #[must_use]
    pub fn session(&self) -> u64 {
        self.session.id
    }

    /// Ends an exposure that a [`KmodPair`] of this session made: when this returns, no peer
    /// touches the buffer. A handle that is not exposed (any more) is not an error.
    ///
    /// # Errors
    /// [`CopyError`], as in a forked child, whose session this is not.
    pub fn revoke(&self, handle: u64) -> Result<(), CopyError> {
        self.session.revoke(handle)
    }

    /// Joins a group, and gives the engine that exposes memory to all of its members, and copies
    /// from and to what they exposed so. A session joins one group at most.
    ///
    /// # Errors
    /// [`Refused`]: all ranks of the group were given out, or there is no such group.
    pub fn join(&self, group: Group) -> Result<(KmodPair, KmodPeer), Refused> {
        self.session.join(group)?;
        Ok(KmodPair::with_group(&self.session))
    }

    /// Exposures of this session that last for many messages; `None` if the module has no latches
    /// for them, or as long as there is another [`Lasting`] of this session.
    #[must_use]
    pub fn lasting(&self) -> Option<Lasting> {
        Lasting::new(&self.session)
    }

    /// The engine for one pair: what it exposes, only the peer's session reaches. `None` for 0,
    /// which is no session.
    #[must_use]
    pub fn pair(&self, peer: u64) -> Option<(KmodPair, KmodPeer)> {
        let pair = KmodPair {
            session: Arc::clone(&self.session),
            peer,
        };
        (peer != 0).then_some((pair, KmodPeer { session: peer }))
    }
}

/// The engine between this session and that of one peer.
///
/// A [`RemoteRange`] is a handle and an offset under it. One exposure holds a whole list of slices,
/// so [`expose`](CopyEngine::expose) always uses one entry.
#[derive(Debug, Clone)]
pub struct KmodPair {
    session: Arc<Session>,
    /// The peer's session, or 0 for all members of this session's group.
    peer: u64,
}

/// A peer's session. The module finds an exposure by its handle alone, so this only keeps pairs
/// apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KmodPeer {
    session: u64,
}

impl KmodPair {
    /// The most slices of a buffer that is exposed.
    pub const SLICES: usize = abi::MAX_IOV;

    /// The engine between a session and its whole group: every member reaches what is exposed.
    pub(crate) fn with_group(session: &Arc<Session>) -> (Self, KmodPeer) {
        let pair = Self {
            session: Arc::clone(session),
            peer: 0,
        };
        (pair, KmodPeer { session: 0 })
    }

    /// As [`expose`](CopyEngine::expose) of a buffer that is likely to come again: the module may
    /// keep it pinned when it is revoked, until the process unmaps or protects a page of it. The
    /// processes that may reach it, and until when, are the same.
    ///
    /// # Errors
    /// As [`expose`](CopyEngine::expose).
    ///
    /// # Safety
    /// As [`expose`](CopyEngine::expose).
    pub unsafe fn expose_once_more(
        &self,
        local: &[LocalSlice],
        access: Access,
    ) -> Result<RemoteRange, CopyError> {
        let keep = self.session.keeping(abi::EXPOSE_KEEP);
        // SAFETY: the caller's promise, passed on.
        unsafe { self.expose_with(local, access, keep) }
    }

    /// The peer's session, or 0 for a group.
    pub(super) fn peer(&self) -> u64 {
        self.peer
    }

    /// Exposes, with these flags beside those of the direction. What only stays exposed makes way
    /// where no more memory may be locked.
    ///
    /// # Safety
    /// As [`CopyEngine::expose`].
    unsafe fn expose_with(
        &self,
        local: &[LocalSlice],
        access: Access,
        flags: u32,
    ) -> Result<RemoteRange, CopyError> {
        // SAFETY: the caller's promise, passed on.
        match unsafe { self.expose_at(local, access, flags, 0) } {
            Err(CopyError::Refused(refused))
                if refused.reason == RefusalReason::LockedMemory && self.session.empty_all() =>
            {
                // SAFETY: as above.
                unsafe { self.expose_at(local, access, flags, 0) }
            }
            result => result,
        }
    }

    /// Exposes, behind a latch if the flags say so.
    ///
    /// # Safety
    /// As [`CopyEngine::expose`].
    pub(super) unsafe fn expose_at(
        &self,
        local: &[LocalSlice],
        access: Access,
        flags: u32,
        latch: usize,
    ) -> Result<RemoteRange, CopyError> {
        let entry = |slice: &LocalSlice| Iov {
            base: slice.pointer().expose_provenance() as u64,
            len: slice.len() as u64,
        };
        // One slice, the usual case, needs no memory.
        let one;
        let many;
        let slices: &[Iov] = match local {
            [slice] => {
                one = [entry(slice)];
                &one
            }
            slices if slices.len() <= Self::SLICES => {
                many = slices.iter().map(entry).collect::<Vec<Iov>>();
                &many
            }
            _ => return Err(CopyError::Other(libc::E2BIG)),
        };
        let direction = match access {
            Access::Read => abi::EXPOSE_READ,
            Access::Write => abi::EXPOSE_WRITE,
            Access::ReadWrite => abi::EXPOSE_READ | abi::EXPOSE_WRITE,
        };
        let mut call = abi::Expose {
            iov: slices.as_ptr().expose_provenance() as u64,
            nr_iov: slices.len() as u32,
            flags: direction | flags,
            to: if self.peer == 0 {
                abi::TO_GROUP
            } else {
                abi::TO_SESSION
            },
            session: self.peer,
            latch: latch as u32,
            ..abi::Expose::default()
        };
        // SAFETY: the list lives until the call returns; what its slices name is touched by peers
        // later, which the caller allows until it revokes.
        unsafe { self.session.call(&mut call) }.map_err(|errno| error(errno, 0))?;
        Ok(RemoteRange {
            key: call.handle,
            address: 0,
            len: call.len,
        })
    }

    /// Copies window after window.
    ///
    /// # Safety
    /// As [`CopyEngine::read_at`] and [`CopyEngine::write_at`], by `flags`.
    unsafe fn copy<L: Span>(
        &self,
        flags: u32,
        remote: &[RemoteRange],
        local: &[L],
        skip: u64,
        limit: u64,
    ) -> Result<u64, CopyError> {
        let (remote_total, local_total) = (total(remote), total(local));
        let total = match (remote_total, local_total) {
            (Some(remote), Some(local)) if remote == local => local,
            _ => {
                return Err(CopyError::LengthMismatch {
                    remote: remote_total.unwrap_or(u64::MAX),
                    local: local_total.unwrap_or(u64::MAX),
                });
            }
        };
        let left = total
            .checked_sub(skip)
            .ok_or(CopyError::SkipTooLong { skip, total })?;
        let wanted = left.min(limit);
        let mut local = Cursor::new(local);
        local.advance(skip);
        let mut copied = 0;
        let mut entries = [crate::window::EMPTY; SLICES];
        while copied < wanted {
            let (range, offset, here) = place(remote, skip + copied);
            let bytes = here.min(wanted - copied).min(MAX_BYTES_PER_CALL);
            let (used, bytes) = local.window(&mut entries, bytes);
            let mut slices = [Iov::default(); SLICES];
            for (slice, entry) in slices.iter_mut().zip(&entries[..used]) {
                *slice = Iov {
                    base: entry.iov_base.expose_provenance() as u64,
                    len: entry.iov_len as u64,
                };
            }
            let offset = range.address.checked_add(offset);
            let mut call = abi::Copy {
                handle: range.key,
                // Beyond every exposure: the module says ERANGE.
                offset: offset.unwrap_or(u64::MAX),
                iov: slices.as_ptr().expose_provenance() as u64,
                nr_iov: used as u32,
                flags,
                ..abi::Copy::default()
            };
            // SAFETY: the list lives on this frame; the slices that it names are parts of the
            // caller's, for which it vouches.
            if let Err(errno) = unsafe { self.session.call(&mut call) } {
                let before_error = if matches!(
                    errno,
                    libc::ENOENT
                        | libc::EACCES
                        | libc::ERANGE
                        | libc::EFAULT
                        | libc::ECANCELED
                        | libc::EINTR
                ) {
                    call.copied.min(bytes)
                } else {
                    0
                };
                return Err(error(errno, copied + before_error));
            }
            copied += bytes;
            local.advance(bytes);
        }
        Ok(copied)
    }
}

/// The range that byte `at` of the list lies in, the byte's offset in it, and what is left of it
/// from there.
fn place(remote: &[RemoteRange], at: u64) -> (RemoteRange, u64, u64) {
    let mut at = at;
    for range in remote {
        if at < range.len {
            return (*range, at, range.len - at);
        }
        at -= range.len;
    }
    // Callers ask for bytes below the total.
    (RemoteRange::default(), 0, 0)
}

/// What the module answered, in the words of the engines.
#[cold]
fn error(errno: i32, copied: u64) -> CopyError {
    let refused = |reason| {
        CopyError::Refused(Refused {
            errno: Some(errno),
            reason,
        })
    };
    match errno {
        libc::EFAULT => CopyError::BadAddress { copied },
        libc::ECANCELED => CopyError::PeerGone,
        libc::ENOENT | libc::EACCES | libc::ERANGE => refused(RefusalReason::NotExposed),
        libc::EAGAIN => refused(RefusalReason::LockedMemory),
        libc::ESTALE => refused(RefusalReason::Forked),
        errno => CopyError::Other(errno),
    }
}

impl Session {
    pub(super) fn revoke(&self, handle: u64) -> Result<(), CopyError> {
        let mut call = abi::Revoke {
            handle,
            reserved: 0,
        };
        // SAFETY: the call touches nothing but its structure.
        match unsafe { self.call(&mut call) } {
            Ok(()) | Err(libc::ENOENT) => Ok(()),
            Err(errno) => Err(error(errno, 0)),
        }
    }
}

impl CopyEngine for KmodPair {
    type Peer = KmodPeer;

    fn name(&self) -> &'static str {
        "kmod"
    }

    unsafe fn expose(
        &self,
        local: &[LocalSlice],
        access: Access,
        out: &mut [RemoteRange],
    ) -> Result<usize, CopyError> {
        let Some(range) = out.first_mut() else {
            return Err(CopyError::ListTooShort { have: 0, need: 1 });
        };
        // SAFETY: the caller's promise, passed on.
        *range = unsafe { self.expose_with(local, access, 0) }?;
        Ok(1)
    }

    fn revoke(&self, ranges: &[RemoteRange]) -> Result<(), CopyError> {
        for range in ranges {
            self.session.revoke(range.key)?;
        }
        Ok(())
    }

    unsafe fn read_at(
        &self,
        _: &KmodPeer,
        remote: &[RemoteRange],
        local: &[LocalSliceMut],
        skip: u64,
        limit: u64,
    ) -> Result<u64, CopyError> {
        // SAFETY: the caller's promise, passed on: `local` is valid for writes.
        unsafe { self.copy(abi::COPY_READ, remote, local, skip, limit) }
    }

    unsafe fn write_at(
        &self,
        _: &KmodPeer,
        remote: &[RemoteRange],
        local: &[LocalSlice],
        skip: u64,
        limit: u64,
    ) -> Result<u64, CopyError> {
        // SAFETY: the caller's promise, passed on: `local` is valid for reads.
        unsafe { self.copy(abi::COPY_WRITE, remote, local, skip, limit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_the_module_says_so() {
        match Kmod::open() {
            Ok(kmod) => assert_ne!(kmod.session(), 0),
            Err(refused) => {
                let text = refused.to_string();
                assert!(text.contains("/dev/limic"), "{text}");
            }
        }
    }

    #[test]
    fn a_byte_is_found_in_its_range() {
        let range = |key, len| RemoteRange {
            key,
            address: 100,
            len,
        };
        let list = [range(1, 10), range(2, 0), range(3, 5)];
        assert_eq!(place(&list, 0), (range(1, 10), 0, 10));
        assert_eq!(place(&list, 9), (range(1, 10), 9, 1));
        assert_eq!(place(&list, 10), (range(3, 5), 0, 5));
        assert_eq!(place(&list, 14), (range(3, 5), 4, 1));
    }
}
