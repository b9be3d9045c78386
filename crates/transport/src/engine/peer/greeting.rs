//! What endpoints tell each other when they meet.

use std::os::fd::OwnedFd;

use limic_copy::ProbeData;
use limic_shm::system::Instant;
use limic_topology::Place;

use super::pair::MappedPeer;
use crate::address::{ADDRESS_LEN, Address};

/// Version of everything that two endpoints must agree on: this greeting, the hello over networks,
/// and the records. The layout of the segment has a version of its own.
pub(crate) const PROTOCOL: u32 = 18;

/// First word of a message on the control socket.
pub(crate) const HELLO: u32 = 1;
pub(crate) const WELCOME: u32 = 2;
pub(crate) const REFUSAL: u32 = 3;
pub(crate) const ARENA: u32 = 4;
pub(crate) const GOODBYE: u32 = 5;
pub(crate) const ASK: u32 = 6;
pub(crate) const ANSWER: u32 = 7;

/// Length of an encoded greeting in bytes.
const LEN: usize = 16 + ADDRESS_LEN + 8 * WORDS;
const WORDS: usize = 8;

/// A hello, or the welcome that answers it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greeting {
    /// [`HELLO`] or [`WELCOME`].
    pub(crate) kind: u32,
    /// The secret of the endpoint that is greeted.
    pub(crate) secret: u64,
    /// The endpoint that greets.
    pub(crate) address: Address,
    /// The number that the greeted endpoint has at the greeting one.
    pub(crate) number: u32,
    /// What is the same for all endpoints of one process, and for no others.
    pub(crate) process: (u64, u32),
    /// How to try single copy on the greeting process. The pid comes from the kernel instead.
    pub(crate) probe: ProbeData,
    /// Where the greeting process runs.
    pub(crate) place: Place,
    /// Epoch of the segment that comes with the greeting.
    pub(crate) epoch: u64,
    /// The greeting endpoint's session with the kernel module; 0 if it has none.
    pub(crate) kmod: u64,
}

/// A greeting that came and could not be answered, or taken in, when it did.
pub(crate) struct Pending {
    pub(crate) greeting: Greeting,
    /// What came with it, and is not mapped yet.
    pub(crate) fds: Vec<OwnedFd>,
    pub(crate) mapped: Option<Box<MappedPeer>>,
    pub(crate) since: Instant,
}

impl Pending {
    pub(crate) fn new(greeting: Greeting, fds: Vec<OwnedFd>) -> Self {
        Self {
            greeting,
            fds,
            mapped: None,
            since: Instant::now(),
        }
    }
}

/// A message that is no greeting of this version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadGreeting {
    #[error("a greeting of {0} bytes, {LEN} expected")]
    Length(usize),
    #[error(
        "protocol version {theirs}, this endpoint speaks {PROTOCOL}; build all ranks with one version of limic"
    )]
    Version { theirs: u32 },
    #[error("a malformed address in the greeting")]
    Address,
}

/// What this endpoint says of itself over a network: the version, and the whole address, which the
/// peer may not know.
pub(crate) fn hello(address: &Address) -> Vec<u8> {
    let mut hello = PROTOCOL.to_le_bytes().to_vec();
    hello.extend(address.to_bytes());
    hello
}

/// The address in the hello of a peer.
pub(crate) fn address_in(hello: &[u8]) -> Result<Address, BadGreeting> {
    // The version comes first: another one may say something else behind it.
    let Some((version, address)) = hello.split_first_chunk() else {
        return Err(BadGreeting::Address);
    };
    match u32::from_le_bytes(*version) {
        PROTOCOL => Address::from_bytes(address).map_err(|_| BadGreeting::Address),
        theirs => Err(BadGreeting::Version { theirs }),
    }
}

/// The question whether a peer is in the middle of something, or the answer.
pub(crate) fn question(kind: u32, number: u32) -> [u8; 8] {
    (u64::from(number) << 32 | u64::from(kind)).to_le_bytes()
}

/// The message that hands an arena over.
pub(crate) fn arena(number: u32, bytes: u64) -> Vec<u8> {
    let mut message = ARENA.to_le_bytes().to_vec();
    message.extend(number.to_le_bytes());
    message.extend(bytes.to_le_bytes());
    message
}

impl Greeting {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(LEN);
        out.extend(self.kind.to_le_bytes());
        out.extend(PROTOCOL.to_le_bytes());
        out.extend(self.secret.to_le_bytes());
        out.extend(self.address.to_bytes());
        let words = [
            u64::from(self.number),
            self.process.0,
            u64::from(self.process.1),
            self.probe.address,
            self.probe.value,
            u64::from_le_bytes(self.place.to_bytes()),
            self.epoch,
            self.kmod,
        ];
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadGreeting> {
        // The version comes first: another one may have another length.
        if bytes.len() >= 8 {
            let theirs = u32_at(bytes, 4);
            if theirs != PROTOCOL {
                return Err(BadGreeting::Version { theirs });
            }
        }
        if bytes.len() != LEN {
            return Err(BadGreeting::Length(bytes.len()));
        }
        let address =
            Address::from_bytes(&bytes[16..16 + ADDRESS_LEN]).map_err(|_| BadGreeting::Address)?;
        let word = |index: usize| u64_at(bytes, 16 + ADDRESS_LEN + index * 8);
        Ok(Self {
            kind: u32_at(bytes, 0),
            secret: u64_at(bytes, 8),
            address,
            number: word(0) as u32,
            process: (word(1), word(2) as u32),
            probe: ProbeData {
                pid: 0,
                address: word(3),
                value: word(4),
            },
            place: Place::from_bytes(word(5).to_le_bytes()),
            epoch: word(6),
            kmod: word(7),
        })
    }
}

/// The 32-bit word at a position that exists; 0 otherwise.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

/// The 64-bit word at a position that exists; 0 otherwise.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

/// Reads a greeting, for the fuzzer.
///
/// # Panics
/// What was read says something else when it is written and read again.
#[cfg(fuzzing)]
pub(crate) fn any_greeting(bytes: &[u8]) {
    if let Ok(greeting) = Greeting::decode(bytes) {
        let again = greeting.encode();
        let greeting = Greeting::decode(&again).expect("a greeting of this version");
        assert_eq!(greeting.encode(), again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_survive_the_wire_and_others_are_refused() {
        let greeting = Greeting {
            kind: HELLO,
            secret: 7,
            address: Address::generate().unwrap(),
            number: 3,
            process: (9, 10),
            probe: ProbeData {
                pid: 0,
                address: 11,
                value: 12,
            },
            place: Place::ANYWHERE,
            epoch: 13,
            kmod: 14,
        };
        let bytes = greeting.encode();
        let back = Greeting::decode(&bytes).unwrap();
        assert_eq!(format!("{back:?}"), format!("{greeting:?}"));
        for len in 0..bytes.len() {
            assert!(Greeting::decode(&bytes[..len]).is_err());
        }
        let mut other = bytes.clone();
        let theirs = PROTOCOL + 1;
        other[4..8].copy_from_slice(&theirs.to_le_bytes());
        assert_eq!(
            Greeting::decode(&other).unwrap_err(),
            BadGreeting::Version { theirs }
        );
        let mut other = bytes;
        other[16] = 9;
        assert_eq!(Greeting::decode(&other).unwrap_err(), BadGreeting::Address);
    }
}
