//! Online correction of the path of long messages (H3): a state machine without clock or I/O.
//!
//! A table is wrong on some machine, and a profile is wrong on some day. So the receiver, who picks the path of a long
//! message, measures: one estimate for each size class and path, in bytes per nanosecond. Now and then it takes another
//! path, and stays with it if that wins clearly over several tries. Tries that lose cost time, and the next one waits until
//! that is less than one part in [`SHARE`] of all: so what is far slower is tried seldom, what is nearly as fast often, and a
//! machine that changes is noticed within a fraction of a second of traffic.
//!
//! What is measured is a *spell*: from the first message under way to a moment when there is none, or a few dozen
//! messages. All messages of a spell take one path, so that several at a time do not spoil each other's figures.
//!
//! Messages of [`LEAST_PAST_CACHES`] and more by the pipeline go one of two ways: their receiver writes the room with ordinary stores, or
//! past its caches. Which is faster depends on who else uses the cache behind both cores: where nobody does, 4 MiB took 160 us with
//! ordinary stores and 175 past the caches, and in other minutes of the same machine 280 and 205.

use core::fmt;

use limic_shm::ring::PAST_CACHES;

use super::{Path, PathSet};

/// Shorter messages are left alone.
pub(crate) const LEAST_BYTES: u64 = 16 << 10;
/// Size classes: one for each power of two from [`LEAST_BYTES`], the last one without end.
const CLASSES: usize = 12;
/// In the first classes, up to 512 KiB, two looks at a clock and what is learnt from them would be felt (some 0.15 us): there, one
/// in [`SAMPLED`] spells is measured once the current path is known.
const SHORT_CLASSES: usize = 5;
const SAMPLED: u32 = 8;
/// Bytes by the pipeline before it is judged: so many go through memory that both sides touch for the first time.
const FIRST_TOUCHES: u64 = 4 << 20;
/// After a try that was spoilt, none for so long.
const SPOILT_NS: u64 = 50_000_000;
/// Shorter messages are never written past the caches: 2 MiB took a quarter longer.
const LEAST_PAST_CACHES: u64 = 4 << 20;
/// The ways among which a choice is made.
const CANDIDATES: [Way; 5] = [
    Way::by(Path::Pipeline),
    Way {
        path: Path::Pipeline,
        past_caches: true,
    },
    Way::by(Path::Cma),
    Way::by(Path::BothSides),
    Way::by(Path::Kmod),
];
/// Spells before the first try of another path: the first ones are slow by whatever path, since neither buffers nor pool are in the caches.
const FIRST: u32 = 20;
/// And between two tries at least.
const EVERY: u32 = 6;
/// Tries of one candidate take at most one part in so many of a class's time more than they would have taken by the current path.
const SHARE: u64 = 128;
/// Spells that are remembered of each path; the median counts.
const REMEMBERED: usize = 5;
/// Spells of a try, unless its first one is hopeless. That is not counted, since what the path needs is not in the caches yet.
const SPELLS_OF_A_TRY: u32 = 3;
/// Counted spells that another path needs before it can win: those of two tries.
const TRIES: usize = 4;
/// Counted spells of the current path before anything is compared with it.
const LEAST_KNOWN: usize = 3;
/// A try ends with its first spell, cold as it is, if that reaches no more than this part of the current path's rate. Not by the
/// module, which makes memory known to the hardware in the first one.
const HOPELESS: f32 = 0.5;
/// What it must be faster by.
const MARGIN: f32 = 1.10;
/// If the current path becomes slower, or faster, by this, something has changed: the others may have become faster still.
const CHANGED: f32 = 0.6;
/// Messages after which a spell ends though others are under way.
const SPELL: u32 = 32;
/// And those of a try.
const SPELL_OF_A_TRY: u32 = 8;

/// The path of a message, and how its receiver writes the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) path: Path,
    /// With stores past the caches.
    pub(crate) past_caches: bool,
}

impl Way {
    /// By a path, with ordinary stores.
    pub(crate) const fn by(path: Path) -> Self {
        Self {
            path,
            past_caches: false,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stores = if self.past_caches {
            ", written past the caches,"
        } else {
            ""
        };
        write!(f, "{}{stores}", self.path)
    }
}

/// A change: messages of a size class go another way from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    /// The shortest message of the class, in bytes.
    pub(crate) from_bytes: u64,
    pub(crate) before: Way,
    pub(crate) now: Way,
}

/// The rates of the last spells of one way.
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
struct Class {
    /// What the table says.
    table: Path,
    /// Its messages are so long that they may be written past the caches.
    may_go_past: bool,
    /// What is taken.
    current: Way,
    rates: [Rates; CANDIDATES.len()],
    /// The candidate that is tried next.
    rival: usize,
    /// Spells until then.
    until_try: u32,
    /// Spells so far.
    spells: u32,
    /// And each candidate not before this time.
    not_before_ns: [u64; CANDIDATES.len()],
    /// The candidates that have lost a try since the beginning, or since the rate of the current one has changed. The others may lose
    /// one whatever it costs.
    lost: [bool; CANDIDATES.len()],
    /// Spells left of the try under way.
    trying: u32,
    /// The way of the last spell, and whether the one before it took another.
    last: Way,
    cold: bool,
    /// What was lost by tries of the present rival.
    lost_ns: u64,
    /// The median of the current path when all was looked at last; 0 if it is not known yet.
    usual: f32,
}

impl Class {
    const fn new(table: Path, may_go_past: bool) -> Self {
        const NONE: Rates = Rates {
            last: [0.0; REMEMBERED],
            count: 0,
        };
        Self {
            table,
            may_go_past,
            current: Way::by(table),
            rates: [NONE; CANDIDATES.len()],
            rival: 0,
            until_try: FIRST,
            spells: 0,
            not_before_ns: [0; CANDIDATES.len()],
            lost: [false; CANDIDATES.len()],
            trying: 0,
            last: Way::by(table),
            cold: true,
            lost_ns: 0,
            usual: 0.0,
        }
    }

    /// A class beside one that is known: the paths that have lost there are not tried here at once.
    fn beside(known: &Self, may_go_past: bool) -> Self {
        Self {
            rival: known.rival,
            not_before_ns: known.not_before_ns,
            lost: known.lost,
            ..Self::new(known.table, may_go_past)
        }
    }

    /// The way of the next spell.
    fn next(&mut self, available: PathSet, now_ns: impl Fn() -> u64) -> Way {
        let way = self.pick(available, now_ns);
        self.spells = self.spells.wrapping_add(1);
        self.cold = way != self.last;
        self.last = way;
        way
    }

    /// Whether a candidate may be tried now.
    fn may_try(&self, rival: Way, available: PathSet) -> bool {
        rival != self.current
            && available.contains(rival.path)
            && (!rival.past_caches || self.may_go_past && self.current.path == rival.path)
    }

    fn pick(&mut self, available: PathSet, now_ns: impl Fn() -> u64) -> Way {
        if !available.contains(self.current.path) {
            *self = Self::new(self.table, self.may_go_past);
        }
        if self.trying > 0 {
            self.trying -= 1;
            let rival = CANDIDATES[self.rival];
            if self.may_try(rival, available) {
                return rival;
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
            let (rival, not_before_ns) = (CANDIDATES[self.rival], self.not_before_ns[self.rival]);
            if self.may_try(rival, available) && (not_before_ns == 0 || now_ns() >= not_before_ns) {
                self.trying = SPELLS_OF_A_TRY - 1;
                return rival;
            }
            self.rival = (self.rival + 1) % CANDIDATES.len();
        }
        self.current
    }

    /// A spell of so many bytes ended at `now_ns`, after `time_ns`. True if another way is taken from now on.
    fn measured(&mut self, way: Way, bytes: u64, time_ns: u64, now_ns: u64) -> bool {
        let Some(index) = CANDIDATES.iter().position(|known| *known == way) else {
            return false;
        };
        let rate = bytes as f32 / time_ns as f32;
        let mine = self.rates_of(self.current).median();
        if way != self.current && mine > 0.0 {
            self.lost_ns += time_ns.saturating_sub((bytes as f32 / mine) as u64);
        }
        if self.cold {
            if way != self.current && way.path != Path::Kmod && rate < mine * HOPELESS {
                self.has_lost(index, now_ns);
            }
            return false;
        }
        self.rates[index].add(rate);
        if way == self.current {
            let median = self.rates[index].median();
            if self.rates[index].count < LEAST_KNOWN || self.spells < FIRST {
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
        let tries = self.rates[index].count;
        if tries >= TRIES && self.rates[index].median() > mine * MARGIN {
            if let Some(before) = CANDIDATES.iter().position(|known| *known == self.current) {
                // It has to win anew to come back.
                self.rates[before] = Rates::default();
            }
            self.lost_ns = 0;
            self.trying = 0;
            self.current = way;
            self.usual = 0.0;
            self.until_try = EVERY;
            return true;
        }
        if tries < TRIES && rate > mine {
            // It is known soon whether that was chance.
            self.until_try = 2;
            return false;
        }
        self.has_lost(index, now_ns);
        false
    }

    /// The rival has lost for now.
    fn has_lost(&mut self, index: usize, now_ns: u64) {
        self.rates[index] = Rates::default();
        self.rival = (self.rival + 1) % CANDIDATES.len();
        self.trying = 0;
        let lost_ns = core::mem::take(&mut self.lost_ns);
        if self.lost[index] {
            self.not_before_ns[index] = now_ns.saturating_add(lost_ns.saturating_mul(SHARE));
        }
        self.lost[index] = true;
    }

    /// The current path is known, and this spell is not one of those that are measured nevertheless.
    fn may_skip(&self) -> bool {
        let known = self.rates_of(self.current).count >= LEAST_KNOWN;
        known && !self.spells.is_multiple_of(SAMPLED)
    }

    fn rates_of(&self, way: Way) -> Rates {
        let index = CANDIDATES.iter().position(|known| *known == way);
        index.map_or(Rates::default(), |index| self.rates[index])
    }
}

/// The spell under way.
#[derive(Clone, Copy, Debug)]
struct Spell {
    number: u32,
    class: usize,
    way: Way,
    /// Messages that were begun in it.
    messages: u32,
    /// After so many it ends, if half as many have arrived.
    most: u32,
    arrived: u32,
    /// Messages of earlier spells that are still under way; the clock starts when they are over.
    older: u32,
    since_ns: u64,
    bytes: u64,
    /// A message of another class, or way, came between, or it is not one of those that are measured: nothing is to be
    /// learnt from it.
    mixed: bool,
}

impl Spell {
    /// Enough is known, though others are under way.
    const fn is_full(&self) -> bool {
        self.messages >= self.most && self.arrived >= self.most / 2 && self.older == 0
    }
}

/// What is known of the long messages from one peer.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    classes: [Option<Class>; CLASSES],
    spell: Spell,
    under_way: u32,
    /// Bytes that were to go by the pipeline.
    piped: u64,
}

impl Adapter {
    pub(crate) const fn new() -> Self {
        Self {
            classes: [None; CLASSES],
            spell: Spell {
                number: 0,
                class: 0,
                way: Way::by(Path::Pipeline),
                messages: 0,
                most: SPELL,
                arrived: 0,
                older: 0,
                since_ns: 0,
                bytes: 0,
                mixed: true,
            },
            under_way: 0,
            piped: 0,
        }
    }

    fn class_of(bytes: u64) -> usize {
        let doublings = (bytes / LEAST_BYTES).max(1).ilog2() as usize;
        doublings.min(CLASSES - 1)
    }

    fn new_class(&self, class: usize, table: Path) -> Class {
        let may_go_past = PAST_CACHES && LEAST_BYTES << class >= LEAST_PAST_CACHES;
        let of_table = |class: usize| {
            let known = self.classes.get(class).copied().flatten();
            known.filter(|known| known.table == table && known.current.path == table)
        };
        let shorter = of_table(class.wrapping_sub(1));
        let Some(known) = shorter.or_else(|| of_table(class + 1)) else {
            return Class::new(table, may_go_past);
        };
        let new = Class::beside(&known, may_go_past);
        Class {
            // What the caches have no room for, they have even less for if it is longer.
            current: shorter.map_or(new.current, |shorter| shorter.current),
            ..new
        }
    }

    /// A message begins, for which the table says `table`, and of all the paths `available` can be taken. Gives
    /// the way to take, and the number of its spell for [`Adapter::ended`].
    pub(crate) fn begins(
        &mut self,
        bytes: u64,
        table: Path,
        available: PathSet,
        now_ns: impl Fn() -> u64,
    ) -> (Way, u32, Option<Switch>) {
        let class = Self::class_of(bytes);
        if self.classes[class].is_none_or(|known| known.table != table) {
            // The first of its class, or another row holds: the pair has moved.
            self.classes[class] = Some(self.new_class(class, table));
        }
        let mut switch = None;
        if self.under_way == 0 || self.spell.is_full() {
            switch = self.close(&now_ns);
            let way = self.classes[class]
                .as_mut()
                .map_or(Way::by(table), |entry| entry.next(available, &now_ns));
            let number = self.spell.number.wrapping_add(1);
            let tried = self.classes[class].is_some_and(|entry| entry.current != way);
            let touched = way.path != Path::Pipeline || self.piped >= FIRST_TOUCHES;
            let skipped = class < SHORT_CLASSES
                && !tried
                && self.classes[class].is_some_and(|entry| entry.may_skip());
            let measured = touched && !skipped;
            self.spell = Spell {
                number,
                class,
                way,
                messages: 0,
                most: if tried { SPELL_OF_A_TRY } else { SPELL },
                arrived: 0,
                older: self.under_way,
                since_ns: if measured { now_ns() } else { 0 },
                bytes: 0,
                mixed: !measured,
            };
        }
        self.under_way += 1;
        self.spell.messages += 1;
        if self.spell.class == class && available.contains(self.spell.way.path) {
            if self.spell.way.path == Path::Pipeline {
                self.piped = self.piped.saturating_add(bytes);
            }
            return (self.spell.way, self.spell.number, switch);
        }
        self.spell.mixed = true;
        let current = self.classes[class].map(|entry| entry.current);
        let way = current
            .filter(|current| available.contains(current.path))
            .unwrap_or(Way::by(table));
        (way, self.spell.number, switch)
    }

    /// A message of `bytes` bytes that began in the spell `number` has arrived.
    pub(crate) fn ended(
        &mut self,
        number: u32,
        bytes: u64,
        now_ns: impl Fn() -> u64,
    ) -> Option<Switch> {
        self.under_way = self.under_way.saturating_sub(1);
        if number == self.spell.number {
            if self.spell.older == 0 {
                self.spell.bytes += bytes;
                self.spell.arrived += 1;
            }
        } else if self.spell.older > 0 {
            self.spell.older -= 1;
            if self.spell.older == 0 && !self.spell.mixed {
                self.spell.since_ns = now_ns();
            }
        }
        if self.under_way == 0 {
            return self.close(&now_ns);
        }
        None
    }

    /// The peer takes part in a long message to it. While one from it is under way too, both share the two processors, and each
    /// path would be taken for faster the more it takes from the other direction.
    pub(crate) fn answered(&mut self, now_ns: impl Fn() -> u64) {
        if self.under_way == 0 {
            return;
        }
        self.spell.mixed = true;
        if let Some(class) = &mut self.classes[self.spell.class]
            && self.spell.way != class.current
        {
            class.trying = 0;
            let quiet = now_ns().saturating_add(SPOILT_NS);
            for not_before_ns in &mut class.not_before_ns {
                *not_before_ns = quiet.max(*not_before_ns);
            }
        }
    }

    /// Learns from the spell that is over.
    fn close(&mut self, now_ns: impl Fn() -> u64) -> Option<Switch> {
        let spell = self.spell;
        self.spell.mixed = true;
        if spell.mixed || spell.older > 0 || spell.bytes == 0 {
            return None;
        }
        let now = now_ns();
        let time = now.saturating_sub(spell.since_ns).max(1);
        let class = self.classes[spell.class].as_mut()?;
        let before = class.current;
        class
            .measured(spell.way, spell.bytes, time, now)
            .then_some(Switch {
                from_bytes: LEAST_BYTES << spell.class,
                before,
                now: spell.way,
            })
    }

    /// What is taken against the table: the shortest message of each class, and its way.
    pub(crate) fn corrections(&self) -> impl Iterator<Item = (u64, Way)> + '_ {
        self.classes
            .iter()
            .enumerate()
            .filter_map(|(index, class)| {
                let class = class.as_ref()?;
                (class.current != Way::by(class.table))
                    .then_some((LEAST_BYTES << index, class.current))
            })
    }
}

#[cfg(test)]
#[path = "adapt_tests.rs"]
mod tests;
