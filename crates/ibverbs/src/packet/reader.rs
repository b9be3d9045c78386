//! Taking a packet apart.

use super::{FULL, Form, MARK_FULL, MARK_REPEATED};

/// Bytes from a peer that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Shorter than a header.
    #[error("a packet of {0} bytes has no header")]
    Short(usize),
    /// Not as long as its header says.
    #[error("a packet of {came} bytes says that it has {said}")]
    Length {
        /// As the header says.
        said: u16,
        /// As received.
        came: usize,
    },
    /// A message's first byte is none of the marks.
    #[error("a message begins with {0:#04x}")]
    Mark(u8),
    /// A message's header is cut off, or its reserved bytes are not zero.
    #[error("a message's header is cut off or damaged")]
    Header,
    /// A repeated header with nothing before it.
    #[error("a message repeats a header that never was")]
    NothingToRepeat,
    /// A payload that reaches behind the packet's end.
    #[error("a message of {len} bytes has {left} bytes left in its packet")]
    Payload {
        /// As its header says.
        len: u32,
        /// What is left.
        left: usize,
    },
    /// A sequence number far ahead of its turn.
    #[error("packet {came} came while {expected} is awaited: too far ahead")]
    TooFarAhead {
        /// Its number.
        came: u32,
        /// Whose turn it is.
        expected: u32,
    },
}

/// A message inside a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its header.
    pub form: Form,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// The messages of a packet, in order. Ends at the first error.
#[derive(Debug)]
pub struct Messages<'a, 'l> {
    rest: &'a [u8],
    last: &'l mut Option<Form>,
}

impl<'a, 'l> Messages<'a, 'l> {
    /// Over what follows the packet's header; `last` is the connection's last message, and is moved
    /// on.
    pub fn new(messages: &'a [u8], last: &'l mut Option<Form>) -> Self {
        Self {
            rest: messages,
            last,
        }
    }

    fn take(&mut self) -> Result<Message<'a>, Malformed> {
        let (form, rest) = match self.rest.first().copied() {
            Some(MARK_REPEATED) => (
                self.last.ok_or(Malformed::NothingToRepeat)?,
                &self.rest[1..],
            ),
            Some(MARK_FULL) => {
                let (head, rest) = self
                    .rest
                    .split_first_chunk::<FULL>()
                    .ok_or(Malformed::Header)?;
                let [
                    _,
                    kind,
                    0,
                    0,
                    l0,
                    l1,
                    l2,
                    l3,
                    t0,
                    t1,
                    t2,
                    t3,
                    t4,
                    t5,
                    t6,
                    t7,
                ] = *head
                else {
                    return Err(Malformed::Header);
                };
                let form = Form {
                    kind,
                    tag: u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
                    len: u32::from_le_bytes([l0, l1, l2, l3]),
                };
                (form, rest)
            }
            mark => return Err(Malformed::Mark(mark.unwrap_or(0))),
        };
        let cut = usize::try_from(form.len)
            .ok()
            .and_then(|len| rest.split_at_checked(len));
        let Some((payload, rest)) = cut else {
            return Err(Malformed::Payload {
                len: form.len,
                left: rest.len(),
            });
        };
        self.rest = rest;
        *self.last = Some(form);
        Ok(Message { form, payload })
    }
}

impl<'a> Iterator for Messages<'a, '_> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let message = self.take();
        if message.is_err() {
            self.rest = &[];
        }
        Some(message)
    }
}
