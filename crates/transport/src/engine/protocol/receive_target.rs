//! Where bytes go of a message that comes in parts: in fragments, or as a long record of a network.

use limic_records::Violation;
use limic_shm::bytes::{ReceiveBuffer, Source, append};

use crate::engine::matching::unexpected_store::UnexpectedStore;
use crate::engine::protocol::unexpected;
use crate::engine::request::{Destination, ReceiveStage, Requests, Slot};
use crate::raw::RawSliceMut;

/// What is wrong with bytes that nobody wants from their sender.
pub(crate) const UNWANTED: Violation = "bytes that were not asked for";

/// Where the next bytes of a message go.
pub(crate) enum ReceiveTarget<'a> {
    /// Into a receive.
    Receive(Room<'a>),
    /// Behind what is kept of an unexpected message.
    Unexpected(&'a mut Vec<u8>),
    /// Nobody wants them: the receive is over, since it had less room, or its scope failed.
    Nowhere,
}

/// Room for bytes in a receive.
pub(crate) struct Room<'a> {
    slot: Slot,
    into: &'a ReceiveBuffer,
    /// Its next byte, and how many it wants from there on: both lie in the buffer.
    at: u64,
    len: u64,
    /// Bytes that have come, and those that are wanted.
    got: &'a mut u64,
    wanted: u64,
    /// They are stored past the caches.
    non_temporal: bool,
}

/// What bytes of a message have brought.
#[must_use]
pub(crate) enum Came {
    /// A part; or nobody wants them.
    Part,
    /// The last ones of a receive.
    All(Slot),
    /// So many bytes of an unexpected message.
    Unexpected(u64),
}

impl<'a> ReceiveTarget<'a> {
    /// Where `len` bytes go from byte `at` of a message on. `cut`: the message may be longer than
    /// its receive.
    ///
    /// # Errors
    /// The receive has not asked for them.
    #[inline]
    pub(crate) fn find(
        requests: &'a mut Requests,
        store: &'a mut UnexpectedStore,
        from: u32,
        to: Destination,
        (at, len): (u64, u64),
        cut: bool,
    ) -> Result<Self, Violation> {
        let id = match to {
            Destination::Receive(id) => id,
            Destination::Unexpected(token) => {
                return Ok(store.partial(token).map_or(Self::Nowhere, Self::Unexpected));
            }
        };
        let slot = requests.find(id);
        let Some((slot, receiving)) = slot.and_then(|slot| Some((slot, requests.receiving(slot)?)))
        else {
            return Ok(Self::Nowhere);
        };
        let into = &receiving.into;
        let (sender, got, wanted, non_temporal) = match &mut receiving.stage {
            ReceiveStage::Assembling(incoming) => (
                incoming.envelope.from,
                &mut incoming.got,
                incoming.wanted,
                incoming.non_temporal,
            ),
            ReceiveStage::Get { from, got, .. } => (*from, got, into.len(), false),
            _ => return Err(UNWANTED),
        };
        let end = at.checked_add(len);
        if sender != from || (!cut && (len == 0 || end.is_none_or(|end| end > wanted))) {
            return Err(UNWANTED);
        }
        Ok(Self::Receive(Room {
            slot,
            into,
            at,
            len: len.min(wanted.saturating_sub(at)),
            got,
            wanted,
            non_temporal,
        }))
    }

    /// Copies these bytes, the next ones, to where they belong.
    ///
    /// # Errors
    /// There is no memory for them.
    #[inline]
    pub(crate) fn take(self, bytes: &(impl Source + ?Sized)) -> Result<Came, Violation> {
        Ok(match self {
            Self::Receive(room) => {
                let len = room.len.min(bytes.len());
                if room.non_temporal {
                    room.into.copy_non_temporal(room.at, len, bytes);
                } else {
                    room.into.copy_part(room.at, len, bytes, room.wanted);
                }
                room.has_come(len)
            }
            Self::Unexpected(kept) => {
                append(bytes, kept).map_err(|_| unexpected::NO_MEMORY)?;
                Came::Unexpected(bytes.len())
            }
            Self::Nowhere => Came::Part,
        })
    }

    /// Memory for at most `left` bytes, if they can be received straight to where they belong. Of
    /// an unexpected message it is some room, but no less than this many bytes.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(crate) fn memory(
        &mut self,
        left: u64,
        at_least: usize,
    ) -> Result<Option<RawSliceMut>, Violation> {
        match self {
            Self::Receive(Room { into, at, len, .. }) if *len > 0 => {
                // `at + len` is at most what the receive wants, which is in its buffer.
                Ok(into.single_slice().map(|one| RawSliceMut {
                    start: one.start().wrapping_add(*at as usize),
                    len: *len as usize,
                }))
            }
            Self::Unexpected(kept) => {
                // As much again as has come: who only says that it sends much gets no memory.
                let more = kept.len().max(at_least);
                let more = more.min(usize::try_from(left).unwrap_or(more));
                kept.try_reserve(more).map_err(|_| unexpected::NO_MEMORY)?;
                let spare = kept.spare_capacity_mut();
                Ok(Some(RawSliceMut {
                    start: spare.as_mut_ptr().cast(),
                    len: more,
                }))
            }
            Self::Receive(_) | Self::Nowhere => Ok(None),
        }
    }

    /// So many bytes were received into the [memory](Self::memory).
    ///
    /// # Safety
    /// They were.
    pub(crate) unsafe fn has_come(self, bytes: usize) -> Came {
        match self {
            Self::Receive(room) => room.has_come(bytes as u64),
            Self::Unexpected(kept) => {
                let len = kept.len() + bytes;
                // SAFETY: so many bytes were written behind the others (the caller's promise).
                unsafe { kept.set_len(len) };
                Came::Unexpected(bytes as u64)
            }
            Self::Nowhere => Came::Part,
        }
    }
}

impl Room<'_> {
    #[inline]
    fn has_come(self, bytes: u64) -> Came {
        *self.got += bytes;
        match *self.got >= self.wanted {
            true => Came::All(self.slot),
            false => Came::Part,
        }
    }
}
