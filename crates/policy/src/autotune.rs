//! Online correction of the path of long messages: a state machine without clock or I/O.
//!
//! A table is wrong on some machine, and a profile is wrong on some day. So the receiver, who picks
//! the path of a long message, measures: one estimate for each size class and path, in bytes per
//! nanosecond. Now and then it takes another path, and stays with it if that wins clearly over
//! several tries. Tries that lose cost time, and the next one waits until that is less than a 128th
//! of all: so what is far slower is tried seldom, what is nearly as fast often, and a machine that
//! changes is noticed within a fraction of a second of traffic.
//!
//! What is measured is a *spell*: from the first message under way to a moment when there is none,
//! or a few dozen messages. All messages of a spell take one path, so that several at a time do not
//! spoil each other's figures.

mod size_class;

pub use size_class::Candidate;
use size_class::SizeClass;

use super::{Path, PathSet};

/// Shorter messages are left alone.
pub const LEAST_BYTES: u64 = 16 << 10;
/// Size classes: one for each power of two from [`LEAST_BYTES`], the last one without end.
const CLASSES: usize = 12;
/// In the first classes, up to 512 KiB, two looks at a clock and what is learnt from them would be
/// felt: there, not every spell is measured once the current path is known.
const SHORT_CLASSES: usize = 5;
/// Bytes by the pipeline before it is judged: so many go through memory that both sides touch for
/// the first time.
const FIRST_TOUCHES: u64 = 4 << 20;
/// After a try that was spoilt, none for so long.
const SPOILT_NS: u64 = 50_000_000;
/// Messages go one way again when nothing long has gone to the peer in so many spells.
const QUIET: u32 = 32;
/// Longer messages go by split copy both ways too (docs/decisions/0017).
const LONGEST_ATTACHED: u64 = 512 << 10;
/// Messages after which a spell ends though others are under way.
const MOST: u32 = 32;
/// And those of a try.
const MOST_OF_TRY: u32 = 8;

/// A change: messages of a size class have another candidate from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The shortest message of the class, in bytes.
    pub from_bytes: u64,
    /// The candidate until now.
    pub before: Candidate,
    /// The one from now on.
    pub now: Candidate,
}

/// The spell under way.
#[derive(Clone, Copy, Debug)]
struct Spell {
    number: u32,
    class: usize,
    candidate: Candidate,
    /// Messages that were begun in it.
    messages: u32,
    /// After so many it ends, if half as many have arrived.
    most: u32,
    arrived: u32,
    /// Messages of earlier spells that are still under way; the clock starts when they are over.
    older: u32,
    since_ns: u64,
    bytes: u64,
    /// A message of another class, or candidate, came between, or it is not one of those that are
    /// measured: nothing is to be learnt from it.
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
pub struct Autotuner {
    classes: [Option<SizeClass>; CLASSES],
    spell: Spell,
    under_way: u32,
    /// Messages go both ways, unless this is 0: for so many spells more if none goes to the peer.
    /// [`QUIET`] if one has gone in this spell.
    both_ways: u32,
    /// Bytes that were to go by the pipeline.
    piped: u64,
    /// There are stores past the caches.
    non_temporal: bool,
}

impl Autotuner {
    /// Nothing is known yet. `non_temporal`: the processor has stores past its caches.
    #[must_use]
    pub const fn new(non_temporal: bool) -> Self {
        Self {
            classes: [None; CLASSES],
            spell: Spell {
                number: 0,
                class: 0,
                candidate: Candidate::by(Path::Pipeline),
                messages: 0,
                most: MOST,
                arrived: 0,
                older: 0,
                since_ns: 0,
                bytes: 0,
                mixed: true,
            },
            under_way: 0,
            both_ways: 0,
            piped: 0,
            non_temporal,
        }
    }

    fn class_of(bytes: u64) -> usize {
        let doublings = (bytes / LEAST_BYTES).max(1).ilog2() as usize;
        doublings.min(CLASSES - 1)
    }

    fn new_class(&self, class: usize, table: Path) -> SizeClass {
        let from_bytes = LEAST_BYTES << class;
        let beside = [class.wrapping_sub(1), class + 1].into_iter();
        let found = beside
            .filter_map(|class| self.classes.get(class)?.as_ref())
            .find(|known| known.table == table && known.current.path == table);
        let new = SizeClass::new(table, from_bytes, self.non_temporal);
        found.map_or(new, |known| SizeClass::beside(known, from_bytes))
    }

    /// A message begins, for which the table says `table`, and of all the paths `available` can be
    /// taken. Gives the candidate to take, and the number of its spell for [`Autotuner::finish`].
    pub fn start(
        &mut self,
        bytes: u64,
        table: Path,
        available: PathSet,
        now_ns: impl Fn() -> u64,
    ) -> (Candidate, u32, Option<Switch>) {
        let class = Self::class_of(bytes);
        if self.classes[class].is_none_or(|known| known.table != table) {
            // The first of its class, or another row holds: the pair has moved.
            self.classes[class] = Some(self.new_class(class, table));
        }
        let mut switch = None;
        if self.under_way == 0 || self.spell.is_full() {
            switch = self.close(&now_ns);
            self.both_ways = self.both_ways.saturating_sub(1);
            let candidate = self.classes[class]
                .as_mut()
                .map_or(Candidate::by(table), |entry| entry.next(available, &now_ns));
            let number = self.spell.number.wrapping_add(1);
            let tried = self.classes[class].is_some_and(|entry| entry.current != candidate);
            let touched = candidate.path != Path::Pipeline || self.piped >= FIRST_TOUCHES;
            let skipped = class < SHORT_CLASSES
                && !tried
                && self.classes[class].is_some_and(|entry| entry.may_skip());
            let measured = touched && !skipped;
            self.spell = Spell {
                number,
                class,
                candidate,
                messages: 0,
                most: if tried { MOST_OF_TRY } else { MOST },
                arrived: 0,
                older: self.under_way,
                since_ns: if measured { now_ns() } else { 0 },
                bytes: 0,
                mixed: !measured,
            };
        }
        self.under_way += 1;
        self.spell.messages += 1;
        let path = self.classes[class].map_or(table, |entry| entry.current.path);
        let shares = self.both_ways > 0 && path == Path::SplitCopy && bytes <= LONGEST_ATTACHED;
        if shares && available.contains(Path::Cma) {
            // The sender's processor, which would help, has its own receive to do.
            self.spell.mixed = true;
            return (Candidate::by(Path::Cma), self.spell.number, switch);
        }
        if self.spell.class == class && available.contains(self.spell.candidate.path) {
            if self.spell.candidate.path == Path::Pipeline {
                self.piped = self.piped.saturating_add(bytes);
            }
            return (self.spell.candidate, self.spell.number, switch);
        }
        self.spell.mixed = true;
        let current = self.classes[class].map(|entry| entry.current);
        let candidate = current
            .filter(|current| available.contains(current.path))
            .unwrap_or(Candidate::by(table));
        (candidate, self.spell.number, switch)
    }

    /// A message of `bytes` bytes that began in the spell `number` has arrived.
    pub fn finish(&mut self, number: u32, bytes: u64, now_ns: impl Fn() -> u64) -> Option<Switch> {
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

    /// The peer takes part in a long message to it, or is to take one without an answer. While one
    /// from it is under way too, both share the two processors, and each path would be taken for
    /// faster the more it takes from the other direction.
    pub fn answered(&mut self, now_ns: impl Fn() -> u64) {
        if self.under_way == 0 {
            return;
        }
        self.spell.mixed = true;
        self.both_ways = QUIET;
        let candidate = self.spell.candidate;
        let class = self.classes[self.spell.class].as_mut();
        if let Some(class) = class.filter(|class| class.current != candidate) {
            class.spoilt(now_ns().saturating_add(SPOILT_NS));
        }
    }

    /// A message that began in the spell `number` goes in fragments after all. That says nothing of
    /// a path on trial: where it is taken all the time, the sender is prepared for it.
    pub fn fell_back(&mut self, number: u32) {
        let spell = self.spell;
        let class = self.classes[spell.class].as_mut();
        let tried = class.filter(|class| class.current != spell.candidate);
        if let Some(class) = tried.filter(|_| number == spell.number) {
            class.fell_back();
        }
    }

    /// The receiver did something else meanwhile, which took time: nothing is to be learnt from
    /// this spell.
    pub fn interrupted(&mut self) {
        self.spell.mixed = true;
    }

    /// Whether messages of so many bytes go by this path, and no other one of `available` is to be
    /// tried now. None is while messages go both ways.
    #[must_use]
    pub fn is_settled(&self, bytes: u64, path: Path, available: PathSet) -> bool {
        let class = self.classes[Self::class_of(bytes)].as_ref();
        class.is_some_and(|class| {
            // Both ways: in this spell, or in the one before.
            class.current.path == path
                && (self.both_ways + 1 >= QUIET || class.is_settled(available))
        })
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
            .measured(spell.candidate, spell.bytes, time, now)
            .then_some(Switch {
                from_bytes: class.from_bytes,
                before,
                now: spell.candidate,
            })
    }

    /// What is taken against the table: the shortest message of each class, and its candidate.
    pub fn tuned(&self) -> impl Iterator<Item = (u64, Candidate)> + '_ {
        let known = self.classes.iter().flatten();
        known
            .filter(|class| class.current != Candidate::by(class.table))
            .map(|class| (class.from_bytes, class.current))
    }
}

#[cfg(test)]
mod tests;
