//! What travels: packets, of a connection or about one.
//!
//! ```text
//! packet   kind u8 | version u8 | 0 u16 | number u32 | token u64 | sequence u64 | more
//! HELLO    number: the caller's; token: the secret of the one that is called
//!          more: to u64 | from u64 | caller's token u64 | its secret u64 | place, hello
//! WELCOME  number and token of the caller
//!          more: from u64 | number of the answerer u64 | its token u64 | 0 u64 | no place, hello
//! DATA     number and token of the receiver; sequence: which of them
//!          more: messages, each header (`Form::to_header`) | payload
//! GOODBYE  as DATA, without messages: the last one of an endpoint that closes
//! LEFT     number and token of the receiver: the connection is over on the other side
//! ```
//!
//! Place and hello are a byte each with their length, and then they. All numbers are little-endian.

use limic_fabric::{Arrivals, Form};

use crate::connection::Remote;

/// Bytes of a packet.
pub(crate) const PACKET: usize = 16 << 10;
/// Bytes before what a packet holds.
pub(crate) const HEADER: usize = 24;
/// Bytes before a message's payload.
pub(crate) const MESSAGE: usize = Form::HEADER;
/// The longest message.
pub(crate) const LONGEST: usize = PACKET - HEADER - MESSAGE;
/// Most bytes of a hello.
pub(crate) const HELLO_BYTES: usize = 128;

const VERSION: u8 = 1;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Hello = 1,
    Welcome = 2,
    Data = 3,
    Goodbye = 4,
    Left = 5,
}

/// The beginning of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) number: u32,
    pub(crate) token: u64,
    pub(crate) sequence: u64,
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        (out[0], out[1]) = (self.kind as u8, VERSION);
        out[4..8].copy_from_slice(&self.number.to_le_bytes());
        out[8..16].copy_from_slice(&self.token.to_le_bytes());
        out[16..].copy_from_slice(&self.sequence.to_le_bytes());
        out
    }

    /// From what anybody may have sent, with what is behind it. `None`: it is no packet of this
    /// version.
    pub(crate) fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, more) = bytes.split_first_chunk::<HEADER>()?;
        let kind = match head[..4] {
            [1, VERSION, 0, 0] => Kind::Hello,
            [2, VERSION, 0, 0] => Kind::Welcome,
            [3, VERSION, 0, 0] => Kind::Data,
            [4, VERSION, 0, 0] => Kind::Goodbye,
            [5, VERSION, 0, 0] => Kind::Left,
            _ => return None,
        };
        let number = u32::from_le_bytes(*head[4..].first_chunk()?);
        let (token, sequence) = (word(head, 8), word(head, 16));
        let header = Self {
            kind,
            number,
            token,
            sequence,
        };
        Some((header, more))
    }
}

/// What a HELLO or a WELCOME says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// A HELLO: to, from, token, secret. A WELCOME: from, number, token, 0.
    pub(crate) words: [u64; 4],
    pub(crate) place: Vec<u8>,
    pub(crate) hello: Vec<u8>,
}

impl Greeting {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for word in self.words {
            out.extend(word.to_le_bytes());
        }
        for part in [&self.place, &self.hello] {
            out.push(part.len() as u8);
            out.extend(part);
        }
        out
    }

    /// What the answerer's side is called, as a WELCOME says.
    pub(crate) fn remote(&self) -> Option<Remote> {
        let [_, number, token, _] = self.words;
        let number = number.try_into().ok()?;
        Some(Remote { number, token })
    }

    /// From what anybody may have sent.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, more) = bytes.split_at_checked(32)?;
        let part = |bytes: &[u8], most: usize| {
            let (len, more) = bytes.split_first()?;
            let (part, more) = more.split_at_checked(usize::from(*len))?;
            (part.len() <= most).then(|| (part.to_vec(), more.to_vec()))
        };
        let (place, more) = part(more, 32)?;
        let (hello, more) = part(&more, HELLO_BYTES)?;
        more.is_empty().then_some(Self {
            words: [0, 8, 16, 24].map(|at| word(words, at)),
            place,
            hello,
        })
    }
}

/// Puts the messages of a packet into `arrivals`, whose bytes they become.
///
/// # Errors
/// What makes no sense.
pub(crate) fn take(messages: &[u8], arrivals: &mut Arrivals) -> Result<(), String> {
    let bytes = arrivals.bytes_mut();
    bytes.clear();
    bytes.extend_from_slice(messages);
    let mut at = 0;
    while at < messages.len() {
        let head = messages.get(at..).and_then(<[u8]>::first_chunk::<MESSAGE>);
        let head = head.ok_or("a packet that ends within a header")?;
        let form = Form::from_header(head).ok_or("a message whose reserved bytes are not zero")?;
        let len = form.len;
        let start = at + MESSAGE;
        if len as usize > messages.len() - start {
            return Err(format!(
                "a message of {len} bytes, which its packet has not"
            ));
        }
        arrivals.push(form, start);
        at = start + len as usize;
    }
    Ok(())
}

/// The word that begins there; the bytes are as long as that.
fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    u64::from_le_bytes(bytes.copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use limic_fabric::ConnectionId;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(0..6_u8, 0..300)) {
            let _ = Greeting::from_bytes(&bytes);
            let mut arrivals = Arrivals::new();
            arrivals.begin(ConnectionId(0));
            let taken = take(&bytes, &mut arrivals);
            let sum: usize = arrivals.messages().map(|(_, bytes)| MESSAGE + bytes.len()).sum();
            prop_assert!(sum <= bytes.len());
            prop_assert!(taken.is_err() || sum == bytes.len());
        }

        #[test]
        fn what_goes_in_comes_out(
            words in any::<[u64; 4]>(),
            place in proptest::collection::vec(any::<u8>(), 0..=32),
            hello in proptest::collection::vec(any::<u8>(), 0..=HELLO_BYTES),
            (number, token, sequence) in any::<(u32, u64, u64)>(),
        ) {
            let greeting = Greeting { words, place, hello };
            let mut bytes = greeting.to_bytes();
            prop_assert_eq!(Greeting::from_bytes(&bytes), Some(greeting));
            bytes.push(0);
            prop_assert_eq!(Greeting::from_bytes(&bytes), None);
            let header = Header { kind: Kind::Data, number, token, sequence };
            let mut whole = header.to_bytes().to_vec();
            whole.extend(&bytes);
            prop_assert_eq!(Header::split(&whole), Some((header, &bytes[..])));
            whole[1] = VERSION + 1;
            prop_assert_eq!(Header::split(&whole), None);
        }
    }

    #[test]
    fn messages_fill_their_packet() {
        let mut arrivals = Arrivals::new();
        let form = |len| Form {
            kind: 7,
            tag: 9,
            len,
        };
        let mut bytes = form(3).to_header().to_vec();
        bytes.extend([1, 2, 3]);
        bytes.extend(form(0).to_header());
        arrivals.begin(ConnectionId(0));
        assert_eq!(take(&bytes, &mut arrivals), Ok(()));
        let all: Vec<_> = arrivals.messages().collect();
        assert_eq!(all, [(form(3), &[1, 2, 3][..]), (form(0), &[][..])]);
        bytes.pop();
        assert!(take(&bytes, &mut arrivals).is_err());
        bytes[6] = 1;
        assert!(take(&bytes, &mut arrivals).is_err());
    }
}
