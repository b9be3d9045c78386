//! The state of one run.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::fd::{OwnedFd, RawFd};

use corosensei::{Coroutine, CoroutineResult, Yielder};
use fastrand::Rng;
use limic_shm::ring::Mapped;
use limic_shm::segment::Areas;
use limic_shm::system::Call;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::script::Receive;

/// Numbers of simulated processes begin here.
const FIRST_PROCESS: u32 = 100;
/// A run in which nothing happens for so long hangs.
const HANG_NS: u64 = 600_000_000_000;
/// A run that lasts so long hangs.
const LONGEST_NS: u64 = 40_000_000_000_000;
/// What the clock says when a run begins: soon after the machine's start, and shortly before 32
/// bits of nanoseconds, microseconds and milliseconds are full.
const BEGINS: [u64; 4] = [
    1_000_000,
    (1 << 32) - 300_000,
    ((1 << 32) - 300) * 1_000,
    (1 << 32) * 1_000_000 - 300_000,
];

thread_local! {
    static SIM: RefCell<Option<Sim>> = const { RefCell::new(None) };
}

/// Looks at the run, or changes it. Nobody may have a turn meanwhile.
pub(crate) fn with<A>(look: impl FnOnce(&mut Sim) -> A) -> A {
    SIM.with_borrow_mut(|sim| look(sim.as_mut().expect("a run is under way")))
}

/// Begins a run.
pub(crate) fn begin(sim: Sim) {
    SIM.set(Some(sim));
}

/// Ends the run.
pub(crate) fn end() -> Sim {
    SIM.take().expect("a run is under way")
}

/// What a process does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It goes on when it has its turn.
    Ready,
    /// It waits for something to happen, or for this time. It has looked when so much had happened.
    Asleep { until: Option<u64>, seen: u64 },
    /// It came to its end.
    Ended,
    /// It was killed.
    Killed,
}

/// A simulated process.
pub(crate) struct Process {
    pub(crate) coroutine: Option<Coroutine<(), (), ()>>,
    pub(crate) state: State,
    /// It is stopped until then.
    pub(crate) stopped_until: u64,
    /// Readable once the process has ended.
    pub(crate) life: OwnedFd,
    pub(crate) descriptors: BTreeSet<RawFd>,
    /// Memory that it has mapped: length, and whether it can write there.
    pub(crate) mappings: BTreeMap<usize, (usize, bool)>,
    /// Segments that it has mapped, if it is hostile.
    pub(crate) areas: Vec<Areas>,
    /// Where it says which region it accesses, and which blocks of copies it claims, if it is
    /// hostile.
    pub(crate) own: Option<(Mapped, Mapped)>,
    pub(crate) hostile: bool,
    /// It keeps its turn until it gives that away.
    pub(crate) hurries: bool,
    /// Memory that others may write by cross-memory attach: start and length.
    pub(crate) rooms: BTreeMap<usize, usize>,
    /// Its endpoint fetches a message into memory of its own.
    pub(crate) fetches: bool,
    /// It closes, or has given up, so that others lose it.
    pub(crate) leaves: bool,
    /// A call of its own has met no memory, or no free descriptor.
    pub(crate) was_short: bool,
    /// What it is about to do, for people.
    pub(crate) doing: String,
}

impl Process {
    pub(crate) fn new(
        hostile: bool,
        program: impl FnOnce() + 'static,
        stack: corosensei::stack::DefaultStack,
    ) -> Self {
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            super::schedule::enter(yielder);
            program();
        });
        let life = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Self {
            coroutine: Some(coroutine),
            state: State::Ready,
            stopped_until: 0,
            life: life.expect("an eventfd"),
            descriptors: BTreeSet::new(),
            mappings: BTreeMap::new(),
            areas: Vec::new(),
            own: None,
            hostile,
            hurries: false,
            rooms: BTreeMap::new(),
            fetches: false,
            leaves: false,
            was_short: false,
            doing: "begins".to_owned(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended | State::Killed)
    }

    /// Whether others may find it gone.
    pub(crate) fn may_be_lost(&self) -> bool {
        self.is_over() || self.leaves || self.hostile
    }

    pub(crate) fn resume(coroutine: &mut Coroutine<(), (), ()>) -> bool {
        matches!(coroutine.resume(()), CoroutineResult::Return(()))
    }
}

/// The faults of a run. Each chance is one in so many; 0 is never.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// A call of the kernel fails.
    pub(crate) call: u32,
    /// A copy between processes is short, or is refused.
    pub(crate) copy: u32,
    /// A process is stopped at an access.
    pub(crate) stop: u32,
    /// Time passes at an access.
    pub(crate) delay: u32,
    /// This process is killed at this access of all.
    pub(crate) kill: Option<(usize, u64)>,
    /// Its children live on, with its descriptors.
    pub(crate) children_live: bool,
}

/// What happened in a run, or in many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) accesses: u64,
    pub(crate) turns: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Faults, and what else happened, by kind and name.
    pub(crate) named: BTreeMap<String, u64>,
}

impl Counts {
    pub(crate) fn fault(&mut self, what: &'static str) {
        self.state("fault", what, 1);
    }

    /// A state was reached so many times.
    pub(crate) fn state(&mut self, kind: &str, what: impl fmt::Display, times: u64) {
        *self.named.entry(format!("{kind} {what}")).or_default() += times;
    }
}

/// What processes tell each other outside of limic, as a launcher would.
#[derive(Default)]
pub(crate) struct Board {
    /// Addresses of endpoints; `None`: it could not be opened.
    pub(crate) addresses: Vec<Option<Option<Vec<u8>>>>,
    /// How many points each has reached at which all wait for each other.
    pub(crate) reached: Vec<u32>,
    /// Keys of regions.
    pub(crate) keys: Vec<u64>,
    pub(crate) matches: Vec<Match>,
    /// The process that is flooded with messages which nobody receives.
    pub(crate) flooded: Option<usize>,
    /// For each message, how many sends had been made when it was last sent.
    pub(crate) sent_as: Vec<u64>,
    /// For each message, the word that it was last sent with.
    pub(crate) words: Vec<Option<u64>>,
}

/// A message that a receive took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Match {
    pub(crate) to: usize,
    /// Receives of one process are numbered as they were posted.
    pub(crate) posted: u64,
    pub(crate) receive: Receive,
    pub(crate) message: usize,
    /// Its bytes are no other message's.
    pub(crate) sure: bool,
}

/// One run.
pub(crate) struct Sim {
    pub(crate) rng: Rng,
    pub(crate) now: u64,
    /// A run that lasts until then hangs.
    pub(crate) end: u64,
    pub(crate) accesses_left: u64,
    pub(crate) current: Option<usize>,
    pub(crate) processes: Vec<Process>,
    /// One access in so many gives the turn away.
    pub(crate) switch: u32,
    pub(crate) faults: Faults,
    /// Steps in which something may have happened that a sleeper waits for.
    pub(crate) happened: u64,
    /// What was wrong first.
    pub(crate) failure: Option<String>,
    pub(crate) trace: bool,
    pub(crate) counts: Counts,
    pub(crate) listeners: BTreeMap<u64, usize>,
    pub(crate) owners: BTreeMap<RawFd, usize>,
    pub(crate) board: Board,
    /// Somebody may meddle with wake-ups.
    pub(crate) guarded: bool,
    /// Copies of descriptors, which children hold that live on.
    pub(crate) inherited: Vec<OwnedFd>,
    /// This is a copy of the run, in a forked child.
    pub(crate) is_child: bool,
}

/// What the scheduler does next.
pub(crate) enum Next {
    Turn(usize),
    Over,
}

impl Sim {
    pub(crate) fn new(seed: u64, most_accesses: u64, trace: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let begin = BEGINS[rng.usize(0..BEGINS.len())];
        Self {
            rng,
            now: begin,
            end: begin + LONGEST_NS,
            accesses_left: most_accesses,
            current: None,
            processes: Vec::new(),
            switch: 8,
            faults: Faults::default(),
            happened: 1,
            failure: None,
            trace,
            counts: Counts::default(),
            listeners: BTreeMap::new(),
            owners: BTreeMap::new(),
            board: Board::default(),
            guarded: false,
            inherited: Vec::new(),
            is_child: false,
        }
    }

    /// One chance in so many; never if that is 0.
    pub(crate) fn chance(&mut self, one_in: u32) -> bool {
        one_in > 0 && self.rng.u32(0..one_in) == 0
    }

    pub(crate) fn process_id(process: usize) -> u32 {
        FIRST_PROCESS + process as u32
    }

    pub(crate) fn process_of(id: u32) -> Option<usize> {
        Some(id.checked_sub(FIRST_PROCESS)? as usize)
    }

    /// Says what was wrong; the run ends.
    pub(crate) fn fail(&mut self, what: impl fmt::Display) {
        let who = self.current.map(|who| who.to_string());
        let who = who.unwrap_or_else(|| "nobody".to_owned());
        self.note(|| format!("WRONG: {what}"));
        self.failure
            .get_or_insert_with(|| format!("process {who}: {what}"));
    }

    /// A line of the trace.
    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        if self.trace {
            let who = self.current.map_or("-".to_owned(), |who| who.to_string());
            println!("{:>12} {who} {}", self.now, line());
        }
    }

    /// The process that has its turn accesses memory that others write. True if the turn is over.
    pub(crate) fn access(&mut self, at: impl fmt::Display) -> bool {
        let Some(current) = self.current else {
            return false;
        };
        self.happened += 1;
        self.counts.accesses += 1;
        // In a long run time passes faster: what waits for seconds while others poll ends too.
        self.now += self.rng.u64(2..30) << (2 * (self.counts.accesses >> 20));
        if self.accesses_left == 0 || self.now > self.end {
            let doing: Vec<&str> = self.processes.iter().map(|one| &*one.doing).collect();
            self.fail(format!("the run takes too long: {}", doing.join("; ")));
            return true;
        }
        self.accesses_left -= 1;
        if self.failure.is_some() {
            return true;
        }
        if let Some((process, when)) = self.faults.kill
            && self.counts.accesses >= when
            && !self.processes[process].is_over()
        {
            self.faults.kill = None;
            self.processes[process].state = State::Killed;
            self.counts.fault("kill");
            self.note(|| format!("process {process} is killed ({at})"));
            return true;
        }
        if self.chance(self.faults.stop) {
            let time = 1_u64 << self.rng.u32(10..35);
            self.processes[current].stopped_until = self.now + time;
            self.counts.fault("stop");
            self.note(|| format!("is stopped for {time} ns at {at}"));
            return true;
        }
        if self.chance(self.faults.delay) {
            self.now += 1_u64 << self.rng.u32(10..31);
            self.counts.fault("delay");
        }
        !self.processes[current].hurries && self.chance(self.switch)
    }

    /// A call of the kernel: whether it fails.
    pub(crate) fn call(&mut self, call: Call) -> Result<(), Errno> {
        let fails = self.current.is_some() && self.chance(self.faults.call);
        if !fails {
            return Ok(());
        }
        let (errno, what) = match call {
            Call::Open | Call::Accept => (Errno::MFILE, "no descriptor"),
            Call::Connect => (Errno::AGAIN, "connect would block"),
            Call::Send => (Errno::AGAIN, "send would block"),
            Call::Reserve => (Errno::NOMEM, "no memory"),
        };
        if let (Errno::MFILE | Errno::NOMEM, Some(current)) = (errno, self.current) {
            self.processes[current].was_short = true;
        }
        self.counts.fault(what);
        self.note(|| format!("{call:?} fails: {what}"));
        Err(errno)
    }

    /// The process that has the next turn.
    pub(crate) fn next(&mut self) -> Next {
        loop {
            if self.failure.is_some() {
                return Next::Over;
            }
            let ready: Vec<usize> = (0..self.processes.len())
                .filter(|one| self.is_ready(&self.processes[*one]))
                .collect();
            if !ready.is_empty() {
                self.counts.turns += 1;
                return Next::Turn(ready[self.rng.usize(0..ready.len())]);
            }
            let living = self.processes.iter().filter(|one| !one.is_over());
            let wakes = living.clone().map(|one| match one.state {
                State::Asleep { until, .. } => until.unwrap_or(u64::MAX).max(one.stopped_until),
                _ => one.stopped_until,
            });
            match wakes.min() {
                None => return Next::Over,
                Some(when) if when.saturating_sub(self.now) > HANG_NS => {
                    let waiting = living.map(|one| format!("\n  {} ({:?})", one.doing, one.state));
                    let waiting: String = waiting.collect();
                    self.fail(format!("nobody goes on:{waiting}"));
                }
                Some(when) => self.now = self.now.max(when),
            }
        }
    }

    pub(crate) fn is_ready(&self, process: &Process) -> bool {
        let awake = match process.state {
            State::Ready => true,
            State::Asleep { until, seen } => {
                seen != self.happened || until.is_some_and(|until| until <= self.now)
            }
            State::Ended | State::Killed => false,
        };
        awake && process.stopped_until <= self.now
    }
}
