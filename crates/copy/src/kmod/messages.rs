//! Messages that the module matches.
//!
//! A member of a group posts sends and receives; whoever comes second copies, in its own call. How
//! a request ended shows in mapped memory, so that nobody has to trap to look.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::abi::{self, Iov};
use super::call_error::{CallError, refused};
use super::engine::{KmodPair, KmodPeer};
use super::group::{Group, fingerprint};
use super::session::Session;
use super::status::{Ended, News, StatusArea};
use crate::{LocalSlice, LocalSliceMut, RefusalReason, Refused};

/// Which messages a receive or probe means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The sender's rank; `None` is any.
    pub source: Option<u32>,
    /// The tag.
    pub tag: u64,
    /// Bits of the tag that must agree.
    pub mask: u64,
}

/// A message that a probe found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The sender's rank.
    pub source: u32,
    /// Its tag.
    pub tag: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The word beside the bytes.
    pub immediate: Option<u64>,
    /// By this name [`Messages::recv_taken`] receives it; 0 if it was not taken.
    pub name: u64,
}

/// Where a request stands after the call that posted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// Over: [`Messages::ended`] says how.
    Done,
    /// Queued: the memory belongs to it until [`Messages::ended`] gives something.
    Pending,
}

/// A member of a group that sends and receives.
#[derive(Debug)]
pub struct Messages {
    // Before the session, which lives as long as its mapping does.
    status: StatusArea,
    pub(super) session: Arc<Session>,
    rank: u32,
    size: u32,
    group: u64,
}

impl Messages {
    /// Longest message in bytes that the kernel keeps for a receiver that has posted nothing yet.
    pub const BUFFERED: u64 = abi::MAX_BUFFERED;

    /// Slices that one list has at most.
    pub const SLICES: usize = abi::MAX_IOV;

    /// Opens a session with `slots` requests at a time and room for `unexpected` messages, and
    /// joins a group.
    ///
    /// # Errors
    /// [`Refused`], with the reason and what to do.
    pub fn open(slots: u32, unexpected: u32, group: Group) -> Result<Self, Refused> {
        let module = |errno| Refused {
            errno: Some(errno),
            reason: RefusalReason::Module,
        };
        let session = Session::with(slots, unexpected)?;
        let needed =
            abi::FEATURE_IMMEDIATE | abi::FEATURE_CLOSED | abi::FEATURE_JOIN_FD | abi::FEATURE_END;
        if session.features & needed != needed {
            return Err(Refused {
                errno: None,
                reason: RefusalReason::ModuleVersion {
                    theirs: 0,
                    ours: abi::VERSION,
                },
            });
        }
        let status = StatusArea::map(&session, slots).map_err(module)?;
        let join = session.join(group)?;
        Ok(Self {
            status,
            session: Arc::new(session),
            rank: join.rank,
            size: join.size,
            group: fingerprint(join.token),
        })
    }

    /// This member's rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks that the group has room for.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// A number that members of one group have in common, and by which nobody can join it.
    #[must_use]
    pub fn group(&self) -> u64 {
        self.group
    }

    /// The random number of this session, as the module's `measure` file takes it.
    #[must_use]
    pub fn session(&self) -> u64 {
        self.session.id
    }

    /// Readable when something happened since the last [`forget_news`](Self::forget_news). Whoever
    /// it is handed to can join the group by it.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.session.descriptor()
    }

    /// The engine that exposes memory to the whole group, and copies from and to what members
    /// exposed so.
    #[must_use]
    pub fn shared(&self) -> (KmodPair, KmodPeer) {
        KmodPair::with_group(&self.session)
    }

    /// Sends the slices, in a slot in which nothing is pending. With `buffered` the kernel keeps
    /// the bytes, at most [`BUFFERED`](Self::BUFFERED), if there is no receive yet, so that the
    /// request is over at once.
    ///
    /// # Errors
    /// [`CallError`].
    ///
    /// # Safety
    /// The slices are readable, and nobody writes there, until the request is over.
    pub unsafe fn send(
        &self,
        slot: u32,
        to: u32,
        tag: u64,
        immediate: Option<u64>,
        slices: &[LocalSlice],
        buffered: bool,
    ) -> Result<Posted, CallError> {
        let mut call = abi::Send {
            flags: immediate.map_or(0, |_| abi::SEND_IMMEDIATE)
                | if buffered { abi::SEND_BUFFERED } else { 0 }
                | self.session.keeping(abi::SEND_KEEP),
            tag,
            rank: to,
            slot,
            immediate: immediate.unwrap_or(0),
            ..abi::Send::default()
        };
        with_list(
            slices,
            |slice| (slice.pointer().expose_provenance(), slice.len()),
            |list, len| {
                (call.iov, call.nr_iov) = (list, len);
                // SAFETY: the list lives during the call, and for what it names the caller vouches.
                unsafe { self.session.call(&mut call) }
            },
        )?;
        Ok(posted(call.state))
    }

    /// Receives into the slices, in a slot in which nothing is pending.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Gone`] if the source has left and no message of it is here.
    ///
    /// # Safety
    /// The slices are writable, and nobody else touches them, until the request is over.
    pub unsafe fn recv(
        &self,
        slot: u32,
        wanted: Wanted,
        slices: &[LocalSliceMut],
    ) -> Result<Posted, CallError> {
        let call = abi::Recv {
            flags: self.session.keeping(abi::RECV_KEEP),
            tag: wanted.tag,
            mask: wanted.mask,
            rank: wanted.source.unwrap_or(abi::ANY_RANK),
            slot,
            ..abi::Recv::default()
        };
        // SAFETY: the caller's promise.
        unsafe { self.receive(call, slices) }
    }

    /// Receives a message that a probe took. Over when it returns.
    ///
    /// # Errors
    /// [`CallError`].
    ///
    /// # Safety
    /// The slices are writable, and nobody else touches them, during the call.
    pub unsafe fn recv_taken(
        &self,
        slot: u32,
        name: u64,
        slices: &[LocalSliceMut],
    ) -> Result<Posted, CallError> {
        let call = abi::Recv {
            flags: abi::RECV_MESSAGE,
            message: name,
            slot,
            ..abi::Recv::default()
        };
        // SAFETY: the caller's promise.
        unsafe { self.receive(call, slices) }
    }

    /// # Safety
    /// As [`recv`](Self::recv).
    unsafe fn receive(
        &self,
        mut call: abi::Recv,
        slices: &[LocalSliceMut],
    ) -> Result<Posted, CallError> {
        with_list(
            slices,
            |slice| (slice.pointer().expose_provenance(), slice.len()),
            |list, len| {
                (call.iov, call.nr_iov) = (list, len);
                // SAFETY: the list lives during the call, and for what it names the caller vouches.
                unsafe { self.session.call(&mut call) }
            },
        )?;
        Ok(posted(call.state))
    }

    /// The oldest message that fits and is here. With `take` only [`recv_taken`](Self::recv_taken)
    /// finds it afterwards.
    ///
    /// # Errors
    /// [`CallError::Gone`]: there is none, and the source has left.
    pub fn probe(&self, wanted: Wanted, take: bool) -> Result<Option<Found>, CallError> {
        let mut call = abi::Probe {
            tag: wanted.tag,
            mask: wanted.mask,
            rank: wanted.source.unwrap_or(abi::ANY_RANK),
            flags: if take { abi::PROBE_TAKE } else { 0 },
            ..abi::Probe::default()
        };
        // SAFETY: the call touches its structure alone.
        match unsafe { self.session.call(&mut call) } {
            Ok(()) => Ok(Some(Found {
                source: call.rank,
                tag: call.tag,
                len: call.len,
                immediate: (call.flags & abi::PROBE_IMMEDIATE != 0).then_some(call.immediate),
                name: call.message,
            })),
            Err(libc::EAGAIN) => Ok(None),
            Err(errno) => Err(refused(errno)),
        }
    }

    /// Takes back a request that has not matched; its memory is the caller's when this returns.
    ///
    /// # Errors
    /// [`CallError::TooLate`]: it has; it ends by itself.
    pub fn cancel(&self, slot: u32) -> Result<(), CallError> {
        let mut call = abi::Cancel {
            slot,
            ..abi::Cancel::default()
        };
        // SAFETY: the call touches its structure alone.
        unsafe { self.session.call(&mut call) }.map_err(refused)
    }

    /// Takes back a request though it has met its other side, whose call may be copying: when this
    /// returns, no other process touches its memory any more, and the slot shows that it was
    /// cancelled, or how it ended. Waits for one burst of the copy at most.
    ///
    /// # Errors
    /// [`CallError::Forked`].
    pub fn cancel_by_force(&self, slot: u32) -> Result<(), CallError> {
        let mut call = abi::Cancel {
            slot,
            flags: abi::CANCEL_FORCE,
            ..abi::Cancel::default()
        };
        // SAFETY: the call touches its structure alone.
        match unsafe { self.session.call(&mut call) } {
            // It is over, or about to be, and its memory is shut already.
            Err(libc::EALREADY) => Ok(()),
            result => result.map_err(refused),
        }
    }

    /// How the request in a slot ended; `None` while it is pending. No trap.
    #[inline]
    #[must_use]
    pub fn ended(&self, slot: u32) -> Option<Ended> {
        self.status.ended(slot)
    }

    /// What others did to this session so far. No trap.
    #[inline]
    #[must_use]
    pub fn news(&self) -> News {
        self.status.news()
    }

    /// Makes the [`descriptor`](Self::descriptor) readable for what happens from now on only.
    ///
    /// # Errors
    /// [`CallError::Forked`].
    pub fn forget_news(&self) -> Result<(), CallError> {
        // SAFETY: the call touches its structure alone, which names no slots.
        unsafe { self.session.call(&mut abi::Wait::default()) }.map_err(refused)
    }

    /// A call that does nothing: what the trap into the kernel costs.
    ///
    /// # Errors
    /// [`CallError::Forked`].
    pub fn trap(&self) -> Result<(), CallError> {
        self.session.trap().map_err(refused)
    }
}

fn posted(state: u32) -> Posted {
    if state == abi::DONE {
        Posted::Done
    } else {
        Posted::Pending
    }
}

/// Calls with the list as the module reads it; one slice, the usual case, needs no memory.
#[inline]
fn with_list<S>(
    slices: &[S],
    parts: impl Fn(&S) -> (usize, usize),
    call: impl FnOnce(u64, u32) -> Result<(), i32>,
) -> Result<(), CallError> {
    let entry = |slice: &S| {
        let (base, len) = parts(slice);
        Iov {
            base: base as u64,
            len: len as u64,
        }
    };
    let one;
    let many;
    let list: &[Iov] = match slices {
        [slice] => {
            one = [entry(slice)];
            &one
        }
        slices if slices.len() <= abi::MAX_IOV => {
            many = slices.iter().map(entry).collect::<Vec<Iov>>();
            &many
        }
        _ => return Err(CallError::Other(libc::E2BIG)),
    };
    call(list.as_ptr().expose_provenance() as u64, list.len() as u32).map_err(refused)
}
