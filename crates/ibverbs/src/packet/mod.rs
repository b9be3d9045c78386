//! What a packet looks like: how several messages travel as one, and how a repeated header
//! costs one byte.
//!
//! ```text
//! packet   sequence u32 | ring slots given back u16 | bytes that follow u16 | messages
//! message  1 u8 | kind u8 | 0 u16 | length u32 | tag u64 | payload         the first of its form
//!          2 u8 | payload                                    kind, length and tag as before
//! ```
//!
//! All numbers are little-endian. 'The one before' is the last message of the connection, also
//! across packets: packets are read in the order of their sequence numbers, each once, whatever
//! streams they came by, so both ends agree on it.
//!
//! A packet is a peer's memory, written by its adapter: every number is checked before it is used,
//! and what makes no sense fails that connection and nothing else.

mod reader;
mod sequence;
mod writer;

pub use limic_fabric::Form;
pub use reader::{Malformed, Message, Messages};
pub use sequence::{Arrival, Sequence};
pub use writer::{NoRoom, Packing};

/// Bytes of a packet's header.
pub const HEADER: usize = 8;
/// Bytes of a message's header in its long form.
pub const FULL: usize = 16;
/// Bytes of a message's header in its short form.
pub const REPEATED: usize = 1;
/// The largest packet.
pub const MOST: usize = HEADER + u16::MAX as usize;

const MARK_FULL: u8 = 1;
const MARK_REPEATED: u8 = 2;

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// Its place in the connection's order.
    pub sequence: u32,
    /// Slots of the ring toward the receiver of this packet's sender that are free again.
    pub freed: u16,
    /// Bytes of messages.
    pub bytes: u16,
}

impl PacketHeader {
    /// As it travels.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..4].copy_from_slice(&self.sequence.to_le_bytes());
        out[4..6].copy_from_slice(&self.freed.to_le_bytes());
        out[6..].copy_from_slice(&self.bytes.to_le_bytes());
        out
    }

    /// From the start of a received packet; gives the messages too.
    ///
    /// # Errors
    /// [`Malformed`] if the packet is not exactly as long as its header says.
    pub fn split(packet: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let Some((header, messages)) = packet.split_first_chunk::<HEADER>() else {
            return Err(Malformed::Short(packet.len()));
        };
        let [a, b, c, d, e, f, g, h] = *header;
        let header = Self {
            sequence: u32::from_le_bytes([a, b, c, d]),
            freed: u16::from_le_bytes([e, f]),
            bytes: u16::from_le_bytes([g, h]),
        };
        if messages.len() == usize::from(header.bytes) {
            Ok((header, messages))
        } else {
            Err(Malformed::Length {
                said: header.bytes,
                came: messages.len(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages() -> impl Strategy<Value = Vec<(u8, u64, Vec<u8>)>> {
        let message = (
            0..3_u8,
            0..3_u64,
            proptest::collection::vec(any::<u8>(), 0..70),
        );
        proptest::collection::vec(message, 0..60)
    }

    proptest! {
        #[test]
        fn packed_messages_come_out_as_they_went_in(
            messages in messages(),
            room in HEADER + FULL + 70..600,
        ) {
            let mut packets = Vec::new();
            let mut last = None;
            let mut buffer = vec![0; room];
            let mut packing = Packing::new(0);
            for (kind, tag, payload) in &messages {
                let form = Form { kind: *kind, tag: *tag, len: payload.len() as u32 };
                loop {
                    match packing.add(&mut buffer, form, &mut last) {
                        Ok(space) => {
                            space.copy_from_slice(payload);
                            break;
                        }
                        Err(NoRoom) => {
                            prop_assert!(!packing.is_empty());
                            let len = packing.finish(&mut buffer, 0);
                            packets.push(buffer[..len].to_vec());
                            packing = Packing::new(packets.len() as u32);
                        }
                    }
                }
            }
            let len = packing.finish(&mut buffer, 7);
            packets.push(buffer[..len].to_vec());
            let mut last = None;
            let mut seen = Vec::new();
            for (number, packet) in packets.iter().enumerate() {
                let (header, bytes) = PacketHeader::split(packet).unwrap();
                prop_assert_eq!(header.sequence as usize, number);
                for message in Messages::new(bytes, &mut last) {
                    let message = message.unwrap();
                    seen.push((message.form.kind, message.form.tag, message.payload.to_vec()));
                }
            }
            prop_assert_eq!(seen, messages);
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut last = Some(Form { kind: 1, tag: 2, len: 3 });
            if let Ok((_, messages)) = PacketHeader::split(&bytes) {
                let mut reader = Messages::new(messages, &mut last);
                let mut count = 0;
                while let Some(message) = reader.next() {
                    count += 1;
                    prop_assert!(count <= bytes.len());
                    if message.is_err() {
                        prop_assert!(reader.next().is_none(), "nothing after an error");
                    }
                }
            }
        }
    }

    #[test]
    fn a_repeated_header_costs_one_byte() {
        let mut buffer = [0; 256];
        let mut last = None;
        let mut packing = Packing::new(0);
        let form = Form {
            kind: 1,
            tag: 9,
            len: 8,
        };
        for _ in 0..4 {
            packing.add(&mut buffer, form, &mut last).unwrap().fill(5);
        }
        assert_eq!(
            packing.finish(&mut buffer, 0),
            HEADER + FULL + 3 * REPEATED + 4 * 8
        );
    }
}
