//! Packing messages into a packet.

use super::{FULL, Form, HEADER, MARK_FULL, MARK_REPEATED, PacketHeader, REPEATED};

/// The message does not fit into what is left of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// A packet that is being filled. It does not hold the memory: the caller passes the same buffer
/// each time.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    sequence: u32,
    used: usize,
    messages: u32,
}

impl Packing {
    /// An empty packet.
    #[must_use]
    pub fn new(sequence: u32) -> Self {
        Self {
            sequence,
            used: HEADER,
            messages: 0,
        }
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Messages in it.
    #[must_use]
    pub fn messages(&self) -> u32 {
        self.messages
    }

    /// Its place in the connection's order.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Adds a message and gives the room for its payload, which the caller must fill. `last` is the
    /// connection's last message, and is moved on.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing has changed then.
    #[inline]
    pub fn add<'a>(
        &mut self,
        buffer: &'a mut [u8],
        form: Form,
        last: &mut Option<Form>,
    ) -> Result<&'a mut [u8], NoRoom> {
        let repeated = *last == Some(form);
        let header = if repeated { REPEATED } else { FULL };
        let start = self.used + header;
        let end = usize::try_from(form.len)
            .ok()
            .and_then(|len| start.checked_add(len))
            .filter(|end| *end <= buffer.len() && *end - HEADER <= usize::from(u16::MAX))
            .ok_or(NoRoom)?;
        let (head, payload) = buffer
            .get_mut(self.used..end)
            .and_then(|room| room.split_at_mut_checked(header))
            .ok_or(NoRoom)?;
        if repeated {
            head[0] = MARK_REPEATED;
        } else {
            head[0] = MARK_FULL;
            head[1] = form.kind;
            head[2..4].fill(0);
            head[4..8].copy_from_slice(&form.len.to_le_bytes());
            head[8..16].copy_from_slice(&form.tag.to_le_bytes());
        }
        self.used = end;
        self.messages += 1;
        *last = Some(form);
        Ok(payload)
    }

    /// Writes the packet's header. Returns the packet's length.
    pub fn finish(&self, buffer: &mut [u8], freed: u16) -> usize {
        let header = PacketHeader {
            sequence: self.sequence,
            freed,
            bytes: (self.used - HEADER) as u16,
        };
        if let Some(room) = buffer.first_chunk_mut::<HEADER>() {
            *room = header.to_bytes();
        }
        self.used
    }
}
