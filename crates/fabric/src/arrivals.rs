//! Where messages lie that have come.

use crate::ConnectionId;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The layer above names its kinds.
    pub kind: u8,
    /// The layer above's tag.
    pub tag: u64,
    /// Bytes of payload.
    pub len: u32,
}

impl Form {
    /// Bytes of a header as networks without one of their own write it.
    pub const HEADER: usize = 16;

    /// The header: `len u32 | kind u8 | 0 u8 | 0 u16 | tag u64`, little-endian.
    #[must_use]
    pub fn to_header(self) -> [u8; Self::HEADER] {
        let mut out = [0; Self::HEADER];
        out[..4].copy_from_slice(&self.len.to_le_bytes());
        out[4] = self.kind;
        out[8..].copy_from_slice(&self.tag.to_le_bytes());
        out
    }

    /// What a header says, which anybody may have sent. `None`: its reserved bytes are not zero.
    #[must_use]
    pub fn from_header(header: &[u8; Self::HEADER]) -> Option<Self> {
        let [l0, l1, l2, l3, kind, 0, 0, 0, tag @ ..] = *header else {
            return None;
        };
        Some(Self {
            kind,
            tag: u64::from_le_bytes(tag),
            len: u32::from_le_bytes([l0, l1, l2, l3]),
        })
    }
}

/// Messages of one connection, in order: the caller's, so that they can be read while the fabric
/// works on.
#[derive(Debug)]
pub struct Arrivals {
    connection: ConnectionId,
    bytes: Vec<u8>,
    messages: Vec<(Form, u32)>,
    begun: Option<(Form, usize, usize)>,
}

impl Arrivals {
    /// An empty one, to be used again and again.
    #[must_use]
    pub fn new() -> Self {
        Self {
            connection: ConnectionId(0),
            bytes: Vec::new(),
            messages: Vec::new(),
            begun: None,
        }
    }

    /// Whose messages these are.
    #[must_use]
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// The messages in the order sent: header and payload.
    pub fn messages(&self) -> impl Iterator<Item = (Form, &[u8])> {
        self.messages.iter().filter_map(|(form, at)| {
            let start = *at as usize;
            let end = start.checked_add(form.len as usize)?;
            Some((*form, self.bytes.get(start..end)?))
        })
    }

    /// A long message of which only the beginning is here: its header, and the first bytes of its
    /// payload. It comes after the others; its rest is to be
    /// [received](crate::Fabric::receive).
    #[must_use]
    pub fn begun(&self) -> Option<(Form, &[u8])> {
        let (form, start, end) = self.begun?;
        Some((form, self.bytes.get(start..end)?))
    }
}

/// For fabrics, which fill it.
impl Arrivals {
    /// Takes the messages out; the ones to come are those of this connection. The bytes stay.
    pub fn begin(&mut self, connection: ConnectionId) {
        self.connection = connection;
        self.messages.clear();
        self.begun = None;
    }

    /// The bytes among which the payloads lie.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, to be filled. What is in them from before may be written over, and kept for its
    /// room.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The next message: its payload begins at byte `at`.
    pub fn push(&mut self, form: Form, at: usize) {
        // No packet is so long that a place in it needs more.
        self.messages.push((form, at as u32));
    }

    /// A message begins, the first bytes of whose payload are those from `start` to `end`.
    pub fn push_begun(&mut self, form: Form, start: usize, end: usize) {
        self.begun = Some((form, start, end));
    }

    /// Whether there is no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.begun.is_none()
    }
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_reaches_behind_the_bytes_is_left_out() {
        let mut arrivals = Arrivals::new();
        arrivals.begin(ConnectionId(3));
        arrivals.bytes_mut().extend([1, 2, 3, 4]);
        let form = |len| Form {
            kind: 1,
            tag: 2,
            len,
        };
        arrivals.push(form(3), 1);
        arrivals.push(form(4), 1);
        arrivals.push(form(u32::MAX), 4);
        let messages: Vec<_> = arrivals.messages().collect();
        assert_eq!(messages, [(form(3), &[2, 3, 4][..])]);
        arrivals.begin(ConnectionId(4));
        assert!(arrivals.is_empty());
    }
}
