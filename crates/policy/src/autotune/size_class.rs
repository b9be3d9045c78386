//! The candidates for messages of one size class, and which of them is taken: the current one. One
//! that is on trial is its challenger.
//!
//! Messages of [`LEAST_NON_TEMPORAL`] and more have two candidates by the pipeline: their receiver
//! writes the room with ordinary stores, or past its caches. Which is faster depends on who else
//! uses the cache behind both cores (docs/decisions/0012).

use core::fmt;

use crate::{Path, PathSet};

/// Shorter messages are never written past the caches: they fit there.
pub(super) const LEAST_NON_TEMPORAL: u64 = 4 << 20;
/// Those among which a choice is made.
pub(super) const CANDIDATES: [Candidate; 5] = [
    Candidate::by(Path::Pipeline),
    Candidate {
        path: Path::Pipeline,
        non_temporal: true,
    },
    Candidate::by(Path::Cma),
    Candidate::by(Path::SplitCopy),
    Candidate::by(Path::Kmod),
];
/// Spells before the current path is judged, and another one is tried: the first ones are slow by
/// whatever path, since neither buffers nor pool are in the caches.
const FIRST: u32 = 20;
/// And between two tries at least.
const EVERY: u32 = 6;
/// Tries of one candidate take at most one part in so many of a class's time more than they would
/// have taken by the current path.
const SHARE: u64 = 128;
/// Spells that are remembered of each path; the median counts.
const REMEMBERED: usize = 5;
/// Spells of a try, unless its first one is hopeless. That is not counted, since what the path
/// needs is not in the caches yet.
const SPELLS_OF_A_TRY: u32 = 3;
/// Spells of a try of the module. In a stream, up to 64 offers were made before the try began, and
/// have no key: their messages fill the first spells, and go in fragments.
const SPELLS_OF_A_TRY_OF_KMOD: u32 = 12;
/// Counted spells that another path needs before it can win: those of two tries.
const LEAST_TRIED: usize = 4;
/// Counted spells of the current path before anything is compared with it.
const LEAST_KNOWN: usize = 3;
/// A try ends with its first spell, cold as it is, if that reaches no more than this part of the
/// current path's rate. Not by the module, which makes memory known to the hardware in the first
/// one.
const HOPELESS: f32 = 0.5;
/// Of the spells of a short class, of which the current candidate is known, one in so many is
/// measured. They are not in step with tries, of which two that lose at once take 8.
const SAMPLED: u32 = 7;
/// What it must be faster by.
const MARGIN: f32 = 1.10;
/// If the current path becomes slower, or faster, by this, something has changed: the others may
/// have become faster still.
const CHANGED: f32 = 0.6;

/// The path of a message, and how its receiver writes the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The path.
    pub path: Path,
    /// With stores past the caches.
    pub non_temporal: bool,
}

impl Candidate {
    /// By a path, with ordinary stores.
    #[inline]
    #[must_use]
    pub const fn by(path: Path) -> Self {
        Self {
            path,
            non_temporal: false,
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stores = if self.non_temporal {
            ", written past the caches,"
        } else {
            ""
        };
        write!(f, "{}{stores}", self.path)
    }
}

/// The rates of the last spells of one candidate.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    last: [f32; REMEMBERED],
    count: usize,
}

impl Rates {
    fn add(&mut self, rate: f32) {
        self.last[self.count % REMEMBERED] = rate;
        self.count += 1;
    }

    /// The median; 0 if there are none.
    fn median(&self) -> f32 {
        let mut sorted = self.last;
        let known = &mut sorted[..self.count.min(REMEMBERED)];
        known.sort_by(f32::total_cmp);
        known.get(known.len() / 2).copied().unwrap_or(0.0)
    }
}

/// One size class.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeClass {
    /// What the table says.
    pub(super) table: Path,
    /// The shortest of its messages, in bytes.
    pub(super) from_bytes: u64,
    /// There are stores past the caches.
    non_temporal: bool,
    /// What is taken.
    pub(super) current: Candidate,
    rates: [Rates; CANDIDATES.len()],
    /// The candidate that is tried next.
    challenger: usize,
    /// Spells until then.
    until_try: u32,
    /// Spells so far.
    spells: u32,
    /// And each candidate not before this time.
    not_before_ns: [u64; CANDIDATES.len()],
    /// The candidates that have lost a try since the beginning, or since the rate of the current
    /// one has changed. The others may lose one whatever it costs.
    lost: [bool; CANDIDATES.len()],
    /// Spells left of the try under way.
    left_of_try: u32,
    /// The candidate of the last spell, whether the one before it took another, and whether its
    /// messages went in fragments after all.
    last: Candidate,
    cold: bool,
    fell_back: bool,
    /// What was lost by tries of the present challenger.
    lost_ns: u64,
    /// The median of the current path when all was looked at last; 0 if it is not known yet.
    usual: f32,
}

impl SizeClass {
    pub(super) const fn new(table: Path, from_bytes: u64, non_temporal: bool) -> Self {
        const NONE: Rates = Rates {
            last: [0.0; REMEMBERED],
            count: 0,
        };
        Self {
            table,
            from_bytes,
            non_temporal,
            current: Candidate::by(table),
            rates: [NONE; CANDIDATES.len()],
            challenger: 0,
            until_try: FIRST,
            spells: 0,
            not_before_ns: [0; CANDIDATES.len()],
            lost: [false; CANDIDATES.len()],
            left_of_try: 0,
            last: Candidate::by(table),
            cold: true,
            fell_back: false,
            lost_ns: 0,
            usual: 0.0,
        }
    }

    /// A class beside one that is known, of the same table, which takes its path: the candidates
    /// that have lost there are not tried here at once.
    pub(super) fn beside(known: &Self, from_bytes: u64) -> Self {
        // What the caches have no room for, they have even less for if it is longer.
        let current = if known.from_bytes < from_bytes {
            known.current
        } else {
            Candidate::by(known.table)
        };
        Self {
            current,
            challenger: known.challenger,
            not_before_ns: known.not_before_ns,
            lost: known.lost,
            ..Self::new(known.table, from_bytes, known.non_temporal)
        }
    }

    /// The candidate of the next spell.
    pub(super) fn next(&mut self, available: PathSet, now_ns: impl Fn() -> u64) -> Candidate {
        let candidate = self.pick(available, now_ns);
        self.spells = self.spells.wrapping_add(1);
        self.cold = candidate != self.last;
        self.fell_back = false;
        self.last = candidate;
        candidate
    }

    /// Whether a candidate may be tried now.
    fn may_challenge(&self, challenger: Candidate, available: PathSet) -> bool {
        let may_bypass = self.non_temporal && self.from_bytes >= LEAST_NON_TEMPORAL;
        challenger != self.current
            && available.contains(challenger.path)
            && (!challenger.non_temporal || may_bypass && self.current.path == challenger.path)
    }

    fn pick(&mut self, available: PathSet, now_ns: impl Fn() -> u64) -> Candidate {
        if !available.contains(self.current.path) {
            *self = Self::new(self.table, self.from_bytes, self.non_temporal);
        }
        if self.left_of_try > 0 {
            self.left_of_try -= 1;
            let challenger = CANDIDATES[self.challenger];
            if self.may_challenge(challenger, available) {
                return challenger;
            }
        }
        if self.until_try > 0 {
            self.until_try -= 1;
            return self.current;
        }
        self.until_try = EVERY;
        if self.rates_of(self.current).count < LEAST_KNOWN {
            return self.current;
        }
        for _ in CANDIDATES {
            let (challenger, not_before_ns) = (
                CANDIDATES[self.challenger],
                self.not_before_ns[self.challenger],
            );
            if self.may_challenge(challenger, available)
                && (not_before_ns == 0 || now_ns() >= not_before_ns)
            {
                let spells = match challenger.path {
                    Path::Kmod => SPELLS_OF_A_TRY_OF_KMOD,
                    _ => SPELLS_OF_A_TRY,
                };
                self.left_of_try = spells - 1;
                return challenger;
            }
            self.challenger = (self.challenger + 1) % CANDIDATES.len();
        }
        self.current
    }

    /// A spell of so many bytes ended at `now_ns`, after `time_ns`. True if another candidate is
    /// taken from now on.
    pub(super) fn measured(
        &mut self,
        candidate: Candidate,
        bytes: u64,
        time_ns: u64,
        now_ns: u64,
    ) -> bool {
        let Some(index) = index_of(candidate) else {
            return false;
        };
        let rate = bytes as f32 / time_ns as f32;
        let mine = self.rates_of(self.current).median();
        if candidate != self.current && mine > 0.0 {
            self.lost_ns += time_ns.saturating_sub((bytes as f32 / mine) as u64);
        }
        if self.cold {
            let hopeless = candidate.path != Path::Kmod && rate < mine * HOPELESS;
            let refused = self.fell_back && self.left_of_try == 0;
            if candidate != self.current && (hopeless || refused) {
                self.has_lost(index, now_ns);
            }
            return false;
        }
        if candidate == self.current && self.spells < FIRST {
            return false;
        }
        self.rates[index].add(rate);
        if candidate == self.current {
            let median = self.rates[index].median();
            if self.rates[index].count < LEAST_KNOWN {
                return false;
            }
            if self.usual == 0.0 {
                self.usual = median;
            } else if median < self.usual * CHANGED || median * CHANGED > self.usual {
                // Time to look around.
                self.usual = median;
                self.not_before_ns = [0; CANDIDATES.len()];
                self.until_try = 0;
                self.lost = [false; CANDIDATES.len()];
            }
            return false;
        }
        if mine == 0.0 {
            return false;
        }
        let tried = self.rates[index].count;
        if tried >= LEAST_TRIED && self.rates[index].median() > mine * MARGIN {
            if let Some(before) = index_of(self.current) {
                // It has to win anew to come back.
                self.rates[before] = Rates::default();
            }
            self.lost_ns = 0;
            self.left_of_try = 0;
            self.current = candidate;
            self.usual = 0.0;
            self.until_try = EVERY;
            return true;
        }
        if tried < LEAST_TRIED && rate > mine {
            // It is known soon whether that was chance.
            self.until_try = 2;
            return false;
        }
        self.has_lost(index, now_ns);
        false
    }

    /// The spell under way, of a try, goes by the pipeline instead. It is not counted, and the next
    /// one finds the caches as cold as a first one.
    pub(super) fn fell_back(&mut self) {
        self.cold = true;
        self.fell_back = true;
        self.last = Candidate::by(Path::Pipeline);
    }

    /// The challenger has lost for now.
    fn has_lost(&mut self, index: usize, now_ns: u64) {
        self.rates[index] = Rates::default();
        self.challenger = (self.challenger + 1) % CANDIDATES.len();
        self.left_of_try = 0;
        let lost_ns = core::mem::take(&mut self.lost_ns);
        if self.lost[index] {
            self.not_before_ns[index] = now_ns.saturating_add(lost_ns.saturating_mul(SHARE));
        }
        self.lost[index] = true;
    }

    /// Whether the path is known, and each other candidate that may be taken has lost a try:
    /// none is tried before some time is over.
    pub(super) fn is_settled(&self, available: PathSet) -> bool {
        let known = self.usual > 0.0 && self.left_of_try == 0;
        let mut candidates = CANDIDATES.iter().zip(self.lost);
        known && candidates.all(|(one, lost)| lost || !self.may_challenge(*one, available))
    }

    /// The current path is known, and this spell is not one of those that are measured
    /// nevertheless.
    pub(super) fn may_skip(&self) -> bool {
        let known = self.rates_of(self.current).count >= LEAST_KNOWN;
        known && self.spells % SAMPLED != 0
    }

    fn rates_of(&self, candidate: Candidate) -> Rates {
        index_of(candidate).map_or(Rates::default(), |index| self.rates[index])
    }

    /// The try of a challenger was spoilt: none before `quiet_ns`.
    pub(super) fn spoilt(&mut self, quiet_ns: u64) {
        self.left_of_try = 0;
        for not_before_ns in &mut self.not_before_ns {
            *not_before_ns = quiet_ns.max(*not_before_ns);
        }
    }
}

fn index_of(candidate: Candidate) -> Option<usize> {
    CANDIDATES.iter().position(|known| *known == candidate)
}
