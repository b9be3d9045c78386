//! Messages of the library's own, in the mode in which any thread may call: others are let in while
//! they wait.

use limic::raw::{Messenger, Posted, RawSlice, RawSliceMut};
use limic::{Outcome, Peer, Result, Selector, Status, Tag};

use crate::entry::Inside;
use crate::errors::Failure;
use crate::messages::{finish, finish_send};

/// Sends and receives that wait by turns.
pub(crate) struct ByTurns<'a>(pub(crate) &'a mut Inside);

/// A copy of a message, or room for one. If the endpoint breaks meanwhile it is leaked: the
/// endpoint still has the operation.
struct Memory(*mut [u8]);

impl Memory {
    fn of(bytes: &[u8]) -> Self {
        Self(Box::into_raw(bytes.into()))
    }

    fn start(&self) -> *mut u8 {
        self.0.cast()
    }

    /// # Safety
    /// No operation uses it.
    unsafe fn back(self) -> Box<[u8]> {
        // SAFETY: made of a box, and nobody else has it by the caller's promise.
        unsafe { Box::from_raw(self.0) }
    }
}

impl ByTurns<'_> {
    fn post_send(&self, to: Peer, tag: Tag, message: &Memory) -> Result<Posted> {
        let (start, len) = (message.start().cast_const(), message.0.len());
        // SAFETY: it stays until the send is over, which is waited for, or for good.
        unsafe { self.0.raw().post_send(to, tag, &[RawSlice { start, len }]) }
    }

    fn post_recv(&self, from: Peer, tag: Tag, room: &Memory) -> Result<Posted> {
        let (start, len) = (room.start(), room.0.len());
        let selector = Selector::exact(from, tag);
        // SAFETY: as in `post_send`.
        unsafe {
            self.0
                .raw()
                .post_recv(&selector, &[RawSliceMut { start, len }])
        }
    }

    /// Waits for a receive into this room, and copies what is there.
    fn received(
        &mut self,
        posted: Result<Posted>,
        room: Memory,
        into: &mut [u8],
    ) -> Result<Outcome, Failure> {
        let received = match posted {
            Ok(posted) => finish(self.0, posted)?,
            Err(why) => Err(why),
        };
        // SAFETY: the receive is over.
        into.copy_from_slice(&unsafe { room.back() });
        Ok(received)
    }
}

impl Messenger for ByTurns<'_> {
    type Failure = Failure;

    fn send(&mut self, to: Peer, tag: Tag, message: &[u8]) -> Result<Result<()>, Failure> {
        let message = Memory::of(message);
        let posted = self.post_send(to, tag, &message);
        let sent = match posted {
            Ok(posted) => finish_send(self.0, posted)?,
            Err(why) => Err(why),
        };
        // SAFETY: the send is over.
        drop(unsafe { message.back() });
        Ok(sent.map(drop))
    }

    fn recv(&mut self, from: Peer, tag: Tag, into: &mut [u8]) -> Result<Result<Status>, Failure> {
        let room = Memory::of(into);
        let posted = self.post_recv(from, tag, &room);
        self.received(posted, room, into)
    }

    fn exchange(
        &mut self,
        (to, message): (Peer, &[u8]),
        (from, into): (Peer, &mut [u8]),
        tag: Tag,
    ) -> Result<(Result<()>, Result<Status>), Failure> {
        let room = Memory::of(into);
        let posted = self.post_recv(from, tag, &room);
        let sent = self.send(to, tag, message)?;
        Ok((sent, self.received(posted, room, into)?))
    }
}
