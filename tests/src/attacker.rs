//! What a hostile process can do to the memory that it shares with others, and at their sockets.

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::unistd::Pid;

use crate::Random;

/// A connection to the socket of an endpoint, by its abstract name, without the library; `None` if
/// it is refused. Without a free descriptor it is an error.
pub fn intrude(name: &str) -> Result<Option<OwnedFd>, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    let address = UnixAddr::new_abstract(name.as_bytes()).expect("a name");
    let connected = connect(socket.as_raw_fd(), &address);
    Ok(connected.ok().map(|()| socket))
}

/// Stops this process and lets it go on, again and again, until this is dropped.
#[derive(Debug)]
pub struct Stopper(Child);

impl Stopper {
    /// Begins with it.
    #[must_use]
    pub fn start() -> Self {
        let mut shell = Command::new("sh");
        // Its end comes behind a CONT, so that this process is never left stopped.
        let script = "trap 'kill -CONT $0; exit' TERM
            while kill -STOP $0; do sleep 0.01; kill -CONT $0; sleep 0.01; done";
        shell.args(["-c", script, &std::process::id().to_string()]);
        Self(shell.stderr(Stdio::null()).spawn().expect("sh"))
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.0.id() as i32);
        kill(pid, Signal::SIGTERM).expect("it goes on until this process ends");
        self.0.wait().expect("it is a child");
    }
}

/// Mappings of limic's shared memory in this process that it may write.
#[must_use]
pub fn writable_segments() -> Vec<Range<usize>> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let lines = maps
        .lines()
        .filter(|line| line.contains("memfd:limic") && line.contains(" rw-s "));
    let ranges = lines.filter_map(|line| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(number(start)?..number(end)?)
    });
    ranges.collect()
}

/// How memory is scribbled on.
#[derive(Clone, Copy, Debug)]
pub enum Scribble {
    /// Single words: small numbers, all ones, noughts, random ones.
    Words,
    /// One bit of a word changes.
    Flips,
    /// Some lines in a row get the same word.
    Bursts,
}

impl Scribble {
    /// Scribbles once, somewhere in one of the mappings.
    ///
    /// # Safety
    /// The mappings are [`writable_segments`], and stay mapped.
    pub unsafe fn once(self, random: &mut Random, mappings: &[Range<usize>]) {
        let mapping = &mappings[random.below(mappings.len() as u64) as usize];
        let bytes = mapping.len();
        // The first pages hold the words that matter most.
        let span = match random.below(2) {
            0 => bytes.min(16 << 10),
            _ => bytes,
        };
        let first = random.below(span as u64 / 8) as usize;
        let value = match random.below(4) {
            0 => 0,
            1 => u64::MAX,
            2 => random.below(64),
            _ => random.next_u64(),
        };
        let words = match self {
            Self::Bursts => 1 + random.below(64) as usize,
            Self::Words | Self::Flips => 1,
        };
        for index in first..(first + words).min(bytes / 8) {
            let word = std::ptr::with_exposed_provenance_mut::<u64>(mapping.start + index * 8);
            // SAFETY: an aligned word within a mapping that this process may write (the caller's
            // promise). Others may write it at the same time: it is shared memory, which no
            // reference of this process covers but those to atomics.
            unsafe {
                word.write_volatile(match self {
                    Self::Flips => word.read_volatile() ^ 1 << random.below(64),
                    Self::Words | Self::Bursts => value,
                });
            }
        }
    }
}
