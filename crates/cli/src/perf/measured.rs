//! What a run of a pattern gave, on one rank and on all.

use limic::counters::{Event, Traffic};
use limic::settings::Path;
use limic::{Endpoint, Result};
use limic_measure::control::Control;

use super::hardware::{self, Counts, LIMIC, NAMES};

/// What one run of a pattern gave; merged over all ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    /// Seconds on the clock of the slowest rank that has one.
    pub(super) seconds: f64,
    /// Messages and bytes by path, in the order of `Path::ALL`.
    pub(super) paths: [Traffic; Path::ALL.len()],
    /// What processors, kernel and limic counted.
    pub(super) hardware: Counts,
}

impl Default for Measured {
    /// Of no rank: others can be added.
    fn default() -> Self {
        Self {
            seconds: 0.0,
            paths: Default::default(),
            hardware: [Some(0); NAMES.len()],
        }
    }
}

/// How a count that is missing travels.
const MISSING: u64 = u64::MAX;

impl Measured {
    const BYTES: usize = 8 * (1 + 2 * Path::ALL.len() + NAMES.len());

    /// Counts what `endpoint` has moved, and what happened to it, since `before`.
    pub(super) fn count<E: Endpoint>(&mut self, endpoint: &E, before: &limic::Counters) {
        let after = endpoint.counters();
        let events = [Event::Unexpected, Event::Waited, Event::Sleeps];
        for (count, event) in self.hardware[LIMIC..].iter_mut().zip(events) {
            let more = after.event(event).saturating_sub(before.event(event));
            *count = Some(count.unwrap_or(0) + more);
        }
        for (path, now) in after.paths {
            let was = before.paths.iter().find(|(other, _)| *other == path);
            let was = was.map(|(_, traffic)| *traffic).unwrap_or_default();
            let sum = &mut self.paths[path.index()];
            sum.messages += now.messages - was.messages;
            sum.bytes += now.bytes - was.bytes;
        }
    }

    /// Adds another rank, which ran at the same time.
    pub(super) fn merge(&mut self, other: &Self) {
        self.seconds = self.seconds.max(other.seconds);
        self.add(other);
    }

    /// Collective: what all ranks measured, the same for everybody.
    pub(super) fn of_all(&self, control: &Control) -> Result<Self> {
        let mut sum = Self::default();
        for bytes in control.gather(&self.encode())? {
            sum.merge(&Self::decode(&bytes));
        }
        Ok(sum)
    }

    /// Adds what another run moved and took.
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, more) in self.paths.iter_mut().zip(&other.paths) {
            sum.messages += more.messages;
            sum.bytes += more.bytes;
        }
        hardware::add(&mut self.hardware, &other.hardware);
    }

    /// The path that moved most: of the bytes, so that answers do not count; where there are none,
    /// of the messages.
    pub(super) fn path(&self) -> Option<Path> {
        let rank = |path: &Path| {
            let traffic = self.paths[path.index()];
            (traffic.bytes, traffic.messages)
        };
        let most = Path::ALL.into_iter().max_by_key(rank)?;
        (rank(&most) != (0, 0)).then_some(most)
    }

    fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let numbers = self.paths.iter().flat_map(|t| [t.messages, t.bytes]);
        let counts = self.hardware.iter().map(|count| count.unwrap_or(MISSING));
        let words = [self.seconds.to_bits()]
            .into_iter()
            .chain(numbers)
            .chain(counts);
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let mut words = bytes.chunks_exact(8).map(|word| {
            let mut copy = [0; 8];
            copy.copy_from_slice(word);
            u64::from_le_bytes(copy)
        });
        let mut next = || words.next().unwrap_or(0);
        let seconds = f64::from_bits(next());
        let paths = std::array::from_fn(|_| Traffic {
            messages: next(),
            bytes: next(),
        });
        let hardware = std::array::from_fn(|_| Some(next()).filter(|count| *count != MISSING));
        Self {
            seconds,
            paths,
            hardware,
        }
    }
}

#[cfg(test)]
mod tests {
    use limic::settings::Settings;
    use limic::{Barrier, HybridEndpoint};
    use limic_measure::content;

    use super::super::args::Pattern;
    use super::super::buffers::Buffers;
    use super::super::lane::Team;
    use super::super::measure::one;
    use super::super::pattern::{WINDOW, Work};
    use super::*;

    /// A rank and its partner, in one process.
    fn pair() -> [Team; 2] {
        let open = |_| HybridEndpoint::with(Settings::builder().build().unwrap()).unwrap();
        let endpoints: [HybridEndpoint; 2] = core::array::from_fn(open);
        let addresses = endpoints.each_ref().map(|one| one.address().to_bytes());
        let mut ranks = 0..2;
        endpoints.map(|endpoint| {
            let rank = ranks.next().unwrap();
            let peers = addresses.map(|address| endpoint.connect(&address).unwrap());
            Team {
                endpoint,
                rank,
                partner: peers[1 - rank as usize],
                partner_rank: 1 - rank,
                peers: peers.to_vec(),
                barrier: Barrier::new(rank, &[0, 1]).unwrap(),
                first: rank == 0,
                loans: false,
                region: None,
                cpu: None,
            }
        })
    }

    /// What each of the two measured, and its memory.
    fn run(work: &Work) -> [(Measured, Buffers); 2] {
        let ready = std::sync::Barrier::new(2);
        let measure = |team: &mut Team| {
            let start = || {
                ready.wait();
                Ok(())
            };
            let mut buffers = Buffers::private();
            let measured = one(team, &mut buffers, work, false, &start).unwrap();
            (measured, buffers)
        };
        let mut teams = pair();
        std::thread::scope(|scope| {
            let threads = teams
                .each_mut()
                .map(|team| scope.spawn(move || measure(team)));
            threads.map(|thread| thread.join().unwrap())
        })
    }

    #[test]
    fn the_warm_up_is_not_counted() {
        let work = Work {
            pattern: Pattern::Latency,
            bytes: 8,
            iterations: 3,
            warmup: 50,
            reuse: None,
            check: true,
            rewrite: false,
        };
        for (measured, _) in run(&work) {
            let messages: u64 = measured.paths.iter().map(|path| path.messages).sum();
            assert_eq!(messages, work.iterations);
        }
    }

    #[test]
    fn each_message_is_written_anew_where_that_is_asked_for() {
        const LEN: usize = 203;
        for (pattern, filled) in [(Pattern::Latency, false), (Pattern::Bibandwidth, true)] {
            let work = Work {
                pattern,
                bytes: LEN,
                iterations: 2,
                warmup: 0,
                reuse: None,
                check: false,
                rewrite: true,
            };
            let messages = if filled { WINDOW } else { 1 };
            for (partner, (_, buffers)) in [1, 0].into_iter().zip(run(&work)) {
                let received = buffers.receive.bytes(LEN * messages);
                for (index, received) in received.chunks(LEN).enumerate() {
                    let mut expected = [1; LEN];
                    if filled {
                        content::fill(&mut expected, content::seed(partner, 0, index));
                    }
                    content::rewrite(&mut expected, content::seed(partner, 1, index));
                    assert_eq!(received, expected, "{pattern:?}, message {index}");
                }
            }
        }
    }

    #[test]
    fn measurements_travel_and_merge() {
        let mut one = Measured {
            seconds: 0.25,
            hardware: [
                Some(5),
                None,
                Some(0),
                None,
                Some(1),
                None,
                Some(2),
                Some(0),
                None,
            ],
            ..Measured::default()
        };
        one.paths[Path::Inline.index()] = Traffic {
            messages: 100,
            bytes: 0,
        };
        assert_eq!(Measured::decode(&one.encode()), one);
        assert_eq!(one.path(), Some(Path::Inline));
        let mut other = Measured {
            seconds: 0.5,
            ..Measured::default()
        };
        assert_eq!(other.path(), None);
        other.paths[Path::Cma.index()] = Traffic {
            messages: 1,
            bytes: 64,
        };
        one.merge(&other);
        assert_eq!((one.seconds, one.path()), (0.5, Some(Path::Cma)));
    }
}
