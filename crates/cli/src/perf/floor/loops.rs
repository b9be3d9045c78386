//! The loops themselves: what the measuring process does, and its partner's half.

use std::fmt;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use super::copies::Copies;
use super::memory::Memory;
use super::{SHAPES, wake};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[repr(u8)]
pub(in crate::perf) enum Kind {
    CacheLine,
    Memcpy,
    TwoCopy,
    TwoCopyStream,
    OneCopy,
    OneCopyRewritten,
    #[value(name = "process_vm_readv")]
    ReadProcess,
    EpollWake,
    FutexWake,
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::CacheLine,
        Self::Memcpy,
        Self::TwoCopy,
        Self::TwoCopyStream,
        Self::OneCopy,
        Self::OneCopyRewritten,
        Self::ReadProcess,
        Self::EpollWake,
        Self::FutexWake,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CacheLine => "cache-line",
            Self::Memcpy => "memcpy",
            Self::TwoCopy => "two-copy",
            Self::TwoCopyStream => "two-copy-stream",
            Self::OneCopy => "one-copy",
            Self::OneCopyRewritten => "one-copy-rewritten",
            Self::ReadProcess => "process_vm_readv",
            Self::EpollWake => "epoll-wake",
            Self::FutexWake => "futex-wake",
        }
    }

    /// Whether the other process takes part, beyond having the memory.
    pub(super) fn needs_partner(self) -> bool {
        !matches!(self, Self::Memcpy | Self::OneCopy | Self::ReadProcess)
    }

    /// Whether one process wakes the other: the sleeper has the time, not who waits for it.
    pub(super) fn wakes(self) -> bool {
        matches!(self, Self::EpollWake | Self::FutexWake)
    }

    pub(super) fn has_ring(self) -> bool {
        matches!(self, Self::TwoCopy | Self::TwoCopyStream)
    }

    /// Messages that follow each other in one iteration.
    pub(super) fn steps(self) -> u32 {
        match self {
            Self::CacheLine | Self::TwoCopy | Self::OneCopyRewritten => 2,
            _ => 1,
        }
    }
}

/// A ring: chunks of so many bytes, so many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) fragment: usize,
    pub(super) depth: usize,
}

impl Shape {
    pub(super) const fn new(fragment: usize, depth: usize) -> Self {
        Self { fragment, depth }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}K x {}", self.fragment >> 10, self.depth)
    }
}

/// What both processes do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) kind: Kind,
    pub(super) bytes: usize,
    pub(super) shape: Shape,
    /// What copies into the ring and out of it.
    pub(super) copies: Copies,
    pub(super) iterations: u64,
}

impl Order {
    pub(super) const BYTES: usize = 48;

    /// For a kind that has no ring, and copies as libc does if it copies at all.
    pub(super) fn without_ring(kind: Kind, bytes: usize, iterations: u64) -> Self {
        Self {
            kind,
            bytes,
            shape: SHAPES[0],
            copies: Copies::Libc,
            iterations,
        }
    }

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let numbers = [
            self.kind as u64,
            self.bytes as u64,
            self.shape.fragment as u64,
            self.shape.depth as u64,
            self.copies as u64,
            self.iterations,
        ];
        let mut bytes = [0; Self::BYTES];
        for (to, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// `None` for a kind that does not exist.
    pub(super) fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let number = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
            u64::from_le_bytes(word)
        };
        let size = |index: usize| usize::try_from(number(index)).ok();
        Some(Self {
            kind: *Kind::ALL.get(size(0)?)?,
            bytes: size(1)?,
            shape: Shape::new(size(2)?, size(3)?),
            copies: *Copies::ALL.get(size(4)?)?,
            iterations: number(5),
        })
    }
}

/// Why a loop stopped.
#[derive(Debug)]
pub(super) enum Failure {
    /// The kernel does not let one process read the other.
    Refused(nix::errno::Errno),
    /// The other process no longer answers.
    Silent,
    /// The pipes between the two broke.
    System(std::io::Error),
}

impl From<std::io::Error> for Failure {
    fn from(source: std::io::Error) -> Self {
        Self::System(source)
    }
}

/// The measuring process's half.
pub(super) fn lead(order: &Order, memory: &mut Memory, partner: i32) -> Result<(), Failure> {
    let Order {
        bytes, iterations, ..
    } = *order;
    match order.kind {
        Kind::CacheLine => {
            for turn in 0..iterations {
                let ball = memory.flags().ball(turn);
                ball.set(2 * turn + 1);
                ball.wait_for(2 * turn + 2)?;
            }
        }
        Kind::Memcpy => {
            for _ in 0..iterations {
                let from = std::hint::black_box(memory.source.bytes(bytes));
                memory.target.bytes_mut(bytes).copy_from_slice(from);
                std::hint::black_box(&mut memory.target);
            }
        }
        Kind::TwoCopy => {
            for turn in 0..iterations {
                put(order, memory, 0, turn)?;
                take(order, memory, 1, turn)?;
            }
        }
        Kind::TwoCopyStream => {
            for turn in 0..iterations {
                put(order, memory, 0, turn)?;
            }
            memory.flags().done.wait_for(1)?;
        }
        Kind::OneCopy => {
            for _ in 0..iterations {
                memory.copy_shared(bytes);
                std::hint::black_box(&mut memory.target);
            }
        }
        Kind::OneCopyRewritten => {
            for turn in 0..iterations {
                rewrite(order, memory, 0, turn);
                copy(order, memory, 1, turn)?;
            }
        }
        Kind::ReadProcess => {
            // The partner's own copy of the source lies at the same address.
            let base = memory.source.bytes(bytes).as_ptr().addr();
            for _ in 0..iterations {
                let mut done = 0;
                while done < bytes {
                    let mut into = [std::io::IoSliceMut::new(
                        &mut memory.target.bytes_mut(bytes)[done..],
                    )];
                    let from = [RemoteIoVec {
                        base: base + done,
                        len: bytes - done,
                    }];
                    match process_vm_readv(Pid::from_raw(partner), &mut into, &from) {
                        Ok(0) => return Err(Failure::Refused(nix::errno::Errno::EIO)),
                        Ok(read) => done += read,
                        Err(errno) => return Err(Failure::Refused(errno)),
                    }
                }
            }
        }
        Kind::EpollWake | Kind::FutexWake => wake::lead(order, memory)?,
    }
    Ok(())
}

/// The other process's half.
pub(super) fn follow(order: &Order, memory: &mut Memory) -> Result<(), Failure> {
    match order.kind {
        Kind::CacheLine => {
            for turn in 0..order.iterations {
                let ball = memory.flags().ball(turn);
                ball.wait_for(2 * turn + 1)?;
                ball.set(2 * turn + 2);
            }
        }
        Kind::TwoCopy => {
            for turn in 0..order.iterations {
                take(order, memory, 0, turn)?;
                put(order, memory, 1, turn)?;
            }
        }
        Kind::TwoCopyStream => {
            for turn in 0..order.iterations {
                take(order, memory, 0, turn)?;
            }
            memory.flags().done.set(1);
        }
        Kind::OneCopyRewritten => {
            for turn in 0..order.iterations {
                copy(order, memory, 0, turn)?;
                rewrite(order, memory, 1, turn);
            }
        }
        Kind::EpollWake | Kind::FutexWake => wake::follow(order, memory)?,
        Kind::Memcpy | Kind::OneCopy | Kind::ReadProcess => {}
    }
    Ok(())
}

/// Writes the shared buffer anew, and says so.
fn rewrite(order: &Order, memory: &mut Memory, direction: usize, turn: u64) {
    memory.rewrite_shared(order.bytes, turn);
    memory.flags().filled[direction].set(turn + 1);
}

/// Copies what the other process has written, which then waits to be answered.
fn copy(order: &Order, memory: &mut Memory, direction: usize, turn: u64) -> Result<(), Failure> {
    memory.flags().filled[direction].wait_for(turn + 1)?;
    memory.copy_shared(order.bytes);
    std::hint::black_box(&mut memory.target);
    Ok(())
}

/// The pieces of message number `turn`: number in the ring's life, place in the message, length.
fn pieces(order: &Order, turn: u64) -> impl Iterator<Item = (u64, usize, usize)> + use<> {
    let Order { bytes, shape, .. } = *order;
    let count = bytes.div_ceil(shape.fragment);
    (0..count).map(move |index| {
        let at = index * shape.fragment;
        let number = turn * count as u64 + index as u64;
        (number, at, shape.fragment.min(bytes - at))
    })
}

/// Copies a message into a ring.
fn put(order: &Order, memory: &Memory, direction: usize, turn: u64) -> Result<(), Failure> {
    let flags = memory.flags();
    let depth = order.shape.depth as u64;
    for (number, at, len) in pieces(order, turn) {
        // Room once the chunk `depth` before this one was emptied.
        flags.emptied[direction].wait_for((number + 1).saturating_sub(depth))?;
        let offset = (number % depth) as usize * order.shape.fragment;
        let to = memory.fragment(offset, len);
        // SAFETY: a chunk of `len` bytes, and it was emptied: the other process waits for `filled`.
        // In a ping-pong it belongs to both directions; this process answers only once it has taken
        // the whole message.
        unsafe { memory.copy_in(order.copies, at, len, to) };
        flags.filled[direction].set(number + 1);
    }
    Ok(())
}

/// Copies a message out of a ring.
fn take(order: &Order, memory: &mut Memory, direction: usize, turn: u64) -> Result<(), Failure> {
    let depth = order.shape.depth as u64;
    for (number, at, len) in pieces(order, turn) {
        memory.flags().filled[direction].wait_for(number + 1)?;
        let offset = (number % depth) as usize * order.shape.fragment;
        let from = memory.fragment(offset, len);
        // SAFETY: a chunk of `len` bytes, and it was filled: the other process waits for `emptied`.
        unsafe { memory.copy_out(order.copies, from, at, len) };
        memory.flags().emptied[direction].set(number + 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use limic_measure::content;

    use super::*;

    #[test]
    fn orders_travel() {
        for kind in Kind::ALL {
            let order = Order {
                kind,
                bytes: 5,
                shape: Shape::new(8 << 10, 4),
                copies: Copies::RepMovsb,
                iterations: 7,
            };
            assert_eq!(Order::decode(&order.encode()), Some(order));
        }
        assert_eq!(Order::decode(&[0xff; Order::BYTES]), None);
    }

    #[test]
    fn a_copy_has_what_was_written_before_it() {
        let order = Order::without_ring(Kind::OneCopyRewritten, 200, 1);
        let mut memory = Memory::map(order.bytes).unwrap();
        rewrite(&order, &mut memory, 0, 7);
        copy(&order, &mut memory, 0, 7).unwrap();
        let mut expected = [0; 200];
        content::rewrite(&mut expected, 7);
        assert_eq!(memory.target.bytes(200), expected);
    }

    #[test]
    fn pieces_cover_the_message() {
        let order = Order {
            kind: Kind::TwoCopy,
            bytes: 20 << 10,
            shape: Shape::new(8 << 10, 4),
            copies: Copies::Libc,
            iterations: 1,
        };
        let found: Vec<_> = pieces(&order, 1).collect();
        assert_eq!(found, [(3, 0, 8192), (4, 8192, 8192), (5, 16384, 4096)]);
    }
}
