//! The provider's counters, which prove for each process that limic moved its messages.

use std::collections::BTreeMap;

/// The beginning of the line that the provider prints at the end of each endpoint.
const LINE: &str = "limic-fi: process ";

/// The counters of one process, the sum of all its endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    pub(super) received: u64,
    pub(super) received_bytes: u64,
    pub(super) read: u64,
    pub(super) wrote: u64,
    pub(super) atomics: u64,
    /// Whether messages went within the machine, and over a network.
    pub(super) inside: bool,
    pub(super) between: bool,
    /// Whether messages went out of memory that peers may read.
    pub(super) peer_readable: bool,
}

/// The counters that a program has to show.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    /// Messages, for each rank.
    Messages,
    /// Messages out of memory that peers may read too, for each rank.
    PeerReadable,
    /// Reads, writes and atomic operations too, for each rank.
    OneSided,
    /// Messages, for each process. The program starts more processes than its ranks.
    Spawns,
}

/// The counters of each process, from the output of a job. Launchers may join lines of ranks.
pub(super) fn counted(texts: &[&str]) -> BTreeMap<u32, Moved> {
    let mut all: BTreeMap<u32, Moved> = BTreeMap::new();
    for text in texts.iter().flat_map(|text| text.split(LINE).skip(1)) {
        let Some((process, moved)) = line(text) else {
            continue;
        };
        let sum = all.entry(process).or_default();
        sum.sent += moved.sent;
        sum.sent_bytes += moved.sent_bytes;
        sum.received += moved.received;
        sum.received_bytes += moved.received_bytes;
        sum.read += moved.read;
        sum.wrote += moved.wrote;
        sum.atomics += moved.atomics;
        sum.inside |= moved.inside;
        sum.between |= moved.between;
        sum.peer_readable |= moved.peer_readable;
    }
    all
}

/// `4711: sent 1 messages 8 bytes, received 1 messages 8 bytes, read 0 times 0 bytes, wrote 0 times
/// 0 bytes, 0 atomics; paths: inline 1`
fn line(text: &str) -> Option<(u32, Moved)> {
    let (text, paths) = text.lines().next()?.split_once(" atomics; paths:")?;
    let paths: Vec<&str> = paths.split_whitespace().step_by(2).collect();
    let is_network = |path: &&str| path.starts_with("network");
    let numbers: Vec<u64> = text
        .split(|letter: char| !letter.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let [
        process,
        sent,
        sent_bytes,
        received,
        received_bytes,
        read,
        _,
        wrote,
        _,
        atomics,
    ] = *numbers.as_slice()
    else {
        return None;
    };
    let moved = Moved {
        sent,
        sent_bytes,
        received,
        received_bytes,
        read,
        wrote,
        atomics,
        inside: paths
            .iter()
            .any(|path| *path != "self" && !is_network(path)),
        between: paths.iter().any(is_network),
        peer_readable: paths.contains(&"peer-readable"),
    };
    Some((u32::try_from(process).ok()?, moved))
}

/// The processes that ranks name, and the bytes that each says it sends to others.
fn named(out: &str) -> BTreeMap<u32, u64> {
    let mut all = BTreeMap::new();
    for line in out.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [
            "rank",
            _,
            "is",
            "process",
            process,
            "and",
            "sends",
            bytes,
            "bytes",
        ] = *words
            && let (Ok(process), Ok(bytes)) = (process.parse(), bytes.parse())
        {
            all.insert(process, bytes);
        }
    }
    all
}

/// Checks that each rank of a job has sent and received through limic.
pub(crate) fn messages(out: &str, err: &str, ranks: u32) -> Result<String, String> {
    judge(out, err, ranks, Expected::Messages)
}

/// Checks that each process of a job on two machines has used both ways.
pub(super) fn both_ways(out: &str, err: &str) -> Result<String, String> {
    let counted = counted(&[out, err]);
    match counted.iter().find(|(_, m)| !(m.inside && m.between)) {
        None => Ok("each by shared memory and over the network".to_owned()),
        Some((process, moved)) => Err(format!(
            "process {process} has not used both shared memory and the network: {moved:?}"
        )),
    }
}

/// Checks that each process of a job on two machines has used limic within its machine alone.
pub(super) fn inside_alone(out: &str, err: &str, ranks: u32) -> Result<String, String> {
    let counted = counted(&[out, err]);
    if counted.len() != ranks as usize {
        let said = counted.len();
        return Err(format!(
            "{said} of {ranks} processes have said what went through limic"
        ));
    }
    match counted.iter().find(|(_, m)| m.between || !m.inside) {
        None => Ok("each by limic within its machine, and by another provider between".to_owned()),
        Some((process, moved)) => Err(format!(
            "process {process} has used limic otherwise than within its machine: {moved:?}"
        )),
    }
}

/// Checks that each rank of a job has moved its messages through limic. Returns the sums.
pub(super) fn judge(
    out: &str,
    err: &str,
    ranks: u32,
    expected: Expected,
) -> Result<String, String> {
    let counted = counted(&[out, err]);
    let ranks = ranks as usize;
    let spawns = matches!(expected, Expected::Spawns);
    if counted.len() < ranks || (counted.len() > ranks && !spawns) {
        return Err(format!(
            "{} processes have said what went through limic, and there are {ranks} ranks",
            counted.len()
        ));
    }
    for (process, moved) in &counted {
        if moved.sent == 0 || moved.received == 0 {
            return Err(format!(
                "process {process} has not sent and received through limic: {moved:?}"
            ));
        }
        if matches!(expected, Expected::PeerReadable) && !moved.peer_readable {
            return Err(format!(
                "process {process} has sent nothing out of peer-readable memory: {moved:?}"
            ));
        }
        if matches!(expected, Expected::OneSided)
            && (moved.read == 0 || moved.wrote == 0 || moved.atomics == 0)
        {
            return Err(format!(
                "process {process} has not read, written and changed memory through limic: \
                 {moved:?}"
            ));
        }
    }
    for (process, bytes) in named(out) {
        let moved = counted.get(&process).copied();
        let Some(moved) = moved.filter(|moved| moved.sent_bytes >= bytes) else {
            return Err(format!(
                "process {process} sends {bytes} bytes; through limic: {moved:?}"
            ));
        };
        if moved.received_bytes < bytes {
            return Err(format!(
                "process {process} receives {bytes} bytes; through limic: {moved:?}"
            ));
        }
    }
    let sum = |what: fn(&Moved) -> u64| counted.values().map(what).sum::<u64>();
    let mut text = format!(
        "each of {} processes through limic; {} messages",
        counted.len(),
        sum(|moved| moved.sent)
    );
    if matches!(expected, Expected::OneSided) {
        text += &format!(
            ", {} reads, {} writes, {} atomic operations",
            sum(|moved| moved.read),
            sum(|moved| moved.wrote),
            sum(|moved| moved.atomics)
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(process: u32, sent: u64, bytes: u64, atomics: u64) -> String {
        format!(
            "{LINE}{process}: sent {sent} messages {bytes} bytes, received {sent} messages {bytes} \
             bytes, read 2 times 9 bytes, wrote 3 times 7 bytes, {atomics} atomics; paths: inline 4\n"
        )
    }

    #[test]
    fn every_rank_has_to_show_messages() {
        let both = said(1, 5, 40, 0) + &said(2, 7, 90, 0);
        assert!(judge("", &both, 2, Expected::Messages).is_ok_and(|how| how.contains("12")));
        assert!(judge("", &both, 3, Expected::Messages).is_err());
        assert!(judge("", &both, 1, Expected::Messages).is_err());
        assert!(judge("", &both, 1, Expected::Spawns).is_ok());
        let silent = said(1, 5, 40, 0) + &said(2, 0, 0, 0);
        assert!(judge("", &silent, 2, Expected::Messages).is_err());
    }

    #[test]
    fn with_the_heap_every_rank_sends_out_of_peer_readable_memory() {
        let usual = said(1, 5, 40, 0);
        assert!(judge("", &usual, 1, Expected::PeerReadable).is_err());
        let heap = usual.replace("inline 4", "inline 4 peer-readable 1");
        assert!(judge("", &heap, 1, Expected::PeerReadable).is_ok());
    }

    #[test]
    fn beside_another_provider_limic_stays_inside() {
        let inside = said(1, 5, 40, 0);
        assert!(inside_alone("", &inside, 1).is_ok());
        assert!(inside_alone("", &inside, 2).is_err());
        let between = inside.replace("inline 4", "inline 4 network 1");
        assert!(inside_alone("", &between, 1).is_err());
    }

    #[test]
    fn on_two_machines_each_process_uses_both_ways() {
        let inside = said(1, 5, 40, 0);
        assert!(both_ways("", &inside).is_err());
        let between = inside.replace("inline", "network");
        assert!(both_ways("", &between).is_err());
        assert!(both_ways(&inside, &between).is_ok());
    }

    #[test]
    fn endpoints_of_a_process_add_up() {
        let both = format!("{}\n{}\n", said(1, 5, 40, 1), said(1, 7, 90, 0));
        let all = counted(&[&both]);
        assert_eq!(
            (all[&1].sent, all[&1].sent_bytes, all[&1].read),
            (12, 130, 4)
        );
        assert!(judge("", &both, 1, Expected::OneSided).is_ok());
        let none = said(1, 5, 40, 0);
        assert!(judge("", &none, 1, Expected::OneSided).is_err());
    }

    #[test]
    fn what_a_rank_says_it_sends_has_to_be_there() {
        let out = "rank 0 is process 1 and sends 41 bytes\n";
        let err = said(1, 5, 40, 0);
        assert!(judge(out, &err, 1, Expected::Messages).is_err());
        let other = "rank 0 is process 9 and sends 1 bytes\n";
        assert!(judge(other, &err, 1, Expected::Messages).is_err());
        let right = "rank 0 is process 1 and sends 40 bytes\n";
        assert!(judge(right, &err, 1, Expected::Messages).is_ok());
    }
}
