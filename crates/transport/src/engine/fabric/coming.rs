//! Long records go out of the application's memory, and come into it.

use limic_fabric::{Form, MOST_STRETCHES, Stretch};
use limic_shm::bytes::{SendBuffer, Sink};

use super::{FabricChannel, Link};
use crate::engine::request::Destination;

/// What a long record is that has begun to come. The network knows how much of it is missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    /// Where its bytes go.
    pub(crate) to: Destination,
    /// The first byte of the message that is not in the record.
    pub(crate) end: u64,
    /// The message may be longer than its receive: nobody asked for the bytes.
    pub(crate) cut: bool,
}

/// The stretches of a message that are written by one call.
struct Stretches {
    list: [Stretch; MOST_STRETCHES],
    count: usize,
}

impl Sink for Stretches {
    unsafe fn put(&mut self, _: u64, from: *const u8, len: usize) {
        if let Some(next) = self.list.get_mut(self.count) {
            *next = Stretch { start: from, len };
            self.count += 1;
        }
    }
}

impl Stretches {
    /// The first stretches of `len` bytes of a message from byte `at` on.
    fn of(data: &SendBuffer, at: u64, len: u64) -> Self {
        let nothing = Stretch {
            start: core::ptr::null(),
            len: 0,
        };
        let mut stretches = Self {
            list: [nothing; MOST_STRETCHES],
            count: 0,
        };
        // SAFETY: stretches are noted, and nothing is copied.
        unsafe { data.copy_to(at, len, &mut stretches) };
        stretches
    }

    /// Bytes of all of them.
    fn len(&self) -> u64 {
        self.as_slice().iter().map(|one| one.len as u64).sum()
    }

    fn as_slice(&self) -> &[Stretch] {
        &self.list[..self.count]
    }
}

impl FabricChannel {
    /// Begins a record of the words in `head` and `len` bytes of a message from byte `at` on. Gives
    /// how many of these went; `None`: no room now.
    pub(crate) fn begin(
        &mut self,
        link: Link,
        (kind, tag): (u8, u64),
        head: Option<u64>,
        data: &SendBuffer,
        (at, len): (u64, u64),
    ) -> Option<u64> {
        let word = head.map(u64::to_ne_bytes);
        let head: &[u8] = word.as_ref().map_or(&[], |word| word);
        let form = Form {
            kind,
            tag,
            len: u32::try_from(len + head.len() as u64).ok()?,
        };
        let parts = Stretches::of(data, at, len);
        let fabric = self.of(link)?;
        // SAFETY: readable by the invariant of `SendBuffer`.
        let begun = unsafe { fabric.begin(link.connection, form, head, parts.as_slice()) };
        let gone = begun.ok()? as u64;
        if gone < parts.len() {
            return Some(gone);
        }
        Some(gone + self.go_on(link, data, at + gone))
    }

    /// Goes on with the record that has begun, whose next byte is byte `at` of the message; gives
    /// how many went.
    pub(crate) fn go_on(&mut self, link: Link, data: &SendBuffer, at: u64) -> u64 {
        let mut gone = 0;
        loop {
            let left = self.left_to_go(link);
            let parts = Stretches::of(data, at + gone, left);
            let (true, Some(fabric)) = (left > 0, self.of(link)) else {
                return gone;
            };
            // SAFETY: readable by the invariant of `SendBuffer`.
            let more = unsafe { fabric.go_on(link.connection, parts.as_slice()) as u64 };
            gone += more;
            if more < parts.len() {
                return gone;
            }
        }
    }

    /// Bytes of the record that has begun to go which have not gone.
    pub(crate) fn left_to_go(&self, link: Link) -> u64 {
        let fabric = self.fabrics.get(usize::from(link.fabric));
        fabric.map_or(0, |fabric| fabric.left_to_go(link.connection) as u64)
    }

    /// The long record that has begun to come.
    pub(crate) fn coming(&self, link: Link) -> Option<Coming> {
        self.coming.get(&link).copied()
    }

    /// What the long record is that has begun to come, until [`has_come`](Self::has_come).
    pub(crate) fn set_coming(&mut self, link: Link, coming: Coming) {
        self.coming.insert(link, coming);
    }

    /// All of it has come.
    pub(crate) fn has_come(&mut self, link: Link) {
        self.coming.remove(&link);
    }

    /// Takes bytes of the record that has begun, as many as are there and have room.
    ///
    /// # Safety
    /// `into` has room for `len` bytes.
    pub(crate) unsafe fn receive(&mut self, link: Link, into: *mut u8, len: usize) -> usize {
        let Some(fabric) = self.of(link) else {
            return 0;
        };
        // SAFETY: the caller's promise.
        unsafe { fabric.receive(link.connection, into, len) }
    }
}
