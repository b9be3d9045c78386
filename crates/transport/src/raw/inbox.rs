//! Whole messages of a runtime to itself, handed over many at a time.

use limic_shm::bytes::{Source, append};

use crate::Status;

/// Bounds of what lies in one. A runtime takes it after each call that makes progress, so there are
/// few messages in it.
const MOST: usize = 1024;
const MOST_BYTES: usize = 64 << 10;

/// There is no memory for a message.
pub(crate) struct Full;

/// Whole messages, in the order of their arrival: [`Runtime::take_inbox`](super::Runtime).
#[derive(Debug, Default)]
pub struct Inbox {
    /// What is known of each, and where its bytes end.
    messages: Vec<(Status, usize)>,
    bytes: Vec<u8>,
}

impl Inbox {
    /// The messages with their bytes, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&Status, &[u8])> {
        let mut start = 0;
        self.messages.iter().map(move |(status, end)| {
            let bytes = &self.bytes[start..*end];
            start = *end;
            (status, bytes)
        })
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether one more message may lie in it.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.messages.len() < MOST && self.bytes.len() < MOST_BYTES
    }

    /// Puts a message behind all others.
    ///
    /// # Errors
    /// There is no memory for it.
    #[inline(always)]
    pub(crate) fn put(&mut self, status: Status, bytes: &impl Source) -> Result<(), Full> {
        self.messages.try_reserve(1).map_err(|_| Full)?;
        append(bytes, &mut self.bytes).map_err(|_| Full)?;
        self.messages.push((status, self.bytes.len()));
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        self.messages.clear();
        self.bytes.clear();
    }
}
