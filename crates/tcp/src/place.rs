//! Where an endpoint is reached: an IP address and a port, as 6 or 18 bytes.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use limic_fabric::{Network, Part};

/// As it travels: the address, then the port, in the order of the network.
pub(crate) fn part_of(at: SocketAddr) -> Option<Part> {
    let mut place = Vec::with_capacity(18);
    match at.ip() {
        IpAddr::V4(ip) => place.extend(ip.octets()),
        IpAddr::V6(ip) => place.extend(ip.octets()),
    }
    place.extend(at.port().to_be_bytes());
    Part::new(Network::Tcp, &place)
}

/// From an address. `None`: it is not of this kind, or names nobody.
pub(crate) fn place_of(part: &Part) -> Option<SocketAddr> {
    let (ip, port) = part.place().split_last_chunk::<2>()?;
    let ip = match *ip {
        [a, b, c, d] => IpAddr::from([a, b, c, d]),
        _ => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?)),
    };
    let port = u16::from_be_bytes(*port);
    let nobody = ip.is_unspecified() || ip.is_multicast() || port == 0;
    (part.network() == Network::Tcp && !nobody).then(|| SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_both_families_come_back() {
        for text in ["192.0.2.7:4711", "[2001:db8::5]:80", "[::1]:65535"] {
            let at: SocketAddr = text.parse().unwrap();
            let part = part_of(at).unwrap();
            assert_eq!(place_of(&part), Some(at));
        }
    }

    #[test]
    fn nobody_is_called_at_no_place() {
        for text in ["0.0.0.0:1", "192.0.2.7:0", "[::]:9", "224.0.0.1:9"] {
            let part = part_of(text.parse().unwrap()).unwrap();
            assert_eq!(place_of(&part), None, "{text}");
        }
        for len in (1..=32).filter(|len| ![6, 18].contains(len)) {
            let part = Part::new(Network::Tcp, &vec![1; len]).unwrap();
            assert_eq!(place_of(&part), None, "{len}");
        }
        let verbs = Part::new(Network::Verbs, &[1; 6]).unwrap();
        assert_eq!(place_of(&verbs), None);
    }
}
