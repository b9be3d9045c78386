//! The wake-up flag: costs a sender nothing while its receiver is awake.
//!
//! One word in the receiver's segment. A receiver that runs out of patience
//! announces its sleep, looks at its rings once more, and then blocks (on an event
//! set, elsewhere). A sender looks at the word after it has published a message,
//! and rings (a doorbell, elsewhere) if it takes the announcement down.
//!
//! Each side stores first and loads then (Dekker's pattern), which needs a full barrier on both
//! sides, or a message and an announcement can miss each other. The sender's barrier would cost
//! each message some 20 ns. So the receiver, who is about to sleep anyway, pays for both:
//! `membarrier(GLOBAL_EXPEDITED)` runs a full barrier on each processor that runs a thread of a
//! registered process, and the sender's half is a mere compiler fence (pair *sleep barrier*). Where
//! a process may not call membarrier, its peers are told:
//!
//! - a receiver that cannot issue the barrier says so in the word
//!   ([`NEEDS_FENCE`]), and its senders use a full fence;
//! - a sender that could not register always uses a full fence.
//!
//! Cost for a sender while the receiver is awake: one load of a line that nobody
//! writes meanwhile, hence of its own cache; no fence, no move.

use super::{GeometryError, LINE, Memory, check_area};
use crate::sync::{AtomicU64, Ordering, fence, heavy_fence, light_fence};

/// Bit of the word: the receiver sleeps or is about to.
pub const ASLEEP: u64 = 1;
/// Bit of the word: the receiver cannot issue the heavy barrier.
pub const NEEDS_FENCE: u64 = 2;
/// Bit of the word: always there, but for memory that is not the receiver's, as in a process that
/// was forked from a sender.
pub const RECEIVER: u64 = 4;

/// Bytes of memory that the flag takes: a line for itself.
pub const AREA_LEN: usize = LINE;

/// What this process may do about barriers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsymmetricFence {
    /// Other processes' heavy barriers reach our threads.
    registered: bool,
    /// We can issue the heavy barrier.
    heavy: bool,
}

impl AsymmetricFence {
    /// Registers this process for the barriers of others, and finds out whether it
    /// may issue its own. To be called in each process before it sends or sleeps;
    /// a second call does no harm. Never fails: where membarrier is missing or
    /// refused (old kernels, seccomp, Miri), full fences do its work.
    #[cfg(not(loom))]
    #[must_use]
    pub fn detect() -> Self {
        if cfg!(miri) {
            return Self::fences();
        }
        use rustix::thread::{MembarrierCommand, membarrier};
        let registered = membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok();
        let heavy = heavy_fence();
        Self { registered, heavy }
    }

    /// Each that a process may have, in a model.
    #[cfg(all(test, loom))]
    pub(crate) fn all() -> [Self; 4] {
        crate::sync::modelled::prepare();
        [(false, false), (true, false), (false, true), (true, true)]
            .map(|(registered, heavy)| Self { registered, heavy })
    }

    /// Neither: full fences on both sides, which always works.
    #[must_use]
    pub const fn fences() -> Self {
        Self {
            registered: false,
            heavy: false,
        }
    }

    /// Whether senders of this process get by without a fence.
    #[must_use]
    pub const fn is_registered(self) -> bool {
        self.registered
    }

    /// Whether receivers of this process spare their senders the fence.
    #[must_use]
    pub const fn is_heavy(self) -> bool {
        self.heavy
    }

    /// The receiver's half of pair *sleep barrier*: between storing the word and
    /// looking at the rings. Says whether it reached the senders too.
    fn heavy(self) -> bool {
        if self.heavy && heavy_fence() {
            return true;
        }
        fence(Ordering::SeqCst);
        false
    }
}

/// The receiver's end of the flag.
#[derive(Debug)]
pub struct Sleeper<M> {
    mem: M,
    barrier: AsymmetricFence,
}

impl<M: Memory> Sleeper<M> {
    /// Sets the flag up, awake. To be done before the segment is handed to anyone.
    ///
    /// # Errors
    ///
    /// If `mem` is shorter than [`AREA_LEN`].
    pub fn new(mem: M, barrier: AsymmetricFence) -> Result<Self, GeometryError> {
        check_area(mem.len(), AREA_LEN)?;
        let sleeper = Self { mem, barrier };
        sleeper.wake_up();
        Ok(sleeper)
    }

    /// Announces sleep. If this says true: look at all rings once more, and if they
    /// are empty, block; a message published later rings. In any case call
    /// [`wake_up`](Self::wake_up) then.
    ///
    /// It says false if the kernel refuses the barrier that it granted before (a seccomp filter
    /// installed since): messages on their way may not ring, so do not block this
    /// time. From the next time on, senders are told to use fences.
    #[must_use = "if this is false, the receiver must not block"]
    pub fn announce(&mut self) -> bool {
        // Relaxed: ordered before the look at the rings by the heavy barrier.
        word(&self.mem).store(self.awake() | ASLEEP, Ordering::Relaxed);
        let reached = self.barrier.heavy();
        if reached == self.barrier.heavy {
            return true;
        }
        self.barrier.heavy = false;
        self.wake_up();
        false
    }

    /// Ends the sleep, or takes the announcement back.
    pub fn wake_up(&self) {
        // Relaxed: at worst a sender rings once too often.
        word(&self.mem).store(self.awake(), Ordering::Relaxed);
    }

    /// The word while awake.
    fn awake(&self) -> u64 {
        if self.barrier.heavy {
            RECEIVER
        } else {
            RECEIVER | NEEDS_FENCE
        }
    }
}

/// A sender's end of the flag.
#[derive(Debug, Clone)]
pub struct Waker<M> {
    mem: M,
    barrier: AsymmetricFence,
}

impl<M: Memory> Waker<M> {
    /// A sender's end of a flag in the receiver's segment.
    ///
    /// # Errors
    ///
    /// If `mem` is shorter than [`AREA_LEN`].
    pub fn new(mem: M, barrier: AsymmetricFence) -> Result<Self, GeometryError> {
        check_area(mem.len(), AREA_LEN)?;
        Ok(Self { mem, barrier })
    }

    /// To be called after publishing: whether the receiver sleeps and this sender
    /// is the one to ring. Each announced sleep gets one yes, unless a hostile peer
    /// meddles with the word: sleep with a time limit where peers are not trusted.
    #[inline(always)]
    #[must_use = "if this is true, the receiver sleeps until someone rings"]
    pub fn must_ring(&self) -> bool {
        // The sender's half of pair *sleep barrier*, with `Sleeper::announce`: either our load sees
        // the announcement, or the receiver's second look sees our message.
        if self.barrier.registered {
            light_fence();
        } else {
            fence(Ordering::SeqCst);
        }
        let state = word(&self.mem).load(Ordering::Relaxed);
        state != RECEIVER && self.ring_unless_awake(state)
    }

    /// Whether the word is a receiver's. It is not in a process that was forked from the sender.
    #[must_use]
    pub fn has_receiver(&self) -> bool {
        word(&self.mem).load(Ordering::Relaxed) & RECEIVER != 0
    }

    #[inline(never)]
    fn ring_unless_awake(&self, mut state: u64) -> bool {
        if state & RECEIVER == 0 {
            // The one to ring finds out what is wrong.
            return true;
        }
        if state & NEEDS_FENCE != 0 && self.barrier.registered {
            // The light half was not enough for this receiver.
            fence(Ordering::SeqCst);
            state = word(&self.mem).load(Ordering::Relaxed);
        }
        // One of all senders takes the announcement down, and rings.
        state & ASLEEP != 0 && word(&self.mem).fetch_and(!ASLEEP, Ordering::AcqRel) & ASLEEP != 0
    }
}

/// The flag's word.
#[inline(always)]
fn word<M: Memory>(mem: &M) -> &AtomicU64 {
    // SAFETY: both constructors saw that the area has a line.
    unsafe { mem.word64_unchecked(0) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::{AREA_LEN, AsymmetricFence, Sleeper, Waker};
    use crate::ring::{LineConsumer, LineProducer, heap, line};

    fn barriers() -> Vec<AsymmetricFence> {
        #[cfg(not(miri))]
        {
            let detected = AsymmetricFence::detect();
            if !detected.is_heavy() {
                println!("SKIPPED: membarrier is refused here, only fences are tested");
            }
            vec![detected, AsymmetricFence::fences()]
        }
        #[cfg(miri)]
        vec![AsymmetricFence::fences()]
    }

    #[test]
    fn ring_sleep_flag_asks_exactly_one_sender_to_ring() {
        for (receiver, sender) in barriers()
            .into_iter()
            .flat_map(|a| barriers().into_iter().map(move |b| (a, b)))
        {
            let mem = heap(AREA_LEN);
            let mut sleeper = Sleeper::new(mem.clone(), receiver).expect("geometry");
            let wakers = [(); 2].map(|()| Waker::new(mem.clone(), sender).expect("geometry"));
            assert!(!wakers[0].must_ring(), "awake");
            assert!(sleeper.announce());
            assert!(wakers[0].must_ring());
            assert!(!wakers[1].must_ring(), "one ring is enough");
            sleeper.wake_up();
            assert!(!wakers[0].must_ring());
            assert!(sleeper.announce());
            sleeper.wake_up();
            assert!(!wakers[1].must_ring(), "taken back");
        }
    }

    #[test]
    fn ring_sleep_loses_no_message_of_a_thread() {
        for barrier in barriers() {
            let lines = 16;
            let (ring, flag) = (heap(line::area_len(lines)), heap(AREA_LEN));
            let mut consumer = LineConsumer::new(ring.clone(), lines).expect("geometry");
            let mut producer = LineProducer::new(ring, lines).expect("geometry");
            let mut sleeper = Sleeper::new(flag.clone(), barrier).expect("geometry");
            let waker = Waker::new(flag, barrier).expect("geometry");
            let (doorbell, door) = mpsc::channel();
            let records: u64 = if cfg!(miri) { 30 } else { 20_000 };
            let sender = thread::spawn(move || {
                let watchdog = crate::ring::watchdog::Watchdog::new();
                for seed in 0..records {
                    while producer
                        .reserve(0)
                        .map(|room| room.publish(1, seed))
                        .is_none()
                    {
                        watchdog.turn();
                    }
                    if waker.must_ring() {
                        doorbell.send(()).expect("receiver");
                    }
                }
                // Keeps the bell, so that a lost wake-up shows as a time-out.
                doorbell
            });
            for seed in 0..records {
                while consumer.peek().expect("honest").is_none() {
                    assert!(sleeper.announce());
                    if consumer.peek().expect("honest").is_none() {
                        door.recv_timeout(Duration::from_secs(60))
                            .expect("a lost wake-up");
                    }
                    sleeper.wake_up();
                }
                assert_eq!(consumer.peek().expect("honest").expect("record").tag, seed);
                consumer.pop();
            }
            sender.join().expect("sender");
        }
    }

    #[test]
    fn ring_sleep_flag_needs_a_line() {
        let empty = crate::ring::Memory::sub(&heap(64), 0, 0);
        assert!(Sleeper::new(empty.clone(), AsymmetricFence::fences()).is_err());
        assert!(Waker::new(empty, AsymmetricFence::fences()).is_err());
    }
}

#[cfg(all(test, loom))]
mod interleavings {
    use loom::thread;

    use super::{AREA_LEN, AsymmetricFence, Sleeper, Waker};
    use crate::ring::memory::{Memory, modelled::Modelled};
    use crate::sync::Ordering;

    fn no_lost_wake_up(senders: usize, receiver: usize, sender: usize) {
        loom::model(move || {
            let fences = AsymmetricFence::all();
            let flag = Modelled::new(AREA_LEN);
            let messages = Modelled::new(128);
            let mut sleeper = Sleeper::new(flag.clone(), fences[receiver]).expect("geometry");
            let threads: Vec<_> = (0..senders)
                .map(|index| {
                    let waker = Waker::new(flag.clone(), fences[sender]).expect("geometry");
                    let messages = messages.clone();
                    thread::spawn(move || {
                        messages.word64(index * 64).store(1, Ordering::Release);
                        waker.must_ring()
                    })
                })
                .collect();
            assert!(sleeper.announce());
            let seen = (0..senders)
                .filter(|index| messages.word64(index * 64).load(Ordering::Acquire) == 1)
                .count();
            let rung = threads
                .into_iter()
                .filter_map(|thread| thread.join().ok())
                .filter(|&r| r)
                .count();
            assert!(rung <= 1, "one announcement, {rung} rings");
            assert!(
                seen == senders || rung == 1,
                "a message came unseen, and nobody rang"
            );
        });
    }

    /// All that processes may do about barriers, on both sides.
    fn with_all_fences(senders: usize) {
        for (receiver, sender) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
            no_lost_wake_up(senders, receiver, sender);
        }
    }

    #[test]
    fn sleep_flag_loses_no_wake_up_of_one_sender() {
        with_all_fences(1);
    }

    #[test]
    fn sleep_flag_loses_no_wake_up_of_two_senders() {
        with_all_fences(2);
    }
}
