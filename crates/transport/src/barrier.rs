//! All ranks of a job meet, out of empty messages.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use limic_topology::CpuSet;

use crate::engine::patience::in_call;
use crate::raw::Messenger;
use crate::{Endpoint, Error, Peer, PeerFailure, Result, Selector, Status, Tag};

/// Bytes of a message that names a rank that is gone; all others are empty.
const NAME: usize = 4;

/// How one rank meets the others: returns from [`wait`](Self::wait) only after all have called it.
///
/// Ranks that have a CPU each meet by dissemination, `log2(ranks)` rounds in which each tells one
/// other rank and hears from one (Hensgen, Finkel, Manber 1988). Where a node has more ranks than
/// CPUs they take turns on them, and a turn takes longer than all messages. If there is such a
/// node, the ranks of each node tell its first rank, the *head*, the heads meet by dissemination,
/// and each tells its own. That is two turns of each rank, where dissemination needs one for each
/// of its rounds.
///
/// [`World::barrier`](crate::World::barrier) is this; by itself it is for runtimes with a bootstrap
/// of their own, and for endpoints beside a world's
/// ([`World::barrier_of`](crate::World::barrier_of)).
///
/// ```
/// use limic::{Barrier, Endpoint, HybridEndpoint, Tag, topology::CpuSet};
///
/// // A job of one rank: two of these would be told each other's address, node and CPUs.
/// let endpoint = HybridEndpoint::open()?;
/// let address = endpoint.address();
/// endpoint.connect(&address.to_bytes())?;
/// let heads = Barrier::heads(&[(address.node(), CpuSet::allowed()?)]);
/// Barrier::new(0, &heads)?.wait(&endpoint, Tag(1))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Barrier {
    ranks: u32,
    /// Whom this rank tells, and from whom it hears that all have come. A head has none.
    head: Option<Peer>,
    /// The ranks that tell this one. Only a head has some.
    followers: Vec<Peer>,
    /// All heads, in the order of their ranks.
    heads: Vec<Peer>,
    /// Of a head, its place among them.
    place: usize,
}

impl Barrier {
    /// The head of each rank, by the node ([`Address::node`](crate::Address::node)) and the CPUs of
    /// each. Without more ranks than CPUs on some node every rank is a head of its own. Where the
    /// CPUs of nobody on a node are known (empty sets), its ranks, if there are several, are taken
    /// to share one.
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
        let crowded = nodes
            .values()
            .any(|(_, ranks, cpus)| *ranks > cpus.len().max(1));
        (0..)
            .zip(ranks)
            .map(|(rank, (node, _))| match nodes.get(node) {
                Some((first, ..)) if crowded => *first,
                _ => rank,
            })
            .collect()
    }

    /// The barrier as `rank` takes part in it. All ranks have the same `heads`, of which each is
    /// its own head ([`heads`](Self::heads) makes such).
    ///
    /// # Errors
    /// [`Error::RankOutOfRange`] for a rank, or a head, that there is not; [`Error::Bootstrap`]
    /// names a rank whose head has another one.
    pub fn new(rank: u32, heads: &[u32]) -> Result<Self> {
        let size = heads.len() as u32;
        let head_of = |rank: u32| {
            let head = heads.get(rank as usize).copied();
            head.ok_or(Error::RankOutOfRange { rank, size })
        };
        let head = head_of(rank)?;
        let (mut followers, mut all) = (Vec::new(), Vec::new());
        for (other, its) in (0..).zip(heads.iter().copied()) {
            if head_of(its)? != its {
                return Err(Error::Bootstrap(format!(
                    "rank {other} has the head {its} in a barrier, which has another one: all heads have to be their own"
                )));
            }
            if its == other {
                all.push(Peer(other));
            } else if its == rank {
                followers.push(Peer(other));
            }
        }
        Ok(Self {
            ranks: size,
            head: (head != rank).then_some(Peer(head)),
            followers,
            place: all.partition_point(|head| head.0 < rank),
            heads: all,
        })
    }

    /// How many messages one barrier takes, of all ranks together.
    #[must_use]
    pub fn messages(&self) -> u64 {
        let heads = self.heads.len() as u64;
        let rounds = u64::from(heads.next_power_of_two().ilog2());
        2 * (u64::from(self.ranks) - heads) + heads * rounds
    }

    /// Returns when all ranks have called it. `endpoint` is connected to all of them in the order
    /// of their ranks, so that each peer has its rank as its [index](Peer::index); nothing else
    /// between them uses `tag`.
    ///
    /// If a rank is gone before it has called it, or some rank cannot reach it, every other one
    /// learns its name: who misses it passes that on in place of the empty messages, and so nobody
    /// waits for a rank that has given up. One that goes in the middle may be missed by some in the
    /// next barrier only.
    ///
    /// # Errors
    /// [`Error::PeerFailed`] names a rank that is gone, with [`PeerFailure::Reported`] where
    /// another rank told so. Whatever else a send or receive gives, if the endpoint is of no use
    /// any more; then the others go on to wait until it closes.
    pub fn wait<E: Endpoint>(&self, endpoint: &E, tag: impl Into<Tag>) -> Result<()> {
        let tag = tag.into();
        in_call("barrier", || self.wait_by(Blocking(endpoint), tag))
    }

    /// The same, for a runtime whose messages go by calls of its own. Where several threads are in
    /// it at a time, each counts as one call.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and what ends the runtime's calls.
    pub fn wait_by<M: Messenger>(&self, messenger: M, tag: Tag) -> Result<(), M::Failure> {
        let mut meeting = Meeting {
            messenger,
            tag,
            ranks: self.ranks,
            gone: None,
        };
        // The messages of one sender do not overtake each other, and nobody sends to the same rank
        // twice in a barrier, so one tag will do for all rounds and for barriers that follow one
        // another.
        if let Some(head) = self.head {
            meeting.tell(head)?;
            meeting.hear(head)?;
            return Ok(meeting.outcome()?);
        }
        for follower in &self.followers {
            meeting.hear(*follower)?;
        }
        let heads = self.heads.len();
        let mut distance = 1;
        while distance < heads {
            let to = self.heads[(self.place + distance) % heads];
            let from = self.heads[(self.place + heads - distance) % heads];
            meeting.exchange(to, from)?;
            distance *= 2;
        }
        for follower in &self.followers {
            meeting.tell(*follower)?;
        }
        Ok(meeting.outcome()?)
    }
}

/// Messages by the blocking calls of an endpoint.
struct Blocking<'a, E>(&'a E);

impl<E: Endpoint> Messenger for Blocking<'_, E> {
    type Failure = Error;

    fn send(&mut self, to: Peer, tag: Tag, message: &[u8]) -> Result<Result<()>> {
        Ok(self.0.send(to, tag, message))
    }

    fn recv(&mut self, from: Peer, tag: Tag, into: &mut [u8]) -> Result<Result<Status>> {
        Ok(self.0.recv(Selector::exact(from, tag), into))
    }

    fn exchange(
        &mut self,
        (to, message): (Peer, &[u8]),
        (from, into): (Peer, &mut [u8]),
        tag: Tag,
    ) -> Result<(Result<()>, Result<Status>)> {
        self.0.scope(|scope| {
            let receive = scope.irecv(Selector::exact(from, tag), into);
            let send = scope.isend(to, tag, message);
            let sent = send.and_then(|send| send.wait().map(drop));
            let received = receive.and_then(|receive| receive.wait());
            Ok((sent, received.map(|(status, _)| status)))
        })
    }
}

/// One barrier under way.
struct Meeting<M> {
    messenger: M,
    tag: Tag,
    ranks: u32,
    /// The first rank that was found to be gone.
    gone: Option<(Peer, PeerFailure)>,
}

impl<M: Messenger> Meeting<M> {
    /// Tells one rank, and hears from another, which may wait in turn for who waits for it.
    fn exchange(&mut self, to: Peer, from: Peer) -> Result<(), M::Failure> {
        let Some(name) = self.name() else {
            // An empty message goes whether its receiver waits or not.
            self.tell(to)?;
            return self.hear(from);
        };
        // A name may have to be asked for, like any message: all settings are possible.
        let mut heard = [0; NAME];
        let (send, receive) = ((to, &name[..]), (from, &mut heard[..]));
        let (sent, received) = self.messenger.exchange(send, receive, self.tag)?;
        self.unless_gone(sent)?;
        Ok(self.heard(from, received, heard)?)
    }

    /// Tells a rank that this one, and all that it has heard from, are there; or who is not.
    fn tell(&mut self, to: Peer) -> Result<(), M::Failure> {
        let name = self.name();
        let message: &[u8] = name.as_ref().map_or(&[], |name| name);
        let sent = self.messenger.send(to, self.tag, message)?;
        self.unless_gone(sent)?;
        Ok(())
    }

    fn hear(&mut self, from: Peer) -> Result<(), M::Failure> {
        let mut name = [0; NAME];
        let received = self.messenger.recv(from, self.tag, &mut name)?;
        Ok(self.heard(from, received, name)?)
    }

    /// What the message of a rank says.
    fn heard(&mut self, from: Peer, received: Result<Status>, name: [u8; NAME]) -> Result<()> {
        let len = match received {
            Err(Error::Truncated { sent, .. }) => sent,
            other => match self.unless_gone(other)? {
                Some(status) => status.len,
                None => return Ok(()),
            },
        };
        if len == 0 {
            return Ok(());
        }
        let rank = u32::from_le_bytes(name);
        let gone = if len == NAME as u64 && rank < self.ranks {
            (Peer(rank), PeerFailure::Reported { by: from })
        } else {
            let what = format!(
                "{len} bytes in a barrier, which name no rank of {}",
                self.ranks
            );
            (from, PeerFailure::Corrupt(what))
        };
        self.gone.get_or_insert(gone);
        Ok(())
    }

    /// What names the rank that is gone.
    fn name(&self) -> Option<[u8; NAME]> {
        self.gone.as_ref().map(|(peer, _)| peer.0.to_le_bytes())
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
            Some((peer, why)) => Err(why.of(peer)),
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
        assert_eq!(Barrier::heads(&[place(1, []), place(2, [0])]), alone);
    }

    #[test]
    fn ranks_that_take_turns_have_their_nodes_first_one() {
        assert_eq!(Barrier::heads(&[place(1, [0]), place(1, [0])]), [0, 0]);
        assert_eq!(Barrier::heads(&[place(1, []), place(1, [])]), [0, 0]);
        let mixed = [place(7, [0]), place(5, 0..2), place(7, [0]), place(5, 0..2)];
        assert_eq!(Barrier::heads(&mixed), [0, 1, 0, 1]);
    }

    #[test]
    fn heads_that_are_none_are_refused() {
        let refused = |rank, heads: &[u32]| Barrier::new(rank, heads).map(drop).unwrap_err();
        let out_of_range = |rank, size| Error::RankOutOfRange { rank, size };
        assert_eq!(refused(2, &[0, 1]), out_of_range(2, 2));
        assert_eq!(refused(0, &[]), out_of_range(0, 0));
        assert_eq!(refused(0, &[0, 9]), out_of_range(9, 2));
        assert!(
            refused(0, &[1, 2, 2])
                .to_string()
                .contains("rank 0 has the head 1")
        );
    }

    #[test]
    fn messages_are_counted() {
        let messages =
            |heads: &[u32]| Barrier::new(0, heads).map_or(0, |barrier| barrier.messages());
        let ranks = [1, 2, 3, 4, 5, 8];
        let disseminated = ranks.map(|ranks| messages(&(0..ranks).collect::<Vec<_>>()));
        assert_eq!(disseminated, [0, 2, 6, 8, 15, 24]);
        let by_one = ranks.map(|ranks| messages(&vec![0; ranks as usize]));
        assert_eq!(by_one, [0, 2, 4, 6, 8, 14]);
        assert_eq!(messages(&[0, 1, 0, 1]), 6);
    }
}
