//! Where an endpoint is reached over its networks: a few bytes for each of them.
//!
//! ```text
//! byte 0     network (high 3 bits), bytes that follow less one (low 5 bits); 0: no more parts
//! then       the place, as the network writes it
//! ```

/// Room for the parts of one endpoint.
pub const PARTS: usize = 36;

/// Most bytes of one place.
const MOST: usize = 32;

/// Which network a place belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Network {
    /// InfiniBand and RoCE, by verbs.
    Verbs = 1,
    /// TCP.
    Tcp = 2,
    /// A provider of libfabric.
    Ofi = 3,
}

impl Network {
    /// All of them, the preferred ones first: two endpoints use the first one that both have.
    pub const ALL: [Self; 3] = [Self::Verbs, Self::Ofi, Self::Tcp];

    /// The name that settings and texts use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verbs => "verbs",
            Self::Tcp => "tcp",
            Self::Ofi => "ofi",
        }
    }
}

/// A place in one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    network: Network,
    len: u8,
    place: [u8; MOST],
}

impl Part {
    /// A place in a network, as that writes it. `None`: it is empty, or longer than 32 bytes.
    #[must_use]
    pub fn new(network: Network, place: &[u8]) -> Option<Self> {
        let mut room = [0; MOST];
        room.get_mut(..place.len())?.copy_from_slice(place);
        (!place.is_empty()).then_some(Self {
            network,
            len: place.len() as u8,
            place: room,
        })
    }

    /// Its network.
    #[must_use]
    pub fn network(&self) -> Network {
        self.network
    }

    /// The place.
    #[must_use]
    pub fn place(&self) -> &[u8] {
        &self.place[..usize::from(self.len)]
    }
}

/// The places of one endpoint, as they travel in its address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Parts(pub [u8; PARTS]);

impl Parts {
    /// No network.
    pub const NONE: Self = Self([0; PARTS]);

    /// Adds a place. False: there is no room left for it.
    #[must_use]
    pub fn add(&mut self, part: &Part) -> bool {
        let used: usize = self.iter().map(|part| 1 + part.place().len()).sum();
        let place = part.place();
        let Some(room) = self.0.get_mut(used..used + 1 + place.len()) else {
            return false;
        };
        room[0] = (part.network as u8) << 5 | (part.len - 1);
        room[1..].copy_from_slice(place);
        true
    }

    /// The places in the order added. Ends at a network that this version does not know: what is
    /// behind it is not of this version either.
    pub fn iter(&self) -> impl Iterator<Item = Part> + '_ {
        let mut rest = &self.0[..];
        core::iter::from_fn(move || {
            let (head, behind) = rest.split_first()?;
            let network = match head >> 5 {
                1 => Network::Verbs,
                2 => Network::Tcp,
                3 => Network::Ofi,
                _ => return None,
            };
            let (place, behind) = behind.split_at_checked(usize::from(head & 0x1f) + 1)?;
            rest = behind;
            Part::new(network, place)
        })
    }

    /// The place in this network, if there is one.
    #[must_use]
    pub fn find(&self, network: Network) -> Option<Part> {
        self.iter().find(|part| part.network == network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_as_far_as_there_is_room() {
        let verbs = Part::new(Network::Verbs, &[7; 20]).unwrap();
        let tcp = Part::new(Network::Tcp, &[9; 6]).unwrap();
        let ofi = Part::new(Network::Ofi, &[8; 7]).unwrap();
        let mut parts = Parts::NONE;
        assert_eq!(parts.find(Network::Tcp), None);
        assert!(parts.add(&verbs) && parts.add(&tcp));
        assert_eq!(parts.iter().collect::<Vec<_>>(), [verbs, tcp]);
        assert_eq!(parts.find(Network::Tcp), Some(tcp));
        // 8 bytes are left.
        assert!(!parts.add(&Part::new(Network::Tcp, &[1; 18]).unwrap()));
        assert_eq!(parts.iter().count(), 2);
        assert!(parts.add(&ofi));
        assert_eq!(parts.find(Network::Ofi), Some(ofi));
    }

    #[test]
    fn the_longest_place_and_no_place() {
        let longest = Part::new(Network::Verbs, &[1; 32]).unwrap();
        let mut parts = Parts::NONE;
        assert!(parts.add(&longest));
        assert_eq!(parts.find(Network::Verbs), Some(longest));
        assert_eq!(Part::new(Network::Verbs, &[1; 33]), None);
        assert_eq!(Part::new(Network::Verbs, &[]), None);
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        for first in 0..=u8::MAX {
            let mut bytes = [first; PARTS];
            bytes[20] = first.wrapping_mul(31);
            assert!(Parts(bytes).iter().count() <= PARTS / 2);
        }
    }
}
