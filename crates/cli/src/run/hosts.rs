//! `--hosts`: the hosts of a job, and which of its ranks run on each.

use std::num::NonZeroU32;

/// A host as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    name: String,
    /// The most ranks that run there, if that was said.
    room: Option<NonZeroU32>,
}

/// The ranks of a job that run on one host: `count` of them, from `first` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) host: String,
    pub(super) first: u32,
    pub(super) count: u32,
}

impl Part {
    /// The numbers of its ranks.
    pub(super) fn ranks(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

/// Reads `NAME`, `NAME:RANKS`, and the same with an IPv6 address in brackets.
pub(super) fn parse(text: &str) -> Result<Host, String> {
    let (name, room) = match text.rsplit_once(':') {
        Some((name, room)) if !room.ends_with(']') => (name, Some(room)),
        _ => (text, None),
    };
    let (user, address) = name.split_at(name.rfind('@').map_or(0, |at| at + 1));
    let bracketed = address
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if bracketed.is_none() && address.contains([':', '[', ']']) {
        return Err("write an IPv6 address in brackets: [ADDRESS] or [ADDRESS]:RANKS".into());
    }
    let name = format!("{user}{}", bracketed.unwrap_or(address));
    // The program that logs in there would read it as an option.
    if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
        return Err("expected the name of a host, or NAME:RANKS".into());
    }
    let room = room.map(|room| {
        room.parse()
            .map_err(|_| format!("{room:?} is not a number of ranks; write NAME:RANKS"))
    });
    Ok(Host {
        name,
        room: room.transpose()?,
    })
}

/// Gives each host its ranks in one block: as evenly as it goes, or each as many as it has room for
/// until all have their place. A host that is named several times has as many shares, and hosts
/// that get no rank are left out.
pub(super) fn distribute(hosts: &[Host], ranks: u32) -> Result<Vec<Part>, String> {
    let number = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
    let rooms = hosts.iter().filter(|host| host.room.is_some()).count();
    if rooms > 0 && rooms < hosts.len() {
        return Err("give each host a number of ranks, or none".into());
    }
    let mut placed = 0;
    let mut parts: Vec<Part> = Vec::new();
    for (index, host) in (0..).zip(hosts) {
        let count = match host.room {
            Some(room) => (ranks - placed).min(room.into()),
            None => ranks / number + u32::from(index < ranks % number),
        };
        placed += count;
        match parts.iter_mut().find(|part| part.host == host.name) {
            Some(part) => part.count += count,
            None => parts.push(Part {
                host: host.name.clone(),
                first: 0,
                count,
            }),
        }
    }
    if placed < ranks {
        return Err(format!("{ranks} ranks, and room for {placed}"));
    }
    parts.retain(|part| part.count > 0);
    let mut first = 0;
    for part in &mut parts {
        part.first = first;
        first += part.count;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(hosts: &str, ranks: u32) -> Result<Vec<(String, u32, u32)>, String> {
        let hosts: Result<Vec<Host>, String> = hosts.split(',').map(parse).collect();
        let parts = distribute(&hosts?, ranks)?.into_iter();
        Ok(parts
            .map(|part| (part.host, part.first, part.count))
            .collect())
    }

    #[test]
    fn ranks_are_spread_evenly_or_as_there_is_room() {
        let part = |host: &str, first, count| (host.to_owned(), first, count);
        for (hosts, ranks, expected) in [
            ("a,b", 5, vec![part("a", 0, 3), part("b", 3, 2)]),
            ("a,b,c", 2, vec![part("a", 0, 1), part("b", 1, 1)]),
            ("a:4,b:4", 6, vec![part("a", 0, 4), part("b", 4, 2)]),
            ("a:1,b:1,c:9", 2, vec![part("a", 0, 1), part("b", 1, 1)]),
            (
                "me@a,[fd00::1]",
                2,
                vec![part("me@a", 0, 1), part("fd00::1", 1, 1)],
            ),
            ("[fd00::1]:2", 2, vec![part("fd00::1", 0, 2)]),
            ("me@[fd00::1]", 1, vec![part("me@fd00::1", 0, 1)]),
            ("a,a,b,b", 4, vec![part("a", 0, 2), part("b", 2, 2)]),
            ("a,b,a,b", 3, vec![part("a", 0, 2), part("b", 2, 1)]),
            ("a:1,b:1,a:1", 3, vec![part("a", 0, 2), part("b", 2, 1)]),
        ] {
            assert_eq!(place(hosts, ranks), Ok(expected), "{hosts} {ranks}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for hosts in [
            "",
            "a,",
            "-oProxyCommand=x",
            "a:0",
            "a:b",
            "a b",
            "a,b:1",
            "a:1,b:1",
            "fd00::1",
            "me@fd00::1",
            "[fd00::1",
            "fd00::1]:2",
        ] {
            assert!(place(hosts, 3).is_err(), "{hosts}");
        }
    }
}
