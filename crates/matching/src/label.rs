//! What a message carries and what a receive asks for.

/// What the caller stores with an entry: an index of its own, opaque here.
pub type Token = u32;

/// The label of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// Number of the sender, as the receiver counts its peers.
    pub source: u32,
    /// Tag, all 64 bits of it (the crate's documentation says how MPI's tag and context map on it).
    pub tag: u64,
}

/// Which senders a receive accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Every sender (`MPI_ANY_SOURCE`).
    Any,
    /// This sender only.
    Is(u32),
}

impl Source {
    pub(super) const fn is_any(self) -> bool {
        matches!(self, Self::Any)
    }

    /// The part of a key that stands for the source: 0 for any, the class says that it is any.
    pub(super) const fn number(self) -> u32 {
        match self {
            Self::Any => 0,
            Self::Is(source) => source,
        }
    }
}

/// What a receive or a probe asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Accepted senders.
    pub source: Source,
    /// Wanted tag; bits outside of `mask` do not count.
    pub tag: u64,
    /// Bits of the tag that must be equal: `!0` for exactly this tag, `0` for any.
    pub mask: u64,
}

impl Selector {
    /// Whether a message with this envelope fits.
    #[must_use]
    pub const fn fits(&self, envelope: &Envelope) -> bool {
        let source = match self.source {
            Source::Any => true,
            Source::Is(source) => source == envelope.source,
        };
        source && (envelope.tag ^ self.tag) & self.mask == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_bits_of_one_must_be_equal() {
        let selector = Selector {
            source: Source::Is(1),
            tag: 0xf5,
            mask: 0x0f,
        };
        assert!(selector.fits(&Envelope {
            source: 1,
            tag: 0x05
        }));
        assert!(!selector.fits(&Envelope {
            source: 1,
            tag: 0x04
        }));
        assert!(!selector.fits(&Envelope {
            source: 2,
            tag: 0x05
        }));
        assert!(
            Selector {
                source: Source::Any,
                ..selector
            }
            .fits(&Envelope {
                source: 2,
                tag: 0x15
            })
        );
        assert!(
            Selector {
                mask: 0,
                ..selector
            }
            .fits(&Envelope { source: 1, tag: !0 })
        );
        assert!(
            !Selector {
                mask: !0,
                ..selector
            }
            .fits(&Envelope {
                source: 1,
                tag: 0x05
            })
        );
    }
}
