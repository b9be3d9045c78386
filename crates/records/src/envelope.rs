//! A message's sender and its tag.

/// A message as matching sees it, and its immediate word, which receivers are told beside the
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The peer that sent it, by its number at the receiver.
    pub from: u32,
    /// Its tag.
    pub tag: u64,
    /// Its immediate word, if it has one.
    pub immediate: Option<u64>,
}

impl Envelope {
    /// A message without an immediate word.
    #[inline(always)]
    #[must_use]
    pub const fn new(from: u32, tag: u64) -> Self {
        Self {
            from,
            tag,
            immediate: None,
        }
    }
}
