//! A page of counters as text, and as JSON. docs/counters.md describes both.

use core::fmt;

use limic_policy::{ByteSize, Path};
use serde::Serialize;

use crate::{Page, PeerCounts, Reason, Traffic, size_class_range};

/// Lines of the text, each indented; what is 0 is left out.
impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "endpoint {:016x} of process {}",
            self.endpoint, self.process
        )?;
        if let Some(rank) = self.rank {
            write!(f, ", rank {rank}")?;
        }
        writeln!(f, ", {}", if self.closed { "closed" } else { "open" })?;
        let counters = &self.counters;
        for (title, paths) in [
            ("sent by path", &counters.sent_paths),
            ("received by path", &counters.received_paths),
        ] {
            let moved = paths.iter().filter(|(_, traffic)| traffic.messages > 0);
            for (number, (path, traffic)) in moved.enumerate() {
                line(
                    f,
                    if number == 0 { title } else { "" },
                    path.name(),
                    traffic,
                )?;
            }
        }
        let sizes = counters.sizes.iter().enumerate().filter(|(_, n)| **n > 0);
        for (number, (class, messages)) in sizes.enumerate() {
            let title = if number == 0 { "sent by size" } else { "" };
            writeln!(f, "  {title:<18}{:<14}{messages:>14}", class_name(class))?;
        }
        let silent = |traffic: &Traffic| traffic.messages == 0;
        for (number, peer) in self.peers.iter().enumerate() {
            let title = if number == 0 { "peers" } else { "" };
            let to = format!("to {}", peer.peer);
            line(f, title, &to, &peer.sent)?;
            line(f, "", "  from it", &peer.received)?;
        }
        if !silent(&self.others.sent) || !silent(&self.others.received) {
            line(f, "", "to others", &self.others.sent)?;
            line(f, "", "  from them", &self.others.received)?;
        }
        let events = counters.events.iter().filter(|(_, n)| *n > 0);
        for (number, (event, n)) in events.enumerate() {
            let title = if number == 0 { "events" } else { "" };
            writeln!(f, "  {title:<18}{:<22}{n:>6}", event.name())?;
        }
        for (number, reason) in counters.reasons.iter().enumerate() {
            let title = if number == 0 { "reasons" } else { "" };
            writeln!(f, "  {title:<18}{reason}")?;
        }
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, title: &str, name: &str, traffic: &Traffic) -> fmt::Result {
    let Traffic { messages, bytes } = traffic;
    writeln!(
        f,
        "  {title:<18}{name:<14}{messages:>14} messages {bytes:>18} bytes"
    )
}

/// `0`, `1`, `2-3`, `4-7`, ... with suffixes where they are exact.
fn class_name(class: usize) -> String {
    let (first, last) = size_class_range(class);
    if first == last {
        return first.to_string();
    }
    match last.checked_add(1) {
        Some(next) if first >= 1024 => format!("{} to <{}", ByteSize(first), ByteSize(next)),
        _ => format!("{first}-{last}"),
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = self.path {
            write!(f, "{path}: ")?;
        }
        f.write_str(&self.text)?;
        match (self.peer, self.times) {
            (None, 0 | 1) => Ok(()),
            (None, times) => write!(f, " ({times} times)"),
            (Some(peer), 0 | 1) => write!(f, " ({peer})"),
            (Some(peer), times) => write!(f, " ({peer} first, {times} times)"),
        }
    }
}

/// The JSON of a page.
#[derive(Serialize)]
struct Json<'a> {
    process: u32,
    rank: Option<u32>,
    endpoint: String,
    opened_ms: u64,
    closed: bool,
    sent: Vec<OfPath>,
    received: Vec<OfPath>,
    sizes: Vec<OfSize>,
    peers: Vec<OfPeer>,
    others: OfPeer,
    events: serde_json::Map<String, serde_json::Value>,
    reasons: Vec<OfReason<'a>>,
}

#[derive(Serialize)]
struct OfPath {
    path: Path,
    #[serde(flatten)]
    traffic: Traffic,
}

#[derive(Serialize)]
struct OfSize {
    from_bytes: u64,
    to_bytes: u64,
    messages: u64,
}

#[derive(Serialize)]
struct OfPeer {
    peer: Option<u32>,
    endpoint: Option<String>,
    sent: Traffic,
    received: Traffic,
    wake_ups: u64,
}

#[derive(Serialize)]
struct OfReason<'a> {
    path: Option<Path>,
    peer: Option<u32>,
    times: u64,
    text: &'a str,
}

impl Page {
    /// One JSON object on one line; paths, sizes and peers without traffic are left out.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Strings and numbers: nothing that could fail.
        serde_json::to_string(&self.json()).unwrap_or_default()
    }

    fn json(&self) -> Json<'_> {
        let counters = &self.counters;
        let paths = |paths: &[(Path, Traffic)]| {
            let moved = paths.iter().filter(|(_, traffic)| traffic.messages > 0);
            moved
                .map(|&(path, traffic)| OfPath { path, traffic })
                .collect()
        };
        let peer = |peer: &PeerCounts, own: bool| OfPeer {
            peer: own.then(|| peer.peer.index()),
            endpoint: own.then(|| format!("{:016x}", peer.endpoint)),
            sent: peer.sent,
            received: peer.received,
            wake_ups: peer.wake_ups,
        };
        Json {
            process: self.process,
            rank: self.rank,
            endpoint: format!("{:016x}", self.endpoint),
            opened_ms: self.opened_ms,
            closed: self.closed,
            sent: paths(&counters.sent_paths),
            received: paths(&counters.received_paths),
            sizes: (0..)
                .zip(&counters.sizes)
                .filter(|(_, messages)| **messages > 0)
                .map(|(class, &messages)| {
                    let (from_bytes, to_bytes) = size_class_range(class);
                    OfSize {
                        from_bytes,
                        to_bytes,
                        messages,
                    }
                })
                .collect(),
            peers: self.peers.iter().map(|counts| peer(counts, true)).collect(),
            others: peer(&self.others, false),
            events: counters
                .events
                .iter()
                .map(|(event, n)| (event.name().to_owned(), (*n).into()))
                .collect(),
            reasons: counters
                .reasons
                .iter()
                .map(|reason| OfReason {
                    path: reason.path,
                    peer: reason.peer.map(|peer| peer.index()),
                    times: reason.times,
                    text: &reason.text,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_names() {
        let names: Vec<_> = [0, 1, 2, 7, 11, 21, 64].map(class_name).into();
        assert_eq!(
            names[..6],
            ["0", "1", "2-3", "64-127", "1K to <2K", "1M to <2M"]
        );
        assert_eq!(names[6], format!("{}-{}", 1_u64 << 63, u64::MAX));
    }
}
