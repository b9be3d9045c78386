//! LiMIC2 over the kernel module: a prepared buffer is an exposure, and its handle travels.
//!
//! LiMIC2's descriptors go to anybody, so a buffer is exposed to a group: all processes of this
//! user (the module keeps users and user namespaces apart) with the same `LIMIC2_GROUP`. Of these
//! only who knows the handle, 64 random bits, reaches the buffer, and only that.
//!
//! The bytes of an exposure are a [`Header`] and then the buffer. From the header the copying
//! process learns at which address the buffer begins, so that it can tell which part a descriptor
//! means; whatever it believes, the kernel copies nothing beyond the buffer.
//!
//! LiMIC2 has no call that ends a preparation. So the last exposures are kept, up to [`KEPT`] and
//! [`KEPT_BYTES`], and fewer if RLIMIT_MEMLOCK allows no more. A buffer is exposed anew each time
//! it is prepared, as other pages may be there by then.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use limic_copy::{
    Access, CopyEngine, CopyError, Group, Kmod, KmodPair, KmodPeer, LocalSlice, LocalSliceMut,
    RefusalReason, Refused, RemoteRange,
};

use crate::descriptor::{Part, Registered};
use crate::refusal::Refusal;
use crate::session::{Local, refused};

/// Exposures of one session that stay.
const KEPT: usize = 1024;
/// Bytes that they have together; the newest stays, however long.
const KEPT_BYTES: usize = 256 << 20;

/// Names the group, beside the user.
const GROUP: &str = "LIMIC2_GROUP";
/// Ranks of the group: as many as the module gives.
const RANKS: u32 = 65536;

/// What lies before the buffer in its exposure. Peers may write it where they may write the buffer;
/// nobody in this process reads it.
#[derive(Debug, Default)]
#[repr(C)]
struct Header {
    start: AtomicU64,
    len: AtomicU64,
    /// The field `tsk` of the descriptor: one that was changed is found out.
    place: AtomicU64,
}

const HEADER_BYTES: usize = size_of::<Header>();

/// An exposure of this session.
#[derive(Debug)]
struct Kept {
    handle: u64,
    bytes: usize,
    /// In a place of its own, which stays as long as peers may look at it.
    _header: Box<Header>,
}

/// What a header said.
#[derive(Clone, Copy, Debug)]
struct Exposed {
    handle: u64,
    whole: Part,
    place: u64,
}

/// This session's side of the module.
#[derive(Debug)]
pub(crate) struct Module {
    engine: KmodPair,
    group: KmodPeer,
    kept: Mutex<VecDeque<Kept>>,
    /// The last header that was read. A handle is never given twice and its header never changes,
    /// so it stays right.
    last: Mutex<Option<Exposed>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The token of the group: not secret, since the module lets nobody in but this user.
fn token(name: &[u8]) -> [u64; 2] {
    // FNV-1a, from two beginnings.
    [0xcbf2_9ce4_8422_2325_u64, 0x6c69_6d69_6332_0001].map(|begin| {
        let hash = b"limic2\0".iter().chain(name).fold(begin, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        hash | 1
    })
}

impl Module {
    pub(crate) fn open() -> Result<Self, Refusal> {
        let failed = |why: Refused| {
            Refusal::new(
                why.errno.unwrap_or(libc::EPROTO),
                format!("the kernel module: {why}"),
            )
        };
        let name = std::env::var_os(GROUP).unwrap_or_default();
        let token = token(name.as_encoded_bytes());
        let module = Kmod::open().map_err(failed)?;
        let (engine, group) = module.join(Group::Token(token, RANKS)).map_err(failed)?;
        Ok(Self {
            engine,
            group,
            kept: Mutex::new(VecDeque::new()),
            last: Mutex::new(None),
        })
    }

    /// Exposes a buffer, and enters its handle where others look it up.
    pub(crate) fn prepare(
        &self,
        part: Part,
        register: impl FnOnce(u64) -> Result<Registered, Refusal>,
    ) -> Result<Registered, Refusal> {
        let header = Box::new(Header {
            start: AtomicU64::new(part.start as u64),
            len: AtomicU64::new(part.len as u64),
            place: AtomicU64::new(0),
        });
        let handle = self.expose(&header, part).map_err(|why| refused(&why))?;
        let registered = register(handle);
        if let Ok(registered) = registered {
            // Before the handle leaves this process; it travels by a channel that orders this.
            header.place.store(registered.place(), Ordering::Release);
        }
        self.keep(Kept {
            handle,
            bytes: part.len,
            _header: header,
        });
        registered
    }

    fn expose(&self, header: &Header, part: Part) -> Result<u64, CopyError> {
        let pieces = [
            LocalSlice::new((&raw const *header).cast(), HEADER_BYTES),
            LocalSlice::new(core::ptr::with_exposed_provenance(part.start), part.len),
        ];
        let mut range = [RemoteRange::default()];
        // Buffers that cannot be written are prepared too, for reading.
        let mut access = Access::ReadWrite;
        loop {
            // SAFETY: the header is made of atomics and lives until it is revoked; for the buffer
            // the caller of limic_tx_init vouches.
            match unsafe { self.engine.expose(&pieces, access, &mut range) } {
                Ok(_) => return Ok(range[0].key),
                Err(CopyError::BadAddress { .. }) if access == Access::ReadWrite => {
                    access = Access::Read;
                }
                Err(CopyError::Refused(Refused {
                    reason: RefusalReason::LockedMemory,
                    ..
                })) if self.drop_oldest() => {}
                Err(why) => return Err(why),
            }
        }
    }

    fn keep(&self, new: Kept) {
        let mut kept = locked(&self.kept);
        kept.push_back(new);
        let mut bytes: usize = kept.iter().map(|one| one.bytes).sum();
        let mut old = Vec::new();
        while kept.len() > KEPT || (bytes > KEPT_BYTES && kept.len() > 1) {
            let Some(one) = kept.pop_front() else { break };
            bytes -= one.bytes;
            old.push(one);
        }
        // It may have to wait for a copy of a peer.
        drop(kept);
        for one in old {
            self.revoke(one);
        }
    }

    /// Ends the oldest exposure, if there is any.
    fn drop_oldest(&self) -> bool {
        let oldest = locked(&self.kept).pop_front();
        let found = oldest.is_some();
        if let Some(oldest) = oldest {
            self.revoke(oldest);
        }
        found
    }

    fn revoke(&self, kept: Kept) {
        let range = RemoteRange {
            key: kept.handle,
            ..RemoteRange::default()
        };
        if self.engine.revoke(&[range]).is_err() {
            // Peers may still look at the header.
            core::mem::forget(kept);
        }
    }

    /// Copies `part` of a buffer that some process exposed. False if it is not exposed, or not any
    /// more.
    ///
    /// # Safety
    /// `local` has as many bytes as `part` and is valid for the copy, during the call.
    pub(crate) unsafe fn copy(
        &self,
        registered: Registered,
        part: Part,
        local: Local,
    ) -> Result<bool, Refusal> {
        let Some(exposed) = self.find(registered.key)? else {
            return Ok(false);
        };
        if exposed.place != registered.place() {
            return Err(Refusal::stale("the handle was changed on the way"));
        }
        exposed.whole.holds(part, registered.pid)?;
        let remote = [RemoteRange {
            key: registered.key,
            address: (HEADER_BYTES + part.start - exposed.whole.start) as u64,
            len: part.len as u64,
        }];
        let copied = match local {
            // SAFETY: valid for writes by the caller's promise.
            Local::Into(into) => unsafe { self.engine.read(&self.group, &remote, &[into]) },
            // SAFETY: valid for reads by the caller's promise. The owner agreed to writes when it
            // exposed the buffer for them.
            Local::From(from) => unsafe { self.engine.write(&self.group, &remote, &[from]) },
        };
        match copied {
            Ok(_) => Ok(true),
            Err(why) if is_gone(&why) => {
                *locked(&self.last) = None;
                Ok(false)
            }
            Err(CopyError::Refused(Refused {
                errno: Some(libc::EACCES),
                ..
            })) => Err(Refusal::new(
                libc::EFAULT,
                "the prepared buffer cannot be written",
            )),
            Err(CopyError::Refused(Refused {
                errno: Some(libc::ERANGE),
                ..
            })) => Err(Refusal::new(
                libc::EACCES,
                "the part does not lie within the prepared buffer",
            )),
            Err(why) => Err(refused(&why)),
        }
    }

    /// What the header of an exposure says. `None` if there is none under this handle.
    fn find(&self, handle: u64) -> Result<Option<Exposed>, Refusal> {
        let last = *locked(&self.last);
        if let Some(known) = last.filter(|known| known.handle == handle) {
            return Ok(Some(known));
        }
        let mut words = [0_u64; HEADER_BYTES / 8];
        let remote = [RemoteRange {
            key: handle,
            address: 0,
            len: HEADER_BYTES as u64,
        }];
        let into = LocalSliceMut::new(words.as_mut_ptr().cast(), HEADER_BYTES);
        // SAFETY: `words` has this many bytes and is used by nobody else during the call.
        match unsafe { self.engine.read(&self.group, &remote, &[into]) } {
            Ok(_) => {}
            Err(why) if is_gone(&why) => return Ok(None),
            Err(why) => return Err(refused(&why)),
        }
        let [start, len, place] = words;
        let whole = usize::try_from(start)
            .ok()
            .zip(usize::try_from(len).ok())
            .and_then(|(start, len)| Part::new(start, len));
        let Some(whole) = whole else {
            return Err(Refusal::stale("the handle is none of liblimic2's"));
        };
        let found = Exposed {
            handle,
            whole,
            place,
        };
        *locked(&self.last) = Some(found);
        Ok(Some(found))
    }
}

/// Whether the module knows no such exposure for this process, or it ended meanwhile.
fn is_gone(why: &CopyError) -> bool {
    match why {
        CopyError::PeerGone => true,
        CopyError::Refused(refused) => refused.errno == Some(libc::ENOENT),
        _ => false,
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // Not left to the end of the descriptor: a forked child may hold it too.
        let kept = std::mem::take(&mut *locked(&self.kept));
        for one in kept {
            self.revoke(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_differ_by_name_and_are_the_same_in_every_process() {
        assert_eq!(token(b"one"), token(b"one"));
        assert_ne!(token(b"one"), token(b"two"));
        assert_ne!(token(b"")[0], token(b"")[1]);
        assert!(token(b"").iter().all(|&word| word != 0));
    }
}
