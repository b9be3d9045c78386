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
    let name = name.strip_prefix('[').unwrap_or(name);
    let name = name.strip_suffix(']').unwrap_or(name);
    // The program that logs in there would read it as an option.
    if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
        return Err("expected the name of a host, or NAME:RANKS".into());
    }
    let room = room.map(|room| {
        room.parse()
            .map_err(|_| format!("{room:?} is not a number of ranks; write NAME:RANKS"))
    });
    Ok(Host {
        name: name.to_owned(),
        room: room.transpose()?,
    })
}

/// Gives each host its ranks in one block: as evenly as it goes, or each as many as it has room for
/// until all have their place. Hosts that get none are left out.
pub(super) fn distribute(hosts: &[Host], ranks: u32) -> Result<Vec<Part>, String> {
    let number = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
    let rooms = hosts.iter().filter(|host| host.room.is_some()).count();
    if rooms > 0 && rooms < hosts.len() {
        return Err("give each host a number of ranks, or none".into());
    }
    let mut first = 0;
    let mut parts = Vec::new();
    for (index, host) in (0..).zip(hosts) {
        let left = ranks - first;
        let count = match host.room {
            Some(room) => left.min(room.into()),
            None => ranks / number + u32::from(index < ranks % number),
        };
        if count > 0 {
            parts.push(Part {
                host: host.name.clone(),
                first,
                count,
            });
        }
        first += count;
    }
    if first < ranks {
        return Err(format!("{ranks} ranks, and room for {first}"));
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
        ] {
            assert!(place(hosts, 3).is_err(), "{hosts}");
        }
    }
}
