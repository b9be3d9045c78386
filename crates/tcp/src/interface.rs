//! The addresses of this machine, and which one peers are told.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

/// An address of a network interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interface {
    /// The interface's name.
    name: String,
    /// Its address.
    ip: IpAddr,
}

/// The address that peers are told: that of an interface by name, or itself; else the one that
/// leads to other networks, else the first there is. `also_loopback`: peers of this machine alone
/// are better than none.
///
/// # Errors
/// There is none: says what was looked for, and what there is.
pub fn choose(wanted: Option<&str>, also_loopback: bool) -> Result<IpAddr, String> {
    let Some(wanted) = wanted else {
        if let Some(ip) = by_route() {
            return Ok(ip);
        }
        let there = list().map_err(|error| format!("getifaddrs: {error}"))?;
        let outside = there.iter().find(|found| !found.ip.is_loopback());
        return match outside {
            Some(found) => Ok(found.ip),
            None if also_loopback => Ok(Ipv4Addr::LOCALHOST.into()),
            None => Err("no network interface but the loopback has an address".to_owned()),
        };
    };
    let there = list().map_err(|error| format!("getifaddrs: {error}"))?;
    let asked: Option<IpAddr> = wanted.parse().ok();
    let fits = |found: &&Interface| found.name == wanted || Some(found.ip) == asked;
    there
        .iter()
        .find(fits)
        .map(|found| found.ip)
        .ok_or_else(|| {
            let text = |found: &Interface| format!("{} ({})", found.name, found.ip);
            let all: Vec<_> = there.iter().map(text).collect();
            format!(
                "there is no interface {wanted} that is up with an address; there are: {}",
                all.join(", ")
            )
        })
}

/// The address from which this machine would speak to others. No packet is sent for that.
fn by_route() -> Option<IpAddr> {
    // Addresses that are reserved for documents: whatever leads there leads everywhere.
    let from = |own: IpAddr, to: IpAddr| {
        let socket = UdpSocket::bind((own, 0)).ok()?;
        socket.connect((to, 9)).ok()?;
        let ip = socket.local_addr().ok()?.ip();
        is_usable(ip).then_some(ip).filter(|ip| !ip.is_loopback())
    };
    from(
        Ipv4Addr::UNSPECIFIED.into(),
        Ipv4Addr::new(198, 51, 100, 1).into(),
    )
    .or_else(|| {
        let to = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        from(Ipv6Addr::UNSPECIFIED.into(), to.into())
    })
}

/// Whether peers can use an address as it is: one that holds on one link alone cannot be.
fn is_usable(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_unspecified() && !ip.is_unicast_link_local(),
    }
}

/// The usable addresses of all interfaces that are up, those of IPv4 first.
///
/// # Errors
/// The kernel's.
fn list() -> Result<Vec<Interface>, Errno> {
    let up = getifaddrs()?.filter(|found| found.flags.contains(InterfaceFlags::IFF_UP));
    let mut found: Vec<_> = up
        .filter_map(|found| {
            let ip = ip_in(&found.address?).filter(|ip| is_usable(*ip))?;
            let name = found.interface_name;
            Some(Interface { name, ip })
        })
        .collect();
    found.sort_by_key(|found| found.ip.is_ipv6());
    Ok(found)
}

/// The IP address in a socket address, if it is one.
fn ip_in(address: &SockaddrStorage) -> Option<IpAddr> {
    let four = address.as_sockaddr_in().map(|four| four.ip().into());
    four.or_else(|| Some(address.as_sockaddr_in6()?.ip().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_found_by_its_name_and_its_address() {
        let there = list().unwrap();
        let Some(first) = there.first() else { return };
        let by_address = choose(Some(&first.ip.to_string()), false);
        assert_eq!(by_address, Ok(first.ip));
        let by_name = choose(Some(&first.name), false).unwrap();
        assert!(
            there
                .iter()
                .any(|i| i.name == first.name && i.ip == by_name)
        );
    }

    #[test]
    fn an_interface_that_is_not_there_is_named_beside_those_that_are() {
        let error = choose(Some("eth77"), true).unwrap_err();
        assert!(
            error.contains("eth77") && error.contains("there are"),
            "{error}"
        );
    }

    #[test]
    fn there_is_an_address_for_peers_of_this_machine_at_least() {
        assert!(is_usable(choose(None, true).unwrap()));
    }
}
