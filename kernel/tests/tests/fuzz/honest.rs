//! A process that keeps to the rules and believes nothing that it has not checked.

use std::collections::VecDeque;

use limic_module_tests::abi::{
    ANY_RANK, CANCEL_FORCE, COPY_READ, DONE, EXPOSE_KEEP, EXPOSE_LATCH, EXPOSE_ONCE, EXPOSE_READ,
    PENDING, PROBE_TAKE, SEND_BUFFERED, SEND_KEEP,
};
use limic_module_tests::{Errno, Latches, Memory, PAGE, Random, Session, Slot, To, check, fill};

use crate::board::Board;

const THREADS: usize = 2;
/// Slots of each thread.
const SLOTS: u32 = 8;
/// The longest message and copy.
const LONGEST: usize = 24 * PAGE;

/// Makes calls until there are enough.
pub(crate) fn run(board: &Board, place: usize, seed: u64) {
    let session = Session::member(board.token, ANY_RANK);
    board.set_rank(place, own_rank(&session));
    let latches = Latches::of(&session).expect("map the latches");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (session, latches) = (&session, &latches);
            scope.spawn(move || {
                let random = Random::new(seed.wrapping_mul(31).wrapping_add(thread as u64));
                let mut actor = Actor::new(board, (session, latches), place, thread, random);
                while !board.enough() {
                    actor.step();
                }
                actor.finish();
            });
        }
    });
}

/// The rank that the kernel gave: a message to oneself tells it.
fn own_rank(session: &Session) -> u32 {
    let link = format!("/proc/self/fdinfo/{}", session.descriptor());
    let text = std::fs::read_to_string(link).expect("fdinfo");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("limic-rank:"));
    let rank = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    rank.expect("the rank in fdinfo")
}

/// What peers may read: filled anew for each exposure, so it is there until that is revoked, or its
/// latch is shut.
struct Exposed {
    handle: u64,
    seed: u64,
    memory: Memory,
    /// Its latch, which is open.
    latch: Option<u32>,
}

/// A receive under way.
struct Receive {
    slot: Slot,
    memory: Memory,
}

struct Actor<'a> {
    board: &'a Board,
    session: &'a Session,
    latches: &'a Latches,
    place: usize,
    thread: usize,
    random: Random,
    exposed: VecDeque<Exposed>,
    sends: VecDeque<(Slot, Memory)>,
    receives: VecDeque<Receive>,
    free: Vec<Slot>,
    offers: usize,
    /// Where copies go; zeroes between them.
    target: Memory,
    zeroes: Vec<u8>,
}

impl<'a> Actor<'a> {
    fn new(
        board: &'a Board,
        (session, latches): (&'a Session, &'a Latches),
        place: usize,
        thread: usize,
        random: Random,
    ) -> Self {
        let first = thread as u32 * SLOTS;
        Self {
            board,
            session,
            latches,
            place,
            thread,
            random,
            exposed: VecDeque::new(),
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            free: (first..first + SLOTS).collect(),
            offers: 0,
            target: Memory::new(LONGEST),
            zeroes: vec![0; LONGEST],
        }
    }

    /// Notes a call, and asserts that its error, if any, is one of those that may happen to an
    /// honest caller.
    fn allow<T>(&self, result: Result<T, Errno>, allowed: &[i32]) -> Option<T> {
        self.board.called(result.is_err());
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                assert!(
                    allowed.contains(&error.0),
                    "an honest call failed: {error:?}"
                );
                None
            }
        }
    }

    /// Mostly short, sometimes long.
    fn length(&mut self) -> usize {
        let most = self.random.pick(&[64, 600, PAGE, 3 * PAGE, LONGEST]);
        self.random.below(most as u64 + 1) as usize
    }

    fn step(&mut self) {
        match self.random.below(12) {
            0 if self.random.below(2) == 0 => self.expose_behind_a_latch(),
            0 => self.expose(),
            1 if self.random.below(2) == 0 => self.shut_for_a_while(),
            1 => self.revoke(),
            2..5 => self.copy(),
            5..7 => self.send(),
            7..9 => self.receive(),
            9 => self.probe(),
            10 => self.cancel(),
            _ => self.collect(0),
        }
        if self.free.len() < 2 {
            self.collect(1_000_000);
        }
    }

    fn expose(&mut self) {
        if self.exposed.len() >= 6 {
            return self.revoke();
        }
        let seed = self.random.next();
        let memory = Memory::filled(self.length().max(1), seed);
        // Each buffer is mapped anew, mostly where another one was: what is kept of that must never
        // be found.
        let keep = self.random.pick(&[0, EXPOSE_KEEP]);
        let flags = EXPOSE_READ | keep | self.random.pick(&[0, 0, EXPOSE_ONCE]);
        let exposed = self.session.expose(&[memory.piece()], flags, To::Group);
        if let Some(handle) = self.allow(exposed, &[]) {
            self.offer(Exposed {
                handle,
                seed,
                memory,
                latch: None,
            });
        }
    }

    fn offer(&mut self, exposed: Exposed) {
        self.offers += 1;
        let at = self.thread * 8 + self.offers % 8;
        self.board
            .offer(self.place, at, exposed.handle, exposed.seed);
        self.exposed.push_back(exposed);
    }

    fn expose_behind_a_latch(&mut self) {
        if self.exposed.len() >= 6 {
            return self.revoke();
        }
        let seed = self.random.next();
        let memory = Memory::filled(self.length().max(1), seed);
        let latch = self.thread as u32 * 8 + self.random.below(8) as u32;
        let flags = EXPOSE_READ | EXPOSE_LATCH | self.random.pick(&[0, EXPOSE_KEEP]);
        let exposed = self
            .session
            .expose_behind(&[memory.piece()], flags, To::Group, latch);
        // In use, or the other thread's memory is changing.
        let Some(handle) = self.allow(exposed, &[libc::EBUSY]) else {
            return;
        };
        if self.latches.open(latch) {
            self.offer(Exposed {
                handle,
                seed,
                memory,
                latch: Some(latch),
            });
        } else {
            // The other process was forked just now; perhaps the module was faster.
            self.allow(self.session.revoke(handle), &[libc::ENOENT]);
        }
    }

    /// Between two messages the buffer is the application's.
    fn shut_for_a_while(&mut self) {
        let Some(mut exposed) = self.exposed.pop_front() else {
            return;
        };
        let Some(latch) = exposed.latch else {
            return self.exposed.push_front(exposed);
        };
        if !self.latches.shut(latch) {
            self.allow(self.session.revoke(exposed.handle), &[]);
            return;
        }
        fill(&mut exposed.memory, !exposed.handle);
        fill(&mut exposed.memory, exposed.seed);
        match self.random.below(4) {
            // It goes without a call: the module hears of it.
            0 => {}
            _ if self.latches.open(latch) => self.exposed.push_back(exposed),
            // Struck: perhaps it was ended already.
            _ => {
                self.allow(self.session.revoke(exposed.handle), &[libc::ENOENT]);
            }
        }
    }

    fn revoke(&mut self) {
        if let Some(mut exposed) = self.exposed.pop_front() {
            // It may have been used up, if it was for one copy.
            self.allow(self.session.revoke(exposed.handle), &[libc::ENOENT]);
            // Nobody may see this any more: the next one who reads it under the old seed would
            // fail.
            fill(&mut exposed.memory, !exposed.handle);
        }
    }

    fn copy(&mut self) {
        let (place, at) = (
            self.random.below(2) as usize,
            self.random.below(16) as usize,
        );
        let Some((handle, seed)) = self.board.look(place, at) else {
            return;
        };
        let (offset, len) = (self.length(), self.length());
        let cut = self.random.below(len as u64 + 1) as usize;
        let pieces = [self.target.part(0, cut), self.target.part(cut, len - cut)];
        let (copied, result) = self.session.copy(handle, offset as u64, &pieces, COPY_READ);
        self.allow(result, &[libc::ENOENT, libc::ERANGE, libc::ECANCELED]);
        check(&self.target[..copied as usize], seed, offset);
        // A copy that failed may have written a little more than it says, but nothing behind its
        // pieces.
        let clean = if result.is_ok() { copied as usize } else { len };
        assert!(self.target[clean..] == self.zeroes[clean..]);
        self.target[..len].fill(0);
        self.board.checked(copied);
    }

    /// The other honest process, or this one.
    fn partner(&mut self) -> Option<u32> {
        self.board.rank(self.random.below(2) as usize)
    }

    fn send(&mut self) {
        let (Some(to), Some(slot)) = (self.partner(), self.free.pop()) else {
            return;
        };
        // The tag is the seed of the bytes; its low part is what receives ask for.
        let tag = self.random.next();
        let mut len = self.length();
        let buffered = self.random.below(3) == 0;
        if buffered {
            len = len.min(PAGE);
        }
        let memory = Memory::filled(len.max(1), tag);
        let flags = if buffered { SEND_BUFFERED } else { 0 } | self.random.pick(&[0, SEND_KEEP]);
        let piece = [memory.part(0, len)];
        let sent = self.session.send_with(&piece, to, tag, slot, flags);
        match self.allow(sent, &[libc::EPIPE, libc::ENOBUFS, libc::ESRCH]) {
            Some(PENDING) => self.sends.push_back((slot, memory)),
            Some(_) => {
                let status = self.session.status(slot);
                assert_eq!(status.state, DONE);
                assert!([0, -libc::EPIPE].contains(&status.error), "{status:?}");
                self.free.push(slot);
            }
            None => self.free.push(slot),
        }
    }

    fn receive(&mut self) {
        let Some(slot) = self.free.pop() else { return };
        let from = match self.random.below(3) {
            0 => ANY_RANK,
            _ => match self.partner() {
                Some(rank) => rank,
                None => return self.free.push(slot),
            },
        };
        // By two bits of the tag, or none.
        let label = (self.random.below(4), self.random.pick(&[0, 3]));
        let memory = Memory::new(self.length().max(1));
        let posted = self
            .session
            .recv_masked(&[memory.piece()], from, label, slot);
        match self.allow(posted, &[libc::EPIPE]) {
            Some(PENDING) => self.receives.push_back(Receive { slot, memory }),
            Some(_) => self.received(&Receive { slot, memory }),
            None => self.free.push(slot),
        }
    }

    /// Checks what came.
    fn received(&mut self, receive: &Receive) {
        let status = self.session.status(receive.slot);
        assert_eq!(status.state, DONE);
        let allowed = [0, -libc::EMSGSIZE, -libc::EPIPE, -libc::ECANCELED];
        assert!(allowed.contains(&status.error), "{status:?}");
        assert!(status.len <= receive.memory.len() as u64);
        let honest = (0..2).any(|place| self.board.rank(place) == Some(status.source));
        // Bytes from wild senders may be anything, and their tag too.
        if status.len > 0 && honest {
            check(&receive.memory[..status.len as usize], status.tag, 0);
            self.board.checked(status.len);
        }
        self.free.push(receive.slot);
    }

    fn probe(&mut self) {
        // What is taken has to be received, else its sender waits for ever: so the slot for that
        // comes first.
        let slot = match self.random.below(2) {
            0 => self.free.pop(),
            _ => None,
        };
        let mut arg = limic_module_tests::abi::Probe {
            rank: ANY_RANK,
            flags: slot.map_or(0, |_| PROBE_TAKE),
            ..Default::default()
        };
        let seen = self.session.call(limic_module_tests::abi::PROBE, &mut arg);
        let seen = self.allow(seen, &[libc::EAGAIN]).is_some();
        match slot {
            Some(slot) if seen => {
                let memory = Memory::new((arg.len as usize).clamp(1, LONGEST));
                let taken = self
                    .session
                    .recv_taken(&[memory.piece()], arg.message, slot);
                assert_eq!(self.allow(taken, &[]), Some(DONE));
                self.received(&Receive { slot, memory });
            }
            Some(slot) => self.free.push(slot),
            None => {}
        }
    }

    fn cancel(&mut self) {
        let slot = match self.random.below(2) {
            0 => self.receives.front().map(|receive| receive.slot),
            _ => self.sends.front().map(|send| send.0),
        };
        if let Some(slot) = slot {
            // By force, the memory may go at once, whatever the other side does.
            let flags = self.random.pick(&[0, CANCEL_FORCE]);
            let cancelled = self.session.cancel_with(slot, flags);
            self.allow(cancelled, &[libc::EALREADY]);
        }
    }

    /// Takes what is done; waits a little if nothing is.
    fn collect(&mut self, timeout_ns: i64) {
        let sends = self.sends.iter().map(|send| send.0);
        let slots: Vec<Slot> = sends
            .chain(self.receives.iter().map(|it| it.slot))
            .collect();
        let min = u32::from(!slots.is_empty());
        let waited = self.session.wait(&slots, min, timeout_ns);
        if let Some(wait) = self.allow(waited, &[]) {
            assert!(wait.done as usize <= slots.len());
        }
        for _ in 0..self.sends.len() {
            let Some((slot, memory)) = self.sends.pop_front() else {
                break;
            };
            let status = self.session.status(slot);
            if status.state == PENDING {
                self.sends.push_back((slot, memory));
                continue;
            }
            let allowed = [0, -libc::EPIPE, -libc::ECANCELED];
            assert!(allowed.contains(&status.error), "{status:?}");
            self.free.push(slot);
        }
        for _ in 0..self.receives.len() {
            let Some(receive) = self.receives.pop_front() else {
                break;
            };
            if self.session.status(receive.slot).state == PENDING {
                self.receives.push_back(receive);
            } else {
                self.received(&receive);
            }
        }
    }

    /// Ends what is under way, so that its memory may go.
    fn finish(mut self) {
        while !(self.sends.is_empty() && self.receives.is_empty()) {
            let sends = self.sends.iter().map(|send| send.0);
            let slots: Vec<Slot> = sends
                .chain(self.receives.iter().map(|it| it.slot))
                .collect();
            for slot in slots {
                let cancelled = self.session.cancel_with(slot, CANCEL_FORCE);
                self.allow(cancelled, &[libc::EALREADY]);
            }
            self.collect(1_000_000);
        }
        while !self.exposed.is_empty() {
            self.revoke();
        }
    }
}
