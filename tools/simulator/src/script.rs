//! Which messages go in a run: drawn from its seed, known to all of its processes.

use std::time::Duration;

use fastrand::Rng;
use limic::settings::{FabricUse, LineLatency, Path, PathSet, Spin};
use limic::{Settings, Tag};

/// Lengths at which something changes, and some in between.
const LENGTHS: [usize; 24] = [
    0, 1, 7, 8, 9, 16, 47, 48, 49, 56, 57, 64, 100, 239, 240, 241, 1000, 1024, 4000, 4096, 4097,
    9000, 20_000, 70_000,
];
/// So many of them are those of messages that go in a record.
const SHORT: usize = 13;
/// From here on they are those of messages that may go ahead of a receiver that lags.
const LONG: usize = 17;
/// Bits of a tag by which the wildcards of a phase know their messages.
pub(crate) const PHASE: u64 = 0xff << 32;
/// Those by which a colour's do.
pub(crate) const COLOUR: u64 = 0x3 << 24;

/// A message that is to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) tag: u64,
    pub(crate) len: usize,
    /// It goes as a loan.
    pub(crate) loan: bool,
}

/// A receive that is to be posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) from: Option<usize>,
    pub(crate) tag: u64,
    pub(crate) mask: u64,
}

/// How a process takes what comes in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    /// Receives are posted, and waited for later.
    Posted,
    /// One blocking call after the other.
    Blocking,
    /// Each message is probed for first.
    Probed,
    /// One call with a time limit after the other.
    Timed,
    /// Several in a scope, of which some are cancelled.
    Scoped,
    /// Where they lie, without a copy.
    Loaned,
    /// One by one in the order of sending, from all senders by turns: posted at times, else in a
    /// blocking call, past the queues where nothing is in its way.
    InOrder,
}

/// A part of what a process does. Processes may be in different ones at a time.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    /// Indices of messages.
    pub(crate) messages: Vec<usize>,
    /// For each process.
    pub(crate) receives: Vec<Vec<Receive>>,
    pub(crate) taking: Vec<Taking>,
    /// Each process exposes a region, of which the others write and read so many bytes each.
    pub(crate) one_sided: Option<usize>,
    /// Receivers lag behind their senders.
    pub(crate) lags: bool,
}

/// How a run may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All wait for each other, and close.
    Together,
    /// Each closes when it has done its part; what it sent has to arrive.
    AsEachIsDone,
    /// This one closes in the middle of the last phase, without waiting for what it has sent.
    Hasty(usize),
}

/// What a hostile process does, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malice {
    /// There is none.
    None,
    /// It forges what may cost its victims time, and nothing else: all goes well between others.
    Forges,
    /// It writes anywhere: messages may be forged or lost, and memory stays as it is.
    Scribbles,
}

/// The tag of a message of a hostile process, and its length.
pub(crate) const BAIT: u64 = 0xbad;
pub(crate) const BAIT_LEN: usize = 1 << 20;

/// Bytes of unexpected messages beyond which senders are asked to offer.
const LEAST_BUDGET: u64 = 64 << 10;
/// With that budget, no endpoint keeps so many messages, however short they are: each counts with
/// 256 bytes, and all together may take the budget 32 times. Of a peer that is gone, all that its
/// ring holds comes beyond that.
pub(crate) const MOST_KEPT: u64 = 32 * LEAST_BUDGET / 256 + MOST_RING as u64 / 8;
/// Bytes of the longest ring.
const MOST_RING: u32 = 65_536;

/// All of it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) processes: usize,
    pub(crate) messages: Vec<Message>,
    pub(crate) phases: Vec<Phase>,
    pub(crate) settings: Vec<Settings>,
    pub(crate) ending: Ending,
    /// Processes that break the rules; nobody sends to them or waits for them.
    pub(crate) hostile: Vec<bool>,
    /// Somebody may go before the others have done with it.
    pub(crate) may_fail: bool,
    pub(crate) malice: Malice,
    /// Honest processes fork now and then.
    pub(crate) forks: bool,
}

impl Script {
    pub(crate) fn draw(rng: &mut Rng, kill: bool, malice: Malice) -> Self {
        let hostile = malice != Malice::None;
        let processes = rng.usize(2..=5 - usize::from(hostile)) + usize::from(hostile);
        let hostile: Vec<bool> = (0..processes)
            .map(|one| hostile && one == processes - 1)
            .collect();
        let honest = processes - usize::from(hostile.contains(&true));
        let ending = match rng.u32(0..8) {
            0 => Ending::Hasty(rng.usize(0..honest)),
            1..4 => Ending::AsEachIsDone,
            _ => Ending::Together,
        };
        let may_fail = kill || matches!(ending, Ending::Hasty(_)) || malice == Malice::Scribbles;
        let mut script = Self {
            processes,
            messages: Vec::new(),
            phases: Vec::new(),
            settings: (0..processes)
                .map(|_| settings(rng, ending, malice))
                .collect(),
            ending,
            may_fail,
            hostile: hostile.clone(),
            malice,
            forks: rng.u32(0..8) == 0,
        };
        for phase in 0..rng.usize(1..=3) {
            let phase = script.draw_phase(rng, phase as u64, honest);
            script.phases.push(phase);
        }
        script
    }

    /// So many processes keep the rules: the first ones.
    pub(crate) fn honest(&self) -> usize {
        self.hostile.iter().filter(|hostile| !**hostile).count()
    }

    fn draw_phase(&mut self, rng: &mut Rng, number: u64, honest: usize) -> Phase {
        // Many messages: short ones, for which rings of their own are granted, or long ones, which
        // pile up at receivers that lag.
        let dense = self.malice != Malice::Scribbles && rng.u32(0..6) == 0;
        let mut phase = Phase {
            messages: Vec::new(),
            receives: vec![Vec::new(); self.processes],
            taking: vec![Taking::Posted; self.processes],
            one_sided: [700, 700, 150_000].get(rng.usize(0..12)).copied(),
            lags: dense && rng.u32(0..3) == 0,
        };
        let lengths = match rng.usize(1..=LENGTHS.len()) {
            _ if phase.lags => LONG..LENGTHS.len(),
            _ if dense => 0..SHORT,
            longest => 0..longest,
        };
        for from in 0..honest {
            for to in 0..honest {
                if from == to && rng.u32(0..4) != 0 {
                    continue;
                }
                let stream = dense || rng.bool();
                let colours = if dense { 2 } else { 4 };
                for _ in 0..rng.usize(0..=if dense { 40 } else { 12 }) {
                    let colour = rng.u64(0..colours);
                    let serial = if stream { 0xffff } else { rng.u64(0..100) };
                    let len = LENGTHS[rng.usize(lengths.clone())] + rng.usize(0..2);
                    phase.messages.push(self.messages.len());
                    self.messages.push(Message {
                        from,
                        to,
                        tag: (number + 1) << 32 | colour << 24 | serial,
                        len: if rng.u32(0..300) == 0 { 1 << 20 } else { len },
                        loan: from != to && rng.u32(0..8) == 0,
                    });
                }
            }
        }
        for to in 0..honest {
            let mut own: Vec<&Message> =
                phase.messages.iter().map(|m| &self.messages[*m]).collect();
            own.retain(|message| message.to == to);
            phase.taking[to] = match rng.u32(0..10) {
                _ if self.malice == Malice::Scribbles => Taking::Posted,
                3.. if dense => Taking::InOrder,
                0 => Taking::Blocking,
                1 => Taking::Probed,
                2 => Taking::Loaned,
                3 => Taking::Timed,
                4 => Taking::Scoped,
                _ => Taking::Posted,
            };
            if phase.taking[to] == Taking::InOrder {
                own = by_turns(rng, own);
            }
            // Messages of some colours by a wildcard, the others by their tags.
            let wildcards = rng.u64(0..5);
            let mode = rng.u32(0..4);
            let any_source = !self.may_fail && !self.hostile.contains(&true);
            let mut receives: Vec<Receive> = Vec::new();
            for message in own {
                let colour = (message.tag & COLOUR) >> 24;
                let phase_bits = message.tag & PHASE;
                receives.push(if colour >= wildcards {
                    Receive {
                        from: Some(message.from),
                        tag: message.tag,
                        mask: u64::MAX,
                    }
                } else {
                    Receive {
                        from: (mode < 3 || !any_source).then_some(message.from),
                        tag: if mode == 0 && wildcards == 4 {
                            phase_bits
                        } else {
                            phase_bits | colour << 24
                        },
                        mask: if mode == 0 && wildcards == 4 {
                            PHASE
                        } else {
                            PHASE | COLOUR
                        },
                    }
                });
            }
            if phase.taking[to] != Taking::InOrder {
                rng.shuffle(&mut receives);
            }
            phase.receives[to] = receives;
        }
        phase
    }
}

/// The messages of all senders mixed, those of each in the order of sending.
fn by_turns<'a>(rng: &mut Rng, messages: Vec<&'a Message>) -> Vec<&'a Message> {
    let mut senders: Vec<usize> = messages.iter().map(|message| message.from).collect();
    rng.shuffle(&mut senders);
    let mut left = messages;
    let next = |from| {
        let at = left.iter().position(|message| message.from == from);
        left.remove(at.expect("as many as there are names"))
    };
    senders.into_iter().map(next).collect()
}

fn settings(rng: &mut Rng, ending: Ending, malice: Malice) -> Settings {
    let mut paths = PathSet::EMPTY.with(Path::Inline).with(Path::Eager);
    for path in [
        Path::Pipeline,
        Path::Loan,
        Path::SelfCopy,
        Path::SameProcess,
        Path::PeerReadable,
    ] {
        paths = paths.with(path);
    }
    let long = match rng.u32(0..4) {
        0..3 if malice == Malice::Scribbles => Path::SplitCopy,
        0 => Path::Pipeline,
        1 | 2 => Path::Cma,
        _ => Path::SplitCopy,
    };
    if long != Path::Pipeline {
        paths = paths.with(Path::Cma).with(Path::SplitCopy);
    }
    let pick = |rng: &mut Rng, from: &[u32]| from[rng.usize(0..from.len())];
    let latency = match rng.u32(0..4) {
        0 => LineLatency::Measured,
        1 => LineLatency::Nanoseconds(150),
        _ => LineLatency::Nanoseconds(30),
    };
    let budget = match malice {
        Malice::Forges => LEAST_BUDGET,
        _ => u64::from(pick(rng, &[LEAST_BUDGET as u32, 1 << 26])),
    };
    let hasty = matches!(ending, Ending::Hasty(_));
    let linger = if hasty {
        Duration::ZERO
    } else {
        Duration::from_secs(300)
    };
    let settings = Settings::builder()
        .without_environment()
        .fabric(FabricUse::Off)
        .allowed(paths)
        .long_path(long)
        .eager_max(u64::from(pick(rng, &[256, 1024, 8192, 65_536])))
        .private_rings(pick(rng, &[0, 1, 2, 4]))
        .ring_bytes(pick(rng, &[4096, 8192, MOST_RING]))
        .shared_slots(pick(rng, &[64, 256]))
        .staging_buffer_bytes(pick(rng, &[4096, 16_384]))
        .staging_buffers(pick(rng, &[4, 16, 64]))
        .unexpected_budget_bytes(budget)
        .loan_bytes(8 << 20)
        .spin(Spin::For(Duration::from_micros(u64::from(pick(
            rng,
            &[0, 1],
        )))))
        .linger(linger)
        .patience(Duration::ZERO)
        .autotune(false)
        .skew(rng.u32(0..4) != 0)
        .line_latency(latency)
        .build();
    settings.expect("settings")
}

/// The byte of a message at one place. Eight bytes tell one message from all others.
pub(crate) fn content(message: usize, at: usize) -> u8 {
    let word = (message as u64) << 32 | (at / 8) as u64;
    let mut mixed = word.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).to_le_bytes()[at % 8]
}

impl Receive {
    pub(crate) fn selector(&self, peer: Option<limic::Peer>) -> limic::Selector {
        limic::Selector {
            source: peer,
            tag: Tag(self.tag),
            mask: self.mask,
        }
    }

    pub(crate) fn accepts(&self, message: &Message) -> bool {
        self.from.is_none_or(|from| from == message.from)
            && (self.tag ^ message.tag) & self.mask == 0
    }
}
