//! The first line of a segment's owner's part: what it is, and how it is laid out.

use super::{Geometry, SegmentError, Shape};

/// The first 8 bytes of every segment's owner's part.
pub const MAGIC: [u8; 8] = *b"LIMICSEG";

/// The version of everything in the segment whose meaning two processes must
/// agree on: layout, rings, flags, and the words in them. Rises with each change.
pub const LAYOUT_VERSION: u32 = 8;

/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 64;

/// The header, in private memory.
///
/// ```text
/// 0   magic                8 bytes
/// 8   layout version       u32, little-endian, as all that follows
/// 12  header length        u32
/// 16  epoch                u64, random, never 0
/// 24  bytes of both parts  u64
/// 32  shape                8 x u32, in the order of `Shape`
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) epoch: u64,
    pub(super) geometry: Geometry,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&LAYOUT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[24..32].copy_from_slice(&(self.geometry.bytes() as u64).to_le_bytes());
        for (field, value) in bytes[32..]
            .chunks_exact_mut(4)
            .zip(self.geometry.shape().to_array())
        {
            field.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Checks every field; `bytes` is a private copy that the peer cannot change.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, SegmentError> {
        let magic: [u8; 8] = field(bytes, 0);
        if magic != MAGIC {
            return Err(SegmentError::Magic { found: magic });
        }
        // The version comes next: under another one, the rest means something else.
        let version = u32::from_le_bytes(field(bytes, 8));
        if version != LAYOUT_VERSION {
            return Err(SegmentError::version(version));
        }
        let length = u32::from_le_bytes(field(bytes, 12));
        if length != HEADER_BYTES as u32 {
            let ours = HEADER_BYTES as u32;
            return Err(SegmentError::HeaderLength {
                theirs: length,
                ours,
            });
        }
        let shape = std::array::from_fn(|i| u32::from_le_bytes(field(bytes, 32 + 4 * i)));
        let geometry = Geometry::new(Shape::from_array(shape))?;
        let total = u64::from_le_bytes(field(bytes, 24));
        if total != geometry.bytes() as u64 {
            let geometry = geometry.bytes() as u64;
            return Err(SegmentError::TotalBytes {
                header: total,
                geometry,
            });
        }
        Ok(Self {
            epoch: u64::from_le_bytes(field(bytes, 16)),
            geometry,
        })
    }
}

fn field<const N: usize>(bytes: &[u8; HEADER_BYTES], offset: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[offset + i])
}

/// Reads a header, for the fuzzer.
///
/// # Panics
/// A header that is taken is not the one of its epoch and its shape.
#[cfg(fuzzing)]
pub fn any_header(bytes: &[u8; HEADER_BYTES]) {
    if let Ok(header) = Header::decode(bytes) {
        assert_eq!(&header.encode(), bytes);
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn round_trip() {
        let header = Header {
            epoch: 0x0123_4567_89ab_cdef,
            geometry: Geometry::DEFAULT,
        };
        assert_eq!(Header::decode(&header.encode()).unwrap(), header);
    }

    proptest! {
        #[test]
        fn a_changed_byte_is_seen(at in 0..HEADER_BYTES, bits in 1_u8..) {
            let header = Header { epoch: 1, geometry: Geometry::DEFAULT };
            let mut bytes = header.encode();
            bytes[at] ^= bits;
            match (Header::decode(&bytes), at) {
                (Ok(other), 16..24) => prop_assert_eq!(other.geometry, header.geometry),
                // A few probe words more or fewer may fit into the same pages: another
                // valid geometry.
                (Ok(other), 32..) => {
                    prop_assert_eq!(other.geometry.bytes(), header.geometry.bytes());
                    prop_assert_ne!(other.geometry, header.geometry);
                }
                (answer, at) => prop_assert!(answer.is_err(), "byte {at}"),
            }
        }

        #[test]
        fn garbage_behind_a_right_start_never_panics(rest: [[u8; 16]; 3]) {
            let mut bytes = Header { epoch: 1, geometry: Geometry::DEFAULT }.encode();
            bytes[16..].copy_from_slice(rest.as_flattened());
            let _ = Header::decode(&bytes);
        }
    }
}
