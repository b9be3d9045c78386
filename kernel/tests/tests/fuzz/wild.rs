//! A process that does what it likes: valid calls, mutated ones, random ones, and worse. It may die
//! of it.

use std::sync::Arc;

use limic_module_tests::abi::{self, ANY_RANK, CALLS, Iov};
use limic_module_tests::{Errno, Latches, Memory, PAGE, Random, Session, fill};

use crate::board::Board;
use crate::faults::Faults;

const THREADS: u64 = 2;
const ARENA: usize = 64 * PAGE;
const MOST_PIECES: usize = 5;

/// Numbers on which code stumbles.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    7,
    63,
    64,
    4095,
    4096,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    (1 << 47) - 4096,
    1 << 63,
    u64::MAX - 4095,
    u64::MAX - 1,
    u64::MAX,
];

/// Goes on until there are enough calls, or until it is killed or has killed itself.
pub(crate) fn run(board: &Board, seed: u64, faults: Option<&Faults>) {
    // What it says as it dies is of no interest, and neither is a core.
    std::panic::set_hook(Box::new(|_| ()));
    let common = Arc::new(open(board, &mut Random::new(seed)));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let common = &common;
            scope.spawn(move || {
                let random = Random::new(seed.wrapping_mul(37).wrapping_add(thread));
                let mut actor = Actor::new(board, common, random);
                if let Some(faults) = faults {
                    faults.hit_this_thread();
                }
                while !board.enough() {
                    actor.step();
                }
            });
        }
    });
}

struct Actor<'a> {
    board: &'a Board,
    random: Random,
    /// One that all threads use, with the same slots.
    common: &'a Arc<Session>,
    /// That one, or one of its own.
    session: Arc<Session>,
    /// Of that session or of one before.
    latches: Option<Latches>,
    arena: Memory,
    /// Handles and message names that it got.
    names: Vec<u64>,
}

impl<'a> Actor<'a> {
    fn new(board: &'a Board, common: &'a Arc<Session>, mut random: Random) -> Self {
        let mut arena = Memory::new(ARENA);
        fill(&mut arena, random.next());
        Self {
            board,
            common,
            session: common.clone(),
            latches: None,
            random,
            arena,
            names: Vec::new(),
        }
    }

    fn step(&mut self) {
        match self.random.below(64) {
            0 => {
                self.session = match self.random.below(2) {
                    0 => self.common.clone(),
                    _ => Arc::new(open(self.board, &mut self.random)),
                };
                self.latches = Latches::of(&self.session).ok();
            }
            6..9 => self.turn_a_latch(),
            // The other thread may be in a call on the same one.
            9 if self.random.below(20) == 0 => {
                let _ = self.session.end();
            }
            1 => self.disturb_memory(),
            2 if self.random.below(4) == 0 => self.fork(),
            3 => self.look_around(),
            4 => self.arena = Memory::filled(ARENA, self.random.next()),
            5 if self.random.below(40) == 0 => {
                // SAFETY: ends this process, which is what it is for.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            }
            _ => self.call(),
        }
    }

    /// One call: as it should be, with something changed, or all random.
    fn call(&mut self) {
        let (number, size) = self.random.pick(&CALLS);
        let mut words = [0_u64; 8];
        match self.random.below(8) {
            0 => words.fill_with(|| self.random.next()),
            1..4 => {
                words = self.valid(number);
                self.mutate(&mut words[..size / 8]);
            }
            _ => words = self.valid(number),
        }
        let number = match self.random.below(200) {
            0 => self.random.next(),
            1 => number ^ (1 << self.random.below(32)),
            _ => number,
        };
        let arg = match self.random.below(200) {
            0 => self.edge() as usize,
            _ => words.as_mut_ptr() as usize,
        };
        // SAFETY: none at all is kept: it may overwrite this process's memory, which is then
        // killed. Other processes share only the board with it, which is not in any list that it
        // makes.
        let result = unsafe { self.session.raw(number, arg) };
        self.board.called(result.is_err());
        if result == Err(Errno(libc::ENOMEM)) {
            self.board.starve();
        }
        if result.is_ok() && number == abi::EXPOSE {
            self.remember(words[4]);
        }
        if result.is_ok() && number == abi::PROBE {
            self.remember(words[4]);
        }
    }

    fn remember(&mut self, name: u64) {
        if self.names.len() >= 64 {
            let at = self.random.below(64) as usize;
            self.names.swap_remove(at);
        }
        self.names.push(name);
    }

    fn name(&mut self) -> u64 {
        let place = self.random.below(3) as usize;
        let at = self.random.below(16) as usize;
        let offered = self.board.look(place, at).map_or(0, |offer| offer.0);
        let own = self.random.below(self.names.len().max(1) as u64) as usize;
        let own = self.names.get(own).copied().unwrap_or(0);
        self.random.pick(&[offered, own])
    }

    /// A list of pieces of the arena; gives its address and length. It lies at the end of the
    /// arena.
    fn list(&mut self) -> (u64, u64) {
        let count = self.random.below(MOST_PIECES as u64 + 1);
        let mut pieces = [Iov::default(); MOST_PIECES];
        for piece in &mut pieces[..count as usize] {
            let base = self.random.below((ARENA - PAGE) as u64);
            let len = self.random.below((ARENA - PAGE) as u64 - base);
            let len = len.min(self.random.pick(&[16, 4096, 1 << 20]));
            *piece = Iov {
                base: self.arena.address() + base,
                len,
            };
        }
        let place = self.arena.pointer().wrapping_add(ARENA - PAGE);
        let from = libc::iovec {
            iov_base: pieces.as_ptr().cast_mut().cast(),
            iov_len: count as usize * size_of::<Iov>(),
        };
        let to = libc::iovec {
            iov_base: place.cast(),
            iov_len: from.iov_len,
        };
        // The page may have been unmapped by `disturb_memory`: written as the kernel reads it,
        // through a call.
        // SAFETY: the kernel writes to the arena of this process, or fails.
        unsafe { libc::process_vm_writev(libc::getpid(), &from, 1, &to, 1, 0) };
        (place as u64, count)
    }

    /// The structure of a call as it should be.
    fn valid(&mut self, number: std::ffi::c_ulong) -> [u64; 8] {
        let (iov, count) = match number {
            abi::EXPOSE | abi::COPY | abi::SEND | abi::RECV | abi::WAIT => self.list(),
            _ => (0, 0),
        };
        let low = |low: u64, high: u64| low & 0xffff_ffff | high << 32;
        let rank = self.random.below(12);
        let rank = self.random.pick(&[rank, u64::from(ANY_RANK)]);
        let (slot, tag) = (self.random.below(16), self.random.below(8));
        let name = self.name();
        match number {
            abi::HELLO => [low(1, 0), low(16, 32), 0, 0, 0, 0, 0, 0],
            abi::JOIN => [
                self.board.token[0],
                self.board.token[1],
                low(1, u64::from(ANY_RANK)),
                0,
                0,
                0,
                0,
                0,
            ],
            abi::EXPOSE => {
                let flags = 1 + self.random.below(31);
                // With a latch, mostly what it takes: one piece, and not for one copy only.
                let latched = flags & u64::from(abi::EXPOSE_LATCH) != 0;
                let (flags, count) = match self.random.below(4) {
                    0 => (flags, count),
                    _ if latched => (flags & !u64::from(abi::EXPOSE_ONCE), count.min(1)),
                    _ => (flags, count),
                };
                let latch = if latched { self.random.below(6) } else { 0 };
                [iov, low(count, flags), low(0, 0), 0, 0, 0, latch, 0]
            }
            abi::COPY => {
                let flags = 1 + self.random.below(2);
                let offset = self.random.pick(&[0, 1, 4096, 10_000]);
                [name, offset, iov, low(count, flags), 0, 0, 0, 0]
            }
            abi::REVOKE => [name, 0, 0, 0, 0, 0, 0, 0],
            abi::SEND => {
                let flags = self.random.pick(&[0, 0, 1, 4, 4]);
                [iov, low(count, flags), tag, 0, low(rank, slot), 0, 0, 0]
            }
            abi::RECV => match self.random.below(4) {
                0 => [iov, low(count, 1), 0, 0, 0, name, low(0, slot), 0],
                kind => {
                    let keep = kind & 2;
                    [iov, low(count, keep), tag, 7, 0, 0, low(rank, slot), 0]
                }
            },
            abi::PROBE => [tag, 7, low(rank, self.random.below(2)), 0, 0, 0, 0, 0],
            abi::WAIT => {
                let time = self.random.below(300_000);
                [
                    iov,
                    low(0, 0),
                    time,
                    low(self.random.below(4), 0),
                    0,
                    0,
                    0,
                    0,
                ]
            }
            abi::CANCEL => [low(slot, self.random.below(2)), 0, 0, 0, 0, 0, 0, 0],
            abi::MEMBER => [slot, 0, 0, 0, 0, 0, 0, 0],
            _ => [0; 8],
        }
    }

    fn edge(&mut self) -> u64 {
        let near = self.arena.address() + self.random.below(ARENA as u64);
        let any = self.random.next();
        let edge = self.random.pick(&EDGES);
        self.random.pick(&[edge, edge, near, any])
    }

    fn mutate(&mut self, words: &mut [u64]) {
        let at = self.random.below(words.len() as u64) as usize;
        let edge = self.edge();
        words[at] = match self.random.below(4) {
            0 => words[at] ^ (1 << self.random.below(64)),
            1 => edge,
            2 => words[at] & !0xffff_ffff | edge & 0xffff_ffff,
            _ => words[at] & 0xffff_ffff | edge << 32,
        };
    }

    /// Opens or shuts a latch, or writes anything into it.
    fn turn_a_latch(&mut self) {
        let index = self.random.below(6) as u32;
        let (open, inside) = (self.random.next() as u32, self.random.next() as u32);
        if let Some(latches) = &self.latches {
            match self.random.below(4) {
                0 => latches.scribble(index, 0, 0),
                1 => latches.scribble(index, open, inside),
                _ => {
                    let _ = latches.open(index);
                }
            }
        }
    }

    fn disturb_memory(&mut self) {
        let at = self.random.below((ARENA / PAGE) as u64) as usize * PAGE;
        let most = (ARENA - at) as u64 / PAGE as u64;
        let len = (1 + self.random.below(most)) as usize * PAGE;
        match self.random.below(4) {
            0 => self.arena.punch(at, len),
            1 => self.arena.throw_away(),
            2 => self.arena.protect(libc::PROT_READ),
            _ => self.arena.protect(libc::PROT_READ | libc::PROT_WRITE),
        }
    }

    /// A child that tries the inherited descriptor, and leaves.
    fn fork(&mut self) {
        // SAFETY: the child makes system calls only, and leaves by `_exit`.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                for (number, _) in CALLS {
                    libc::ioctl(self.session.descriptor(), number, self.arena.pointer());
                }
                libc::_exit(0);
            }
            if pid > 0 && self.random.below(2) == 0 {
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
        }
    }

    /// Everything about the descriptor that is not an ioctl.
    fn look_around(&mut self) {
        let fd = self.session.descriptor();
        let len = self.random.pick(&[PAGE, 2 * PAGE, 64, 1 << 40]);
        let access = self
            .random
            .pick(&[libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE]);
        let offset = self
            .random
            .pick(&[0, 0, abi::LATCH_OFFSET, PAGE as libc::off_t]);
        if let Ok(base) = self.session.map_at(len, access, offset) {
            // SAFETY: the mapping made just now.
            unsafe { libc::munmap(base.cast_mut().cast(), len) };
        }
        let mut entry = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut bytes = [0_u8; 16];
        // SAFETY: buffers of this function.
        unsafe {
            libc::poll(&mut entry, 1, 0);
            libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len());
            libc::write(fd, bytes.as_ptr().cast(), bytes.len());
            let copy = libc::dup(fd);
            libc::close(copy);
        }
        let _ = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"));
    }
}

/// A session, mostly one that is ready for everything.
fn open(board: &Board, random: &mut Random) -> Session {
    let mut session = Session::silent().expect("open");
    let slots = random.pick(&[0, 1, 16, 16, 16]);
    if random.below(10) > 0 {
        let _ = session.hello(slots, 0);
    }
    if random.below(8) > 0 {
        let _ = session.join(board.token, ANY_RANK);
    }
    session
}
