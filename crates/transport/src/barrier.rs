//! All ranks of a job meet, out of empty messages.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use crate::topology::CpuSet;
use crate::{Endpoint, Error, Peer, PeerFailure, RawEndpoint, Result, Selector, Tag};

/// Bytes of a message that names a rank that is gone; all others are empty.
const NAME: usize = 4;

/// How one rank meets the others: returns from [`wait`](Self::wait) only after all have called it.
///
/// Ranks that have a CPU each meet by dissemination, `log2(ranks)` rounds in which each tells one other rank and hears from one
/// (Hensgen, Finkel, Manber 1988). Where a node has more ranks than CPUs they take turns on them, and a turn takes longer than all
/// messages: there the ranks of a node tell its first rank, the *head*, the heads meet by dissemination, and each tells its own. That
/// is two turns of each rank, where dissemination needs one for each of its rounds.
///
/// [`World::barrier`](crate::World::barrier) is this; by itself it is for runtimes with a bootstrap of their own, and for endpoints
/// beside a world's ([`World::barrier_of`](crate::World::barrier_of)).
///
/// ```
/// use limic::{Barrier, Endpoint, HybridEndpoint, RawEndpoint, Tag, topology::CpuSet};
///
/// // A job of one rank: two of these would be told each other's address, node and CPUs.
/// let endpoint = HybridEndpoint::open()?;
/// let address = endpoint.address();
/// endpoint.connect(&address.to_bytes())?;
/// let heads = Barrier::heads(&[(address.node(), CpuSet::allowed()?)]);
/// Barrier::new(0, &heads).wait(&endpoint, Tag(1))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Barrier {
    ranks: u32,
    /// Whom this rank tells, and from whom it hears that all have come. A head has none.
    head: Option<Peer>,
    /// Who tells this rank. Only a head has some.
    followers: Vec<Peer>,
    /// All heads, in the order of their ranks.
    heads: Vec<Peer>,
    /// Of a head, its place among them.
    place: usize,
}

impl Barrier {
    /// The head of each rank, by the node ([`Address::node`](crate::Address::node)) and the CPUs of each. Without more ranks
    /// than CPUs on some node every rank is a head of its own. Where the CPUs of nobody on a node are known (empty sets), its
    /// ranks are taken to share them.
    ///
    /// All ranks have to call it with the same.
    #[must_use]
    pub fn heads(ranks: &[(u64, CpuSet)]) -> Vec<u32> {
        let mut nodes: HashMap<u64, (u32, usize, CpuSet)> = HashMap::new();
        for (rank, (node, cpus)) in (0..).zip(ranks) {
            let (_, ranks, all) = nodes.entry(*node).or_insert((rank, 0, CpuSet::new()));
            *ranks += 1;
            for cpu in cpus.iter() {
                all.insert(cpu);
            }
        }
        let crowded = nodes.values().any(|(_, ranks, cpus)| *ranks > cpus.len());
        (0..)
            .zip(ranks)
            .map(|(rank, (node, _))| match nodes.get(node) {
                Some((first, ..)) if crowded => *first,
                _ => rank,
            })
            .collect()
    }

    /// The barrier as `rank` takes part in it. All ranks have the same `heads`, of which each is its own head
    /// ([`heads`](Self::heads) makes such).
    #[must_use]
    pub fn new(rank: u32, heads: &[u32]) -> Self {
        let with = |keep: &dyn Fn(u32, u32) -> bool| -> Vec<Peer> {
            let ranks = (0..).zip(heads);
            let kept = ranks.filter(|(rank, head)| keep(*rank, **head));
            kept.map(|(rank, _)| Peer(rank)).collect()
        };
        let followers = with(&|other, head| other != rank && head == rank);
        let all = with(&|other, head| other == head);
        let head = heads.get(rank as usize).copied();
        Self {
            ranks: heads.len() as u32,
            head: head.filter(|head| *head != rank).map(Peer),
            followers,
            place: all.partition_point(|head| head.0 < rank),
            heads: all,
        }
    }

    /// How many messages one barrier takes, of all ranks together.
    #[must_use]
    pub fn messages(&self) -> u64 {
        let heads = self.heads.len() as u64;
        let rounds = u64::from(heads.next_power_of_two().ilog2());
        2 * (u64::from(self.ranks) - heads) + heads * rounds
    }

    /// Returns when all ranks have called it. `endpoint` is connected to all of them in the order of their ranks, so that each
    /// peer has its rank as its [index](Peer::index); nothing else between them uses `tag`.
    ///
    /// If a rank is gone, every other one learns its name: who misses it passes that on in place of the empty messages, and so
    /// nobody waits for a rank that has given up.
    ///
    /// # Errors
    /// [`Error::PeerFailed`] names the rank that is gone, with [`PeerFailure::Reported`] where another rank told so. Whatever else
    /// a send or receive gives; then the others go on to wait until this endpoint closes.
    pub fn wait<E: RawEndpoint>(&self, endpoint: &E, tag: impl Into<Tag>) -> Result<()> {
        let mut meeting = Meeting {
            endpoint,
            tag: tag.into(),
            ranks: self.ranks,
            gone: None,
        };
        // The messages of one sender do not overtake each other, and nobody sends to the same rank twice in a barrier, so one tag
        // will do for all rounds and for barriers that follow one another.
        if let Some(head) = self.head {
            meeting.tell(head)?;
            meeting.hear(head)?;
            return meeting.outcome();
        }
        for follower in &self.followers {
            meeting.hear(*follower)?;
        }
        let heads = self.heads.len();
        let mut distance = 1;
        while distance < heads {
            meeting.tell(self.heads[(self.place + distance) % heads])?;
            meeting.hear(self.heads[(self.place + heads - distance) % heads])?;
            distance *= 2;
        }
        for follower in &self.followers {
            meeting.tell(*follower)?;
        }
        meeting.outcome()
    }
}

/// One barrier under way.
struct Meeting<'a, E> {
    endpoint: &'a E,
    tag: Tag,
    ranks: u32,
    /// The first rank that was found to be gone.
    gone: Option<(Peer, PeerFailure)>,
}

impl<E: RawEndpoint> Meeting<'_, E> {
    /// Tells a rank that this one, and all that it has heard from, are there; or who is not.
    fn tell(&mut self, to: Peer) -> Result<()> {
        let name = self.gone.as_ref().map(|(peer, _)| peer.0.to_le_bytes());
        let message: &[u8] = name.as_ref().map_or(&[], |name| name);
        let sent = self.endpoint.send(to, self.tag, message);
        self.unless_gone(sent).map(drop)
    }

    fn hear(&mut self, from: Peer) -> Result<()> {
        let mut name = [0; NAME];
        let received = self
            .endpoint
            .recv(Selector::exact(from, self.tag), &mut name);
        let Some(status) = self.unless_gone(received)? else {
            return Ok(());
        };
        if status.len == 0 {
            return Ok(());
        }
        let rank = u32::from_le_bytes(name);
        if status.len != NAME as u64 || rank >= self.ranks {
            return Err(Error::PeerFailed {
                peer: from,
                why: PeerFailure::Corrupt(format!(
                    "{} bytes in a barrier, which name no rank of {}",
                    status.len, self.ranks
                )),
            });
        }
        self.gone
            .get_or_insert((Peer(rank), PeerFailure::Reported { by: from }));
        Ok(())
    }

    /// What was sent or received, `None` if the other rank is gone; any other error is given up at.
    fn unless_gone<T>(&mut self, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(Error::PeerFailed { peer, why }) => {
                self.gone.get_or_insert((peer, why));
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    fn outcome(self) -> Result<()> {
        match self.gone {
            None => Ok(()),
            Some((peer, why)) => Err(Error::PeerFailed { peer, why }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(node: u64, cpus: impl IntoIterator<Item = u32>) -> (u64, CpuSet) {
        (node, cpus.into_iter().collect())
    }

    #[test]
    fn ranks_with_a_cpu_each_have_no_head() {
        let alone = [0, 1];
        assert_eq!(Barrier::heads(&[place(1, [0]), place(1, [1])]), alone);
        assert_eq!(Barrier::heads(&[place(1, 0..2), place(1, 0..2)]), alone);
        assert_eq!(Barrier::heads(&[place(1, [0]), place(2, [0])]), alone);
    }

    #[test]
    fn ranks_that_take_turns_have_their_nodes_first_one() {
        assert_eq!(Barrier::heads(&[place(1, [0]), place(1, [0])]), [0, 0]);
        assert_eq!(Barrier::heads(&[place(1, []), place(1, [])]), [0, 0]);
        let mixed = [place(7, [0]), place(5, 0..2), place(7, [0]), place(5, 0..2)];
        assert_eq!(Barrier::heads(&mixed), [0, 1, 0, 1]);
    }

    #[test]
    fn messages_are_counted() {
        let messages = |heads: &[u32]| Barrier::new(0, heads).messages();
        let ranks = [1, 2, 3, 4, 5, 8];
        let disseminated = ranks.map(|ranks| messages(&(0..ranks).collect::<Vec<_>>()));
        assert_eq!(disseminated, [0, 2, 6, 8, 15, 24]);
        let by_one = ranks.map(|ranks| messages(&vec![0; ranks as usize]));
        assert_eq!(by_one, [0, 2, 4, 6, 8, 14]);
        assert_eq!(messages(&[0, 1, 0, 1]), 6);
    }
}
