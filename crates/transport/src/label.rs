//! What messages are called: tags, selectors, and the status of a received message.

use core::fmt;

use crate::Peer;

/// The 64 bits by which a message is matched, besides its source.
///
/// MPI's (tag, context id) maps on it with [`Tag::mpi`]; libfabric's (tag, ignore)
/// maps on a tag and the complement of a selector's mask.
///
/// Tags with the highest bit ([`Tag::LIBRARY`]) are for libraries, as [`World`](crate::World) is
/// one: [`Selector::any`] and [`Selector::any_tag`] never take a message that has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Tag(pub u64);

impl Tag {
    /// The bit of a library's own messages, which "any tag" leaves to it. The library receives
    /// them by their whole tag, or by a [mask](Selector::with_mask) of its own.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint, Selector, Tag};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let library = Tag(Tag::LIBRARY.0 | 7);
    /// endpoint.send(myself, library, b"")?;
    /// assert!(endpoint.probe(Selector::any())?.is_none());
    /// endpoint.recv((myself, library), &mut [])?;
    /// # Ok::<(), limic::Error>(())
    /// ```
    pub const LIBRARY: Self = Self(1 << 63);

    /// MPI's label: the context id in the upper half, the tag in the lower one.
    #[must_use]
    pub const fn mpi(context: u32, tag: u32) -> Self {
        Self(((context as u64) << 32) | tag as u64)
    }

    /// The context id of a label made by [`Tag::mpi`].
    #[must_use]
    pub const fn mpi_context(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The MPI tag of a label made by [`Tag::mpi`].
    #[must_use]
    pub const fn mpi_tag(self) -> u32 {
        (self.0 & 0xffff_ffff) as u32
    }
}

impl From<u64> for Tag {
    fn from(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tag {:#x}", self.0)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What a receive or a probe asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selector {
    /// The sender, or `None` for any.
    pub source: Option<Peer>,
    /// The tag bits asked for.
    pub tag: Tag,
    /// Which bits of the tag must agree: 1 = must agree. 0 is any tag, a library's too.
    pub mask: u64,
}

impl Selector {
    /// Whether a message with this tag is asked for, as far as the tag goes.
    #[inline(always)]
    pub(crate) const fn fits_tag(&self, tag: u64) -> bool {
        (tag ^ self.tag.0) & self.mask == 0
    }

    /// Exactly this sender and this tag.
    #[must_use]
    pub const fn exact(source: Peer, tag: Tag) -> Self {
        Self {
            source: Some(source),
            tag,
            mask: u64::MAX,
        }
    }

    /// This tag from any sender.
    #[must_use]
    pub const fn any_source(tag: Tag) -> Self {
        Self {
            source: None,
            tag,
            mask: u64::MAX,
        }
    }

    /// Any tag from this sender, but for those of [libraries](Tag::LIBRARY).
    #[must_use]
    pub const fn any_tag(source: Peer) -> Self {
        Self {
            source: Some(source),
            tag: Tag(0),
            mask: Tag::LIBRARY.0,
        }
    }

    /// Any message from any sender, but for those of [libraries](Tag::LIBRARY).
    #[must_use]
    pub const fn any() -> Self {
        Self {
            source: None,
            tag: Tag(0),
            mask: Tag::LIBRARY.0,
        }
    }

    /// MPI's selector: the context always counts; source and tag may be wildcards.
    #[must_use]
    pub const fn mpi(source: Option<Peer>, context: u32, tag: Option<u32>) -> Self {
        match tag {
            Some(tag) => Self {
                source,
                tag: Tag::mpi(context, tag),
                mask: u64::MAX,
            },
            None => Self {
                source,
                tag: Tag::mpi(context, 0),
                mask: 0xffff_ffff_0000_0000,
            },
        }
    }

    /// The same selector with another mask (1 = the tag bit must agree).
    #[must_use]
    pub const fn with_mask(mut self, mask: u64) -> Self {
        self.mask = mask;
        self
    }
}

impl From<&Selector> for Selector {
    fn from(selector: &Selector) -> Self {
        *selector
    }
}

impl From<(Peer, Tag)> for Selector {
    fn from((source, tag): (Peer, Tag)) -> Self {
        Self::exact(source, tag)
    }
}

impl From<(Peer, u64)> for Selector {
    fn from((source, tag): (Peer, u64)) -> Self {
        Self::exact(source, Tag(tag))
    }
}

/// What a completed operation tells.
///
/// For a receive or probe: who sent, under which tag, and how many bytes. For a send: to whom,
/// the tag, and the bytes sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// The other side.
    pub peer: Peer,
    /// The message's tag.
    pub tag: Tag,
    /// The message's length in bytes.
    pub len: u64,
    /// The word that came beside the bytes, if the sender gave one
    /// ([`Messages::post_send_with`](crate::raw::Messages::post_send_with)). `None` for sends.
    pub immediate: Option<u64>,
}
