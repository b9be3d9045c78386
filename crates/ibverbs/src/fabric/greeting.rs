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
//! With two rails the first greetings go over each in turn, and an answer goes the way that the
//! greeting came. Streams of a connection that is ready are made anew by greetings too (`mending`),
//! which say in the place of the hello what was sent (`doubt`).
//!
//! It makes no difference who begins, or whether both do at once. A datagram may get lost: who has
//! not been heard repeats its greeting, less and less often, until the time for it is over. Every
//! greeting is answered but one that says 'ready', so it ends. A greeting without streams is a
//! refusal: nothing comes of the attempt that was heard. It says why, and is not answered.

use super::address::{FabricAddress, LONGEST_RAIL, RailAddress};
use super::rail::RAILS;
use crate::objects::RemoteQueuePair;

/// Most streams of a connection.
pub(super) const STREAMS: usize = 8;

/// Most bytes that a greeting carries for the layer above.
pub const HELLO: usize = 128;

const MAGIC: [u8; 4] = *b"lmgr";
const VERSION: u8 = 4;
const FIXED: usize = 52;
const STREAM: usize = 13;

/// Bytes of the longest greeting.
pub(super) const LONGEST: usize = longest(RAILS, STREAMS);

/// Bytes of the longest greeting with so many rails and streams.
pub(super) const fn longest(rails: usize, streams: usize) -> usize {
    FIXED + rails * LONGEST_RAIL + streams * STREAM + HELLO
}

/// One of an endpoint's streams, as it tells a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// Which of the connection's streams, less than [`STREAMS`].
    pub(super) place: u8,
    /// The endpoint's rail that it is on.
    pub(super) rail: u8,
    /// How often the stream of this place was made anew.
    pub(super) round: u32,
    /// Its queue pair is connected to the peer's of this round.
    pub(super) is_connected: bool,
    /// It is used: that of the peer is connected too.
    pub(super) is_used: bool,
    /// The queue pair.
    pub(super) pair: RemoteQueuePair,
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
    /// Where it is reached.
    pub(super) address: FabricAddress,
    /// The rail that this leaves by, where the answer is expected.
    pub(super) via: u8,
    /// The attempt of the other side that was heard; 0 for none.
    pub(super) heard: u32,
    /// It has been heard and may send.
    pub(super) ready: bool,
    /// Bytes of the largest packet that it takes.
    pub(super) packet_bytes: u32,
    /// Its streams of this connection; none in a refusal.
    pub(super) streams: Vec<Offer>,
    /// For the layer above; of a refusal, why; of one who is ready, what it has sent (`doubt`).
    pub(super) hello: Vec<u8>,
}

/// In the byte of a stream's place, which stands above that of its rail.
const CONNECTED: u8 = 0x40;
const USED: u8 = 0x80;

impl Greeting {
    /// The rail that it has left by.
    pub(super) fn sender(&self) -> &RailAddress {
        self.address.rail(self.via.into())
    }

    /// As it travels.
    #[must_use]
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(LONGEST);
        out.extend(MAGIC);
        out.push(VERSION);
        out.push(self.streams.len() as u8 | u8::from(self.ready) << 7);
        out.push(self.hello.len() as u8);
        out.push(self.address.rails().count() as u8 | self.via << 4);
        for word in [self.to, self.secret, self.from, self.answer_secret] {
            out.extend(word.to_le_bytes());
        }
        for word in [self.attempt, self.heard, self.packet_bytes] {
            out.extend(word.to_le_bytes());
        }
        out.extend(self.address.rails().flat_map(|rail| rail.to_bytes()));
        for stream in &self.streams {
            let flags = u8::from(stream.is_connected) * CONNECTED + u8::from(stream.is_used) * USED;
            out.extend(&stream.pair.number.to_le_bytes()[..3]);
            out.extend(&stream.pair.first_packet.to_le_bytes()[..3]);
            out.extend([stream.pair.reads, stream.pair.mtu]);
            out.push(stream.rail | stream.place << 2 | flags);
            out.extend(stream.round.to_le_bytes());
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
        let hello = usize::from(fixed[6]);
        let (rails, via) = (usize::from(fixed[7] & 0xf), fixed[7] >> 4);
        if count > STREAMS || hello > HELLO || rails > RAILS || usize::from(via) >= rails {
            return None;
        }
        let mut next_rail = || {
            let (rail, left) = RailAddress::split(rest)?;
            rest = left;
            Some(rail)
        };
        let first = next_rail()?;
        let second = match rails {
            1 => None,
            _ => Some(next_rail()?),
        };
        let address = FabricAddress { first, second };
        let mut streams = Vec::with_capacity(count);
        for _ in 0..count {
            let (bytes, left) = rest.split_first_chunk::<STREAM>()?;
            rest = left;
            let rail = bytes[8] & 3;
            let pair = RemoteQueuePair {
                address: address.rails().nth(rail.into())?.port,
                number: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]),
                first_packet: u32::from_le_bytes([bytes[3], bytes[4], bytes[5], 0]),
                reads: bytes[6],
                mtu: bytes[7],
            };
            streams.push(Offer {
                place: bytes[8] >> 2 & 7,
                rail,
                round: u32::from_le_bytes([bytes[9], bytes[10], bytes[11], bytes[12]]),
                is_connected: bytes[8] & CONNECTED != 0,
                is_used: bytes[8] & USED != 0,
                pair,
            });
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
            address,
            via,
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
    use crate::objects::{Gid, PortAddress};

    fn rail() -> impl Strategy<Value = RailAddress> {
        (any::<[u8; 16]>(), any::<u16>(), 0..1_u32 << 24).prop_map(|(gid, lid, greeter)| {
            RailAddress {
                port: PortAddress { gid: Gid(gid), lid },
                greeter,
            }
        })
    }

    fn greeting() -> impl Strategy<Value = Greeting> {
        let stream = (any::<[u8; 5]>(), any::<u32>(), 0..1_u32 << 24);
        (
            any::<[u64; 4]>(),
            any::<[u32; 3]>(),
            (rail(), proptest::option::of(rail())),
            proptest::collection::vec(stream, 0..=STREAMS),
            proptest::collection::vec(any::<u8>(), 0..=HELLO),
        )
            .prop_map(
                |(
                    [to, secret, from, answer_secret],
                    [attempt, heard, packet_bytes],
                    (first, second),
                    streams,
                    hello,
                )| {
                    let address = FabricAddress { first, second };
                    let rails = address.rails().count();
                    let offer =
                        |([place, rail, flags, reads, mtu], round, number): ([u8; 5], u32, u32)| {
                            let rail = rail % rails as u8;
                            Offer {
                                place: place % 8,
                                rail,
                                round,
                                is_connected: flags & 1 != 0,
                                is_used: flags & 2 != 0,
                                pair: RemoteQueuePair {
                                    address: address.rail(rail.into()).port,
                                    number,
                                    first_packet: number ^ 0x55,
                                    reads,
                                    mtu,
                                },
                            }
                        };
                    Greeting {
                        to,
                        secret,
                        from,
                        answer_secret,
                        ready: heard & 1 == 0,
                        attempt,
                        heard,
                        packet_bytes,
                        address,
                        via: attempt as u8 % rails as u8,
                        streams: streams.into_iter().map(offer).collect(),
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
