//! The first contact: two endpoints tell each other about their queue pairs, in datagrams.
//!
//! Both sides say the same thing until both know that the other has heard it:
//!
//! ```text
//! A                                          B
//! greeting(heard: no)         ------------>  knows A, connects its queue pairs
//!                             <------------  greeting(heard: yes)
//! knows B, connects: ready
//! greeting(heard: yes, ready) ------------>  ready; a first packet of A says the same
//! ```
//!
//! It makes no difference who begins, or whether both do at once. A datagram may get lost: who has
//! not been heard repeats its greeting, less and less often, until the time for it is over. Every
//! greeting is answered but one that says 'ready', so it ends. A greeting without streams is a
//! refusal: nothing comes of the attempt that was heard. It says why, and is not answered.

use crate::objects::{Gid, PortAddress, RemoteQueuePair};

/// Most streams of a connection.
pub(super) const STREAMS: usize = 8;

/// Most bytes that a greeting carries for the layer above.
pub const HELLO: usize = 128;

const MAGIC: [u8; 4] = *b"lmgr";
const VERSION: u8 = 2;
const FIXED: usize = 56;
const STREAM: usize = 27;

/// Bytes of the longest greeting.
pub(super) const LONGEST: usize = longest(STREAMS);

/// Bytes of the longest greeting with so many streams.
pub(super) const fn longest(streams: usize) -> usize {
    FIXED + streams * STREAM + HELLO
}

/// What one endpoint tells another about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    /// Whom it is meant for: a queue pair's number may have had another owner before.
    pub(super) to: u64,
    /// That endpoint's secret.
    pub(super) secret: u64,
    /// The endpoint that says it.
    pub(super) from: u64,
    /// The secret that the answer has to carry.
    pub(super) answer_secret: u64,
    /// Which of its connections: an endpoint that connects anew after a failure counts up.
    pub(super) attempt: u32,
    /// Number of the queue that takes greetings there.
    pub(super) greeter: u32,
    /// The attempt of the other side that was heard; 0 for none.
    pub(super) heard: u32,
    /// It has been heard and may send.
    pub(super) ready: bool,
    /// Bytes of the largest packet that it takes.
    pub(super) packet_bytes: u32,
    /// Its queue pairs for this connection, each with its rail there; none in a refusal.
    pub(super) streams: Vec<(RemoteQueuePair, u8)>,
    /// For the layer above; of a refusal, why.
    pub(super) hello: Vec<u8>,
}

impl Greeting {
    /// As it travels.
    #[must_use]
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(LONGEST);
        out.extend(MAGIC);
        out.push(VERSION);
        out.push(self.streams.len() as u8 | u8::from(self.ready) << 7);
        out.extend((self.hello.len() as u16).to_le_bytes());
        for word in [self.to, self.secret, self.from, self.answer_secret] {
            out.extend(word.to_le_bytes());
        }
        for word in [self.attempt, self.heard, self.packet_bytes, self.greeter] {
            out.extend(word.to_le_bytes());
        }
        for (stream, rail) in &self.streams {
            out.extend(stream.address.gid.0);
            out.extend(stream.address.lid.to_le_bytes());
            out.extend(&stream.number.to_le_bytes()[..3]);
            out.extend(&stream.first_packet.to_le_bytes()[..3]);
            out.extend([stream.reads, stream.mtu, *rail]);
        }
        out.extend(&self.hello);
        out
    }

    /// From a datagram, which may come from anybody. `None` if it is no greeting of this version.
    #[must_use]
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (fixed, mut rest) = bytes.split_first_chunk::<FIXED>()?;
        if fixed[..4] != MAGIC || fixed[4] != VERSION {
            return None;
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&fixed[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let half = |at: usize| {
            u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let count = usize::from(fixed[5] & 0x7f);
        let hello = usize::from(u16::from_le_bytes([fixed[6], fixed[7]]));
        if count > STREAMS || hello > HELLO {
            return None;
        }
        let mut streams = Vec::with_capacity(count);
        for _ in 0..count {
            let (bytes, left) = rest.split_first_chunk::<STREAM>()?;
            rest = left;
            let mut gid = [0; 16];
            gid.copy_from_slice(&bytes[..16]);
            let pair = RemoteQueuePair {
                address: PortAddress {
                    gid: Gid(gid),
                    lid: u16::from_le_bytes([bytes[16], bytes[17]]),
                },
                number: u32::from_le_bytes([bytes[18], bytes[19], bytes[20], 0]),
                first_packet: u32::from_le_bytes([bytes[21], bytes[22], bytes[23], 0]),
                reads: bytes[24],
                mtu: bytes[25],
            };
            streams.push((pair, bytes[26]));
        }
        // An adapter may have padded the datagram; what is behind the hello is not looked at.
        let hello = rest.get(..hello)?.to_vec();
        Some(Self {
            to: word(8),
            secret: word(16),
            from: word(24),
            answer_secret: word(32),
            ready: fixed[5] & 0x80 != 0,
            attempt: half(40),
            heard: half(44),
            packet_bytes: half(48),
            greeter: half(52) & 0xff_ffff,
            streams,
            hello,
        })
    }
}

/// Reads a greeting, for the fuzzer.
///
/// # Panics
/// What was read says something else when it is written and read again.
#[cfg(fuzzing)]
pub fn any_greeting(bytes: &[u8]) {
    if let Some(greeting) = Greeting::from_bytes(bytes) {
        assert_eq!(Greeting::from_bytes(&greeting.to_bytes()), Some(greeting));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn greeting() -> impl Strategy<Value = Greeting> {
        let stream = (
            any::<[u8; 16]>(),
            any::<u16>(),
            0..1_u32 << 24,
            any::<[u8; 3]>(),
        )
            .prop_map(|(gid, lid, number, [reads, mtu, rail])| {
                let pair = RemoteQueuePair {
                    address: PortAddress { gid: Gid(gid), lid },
                    number,
                    first_packet: number ^ 0x55,
                    reads,
                    mtu,
                };
                (pair, rail)
            });
        (
            any::<[u64; 4]>(),
            any::<[u32; 3]>(),
            proptest::collection::vec(stream, 0..=STREAMS),
            proptest::collection::vec(any::<u8>(), 0..=HELLO),
        )
            .prop_map(
                |(
                    [to, secret, from, answer_secret],
                    [attempt, heard, packet_bytes],
                    streams,
                    hello,
                )| {
                    Greeting {
                        to,
                        secret,
                        from,
                        answer_secret,
                        ready: heard & 1 == 0,
                        attempt,
                        heard,
                        packet_bytes,
                        greeter: attempt & 0xff_ffff,
                        streams,
                        hello,
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn greetings_come_back(greeting in greeting(), padding in 0..5_usize) {
            let mut bytes = greeting.to_bytes();
            prop_assert!(bytes.len() <= LONGEST);
            bytes.extend(std::iter::repeat_n(0, padding));
            prop_assert_eq!(Greeting::from_bytes(&bytes), Some(greeting));
        }

        #[test]
        fn damaged_greetings_do_no_harm(greeting in greeting(), at in any::<prop::sample::Index>(), bit in 0..8, cut in any::<prop::sample::Index>()) {
            let mut bytes = greeting.to_bytes();
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
            let _ = Greeting::from_bytes(&bytes);
            let cut = cut.index(bytes.len());
            prop_assert_eq!(Greeting::from_bytes(&greeting.to_bytes()[..cut]), None);
        }
    }
}
