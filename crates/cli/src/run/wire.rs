//! What the launcher and a host of its job say to each other, over the standard input and output of
//! the program that logged in there. Both are of one version, which the greeting makes sure of.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::binding;
use super::outcome::Ending;

/// What a host says first, on a line of its own.
pub(super) const GREETING: &str = concat!("limic host ", env!("CARGO_PKG_VERSION"));

/// Far longer than any message: what says so of itself is no message.
const LONGEST: usize = 1 << 24;

/// As long as so many bytes wait to be sent, the launcher reads no reports, and a host no lines of
/// its ranks, that could bring more of them. A host always reads orders: one of the two goes on.
const MOST_UNSENT: usize = 1 << 20;

/// What the launcher says to a host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The first one.
    Start(Box<Start>),
    /// The answer of PMI to a rank.
    Answer(u32, Vec<u8>),
    /// Standard input of rank 0; no bytes are its end.
    Input(Vec<u8>),
    /// The launcher wrote so many bytes of the host's standard output or error.
    Written(usize, usize),
    /// Nobody reads the launcher's standard output or error any more.
    Unread(usize),
    /// A signal that is passed on to the ranks, by number.
    Signal(i32),
    /// All ranks end, within the time of grace.
    End,
    /// All ranks end at once.
    Kill,
}

/// What a host says to the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// A line of PMI from a rank.
    Line(u32, Vec<u8>),
    /// A rank closed its end of PMI.
    Left(u32),
    /// What ranks printed on standard output (0) or error (1).
    Output(usize, Vec<u8>),
    /// Rank 0 has the input that was sent, and takes more.
    Taken,
    /// Rank 0 takes no input any more.
    Refused,
    /// A rank ended: its process number, and how.
    Ended(u32, i32, Ending),
    /// The ranks could not be started: why, and the exit code for that.
    Failed(String, u8),
    /// No process of the job is left on this host. What its ranks printed may follow.
    Over,
    /// All that they printed was sent: nothing follows.
    Last,
}

/// What a host has to know to start its ranks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Start {
    /// The job's name.
    pub(super) job: String,
    /// The number of the host in the job.
    pub(super) number: usize,
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) size: u32,
    /// Its name is bytes, as those of the others here.
    pub(super) directory: OsString,
    /// Variables of the ranks beside those of the host.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) program: Vec<OsString>,
    pub(super) bind: Option<binding::Policy>,
    pub(super) label: bool,
    pub(super) grace: Duration,
}

/// One end of the connection between launcher and host. Nothing here waits.
#[derive(Debug)]
pub(super) struct Wire {
    input: OwnedFd,
    output: OwnedFd,
    received: Vec<u8>,
    unsent: Vec<u8>,
    /// Nobody reads what is sent.
    broken: bool,
}

impl Wire {
    /// Reads from `input` and writes to `output`, both of which it makes non-blocking.
    pub(super) fn new(input: OwnedFd, output: OwnedFd) -> Result<Self, Errno> {
        rustix::io::ioctl_fionbio(&input, true)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        Ok(Self {
            input,
            output,
            received: Vec::new(),
            unsent: Vec::new(),
            broken: false,
        })
    }

    /// Its two descriptors, and what to poll for on each; of the first, only if it is to be read.
    pub(super) fn interests(&self, is_read: bool) -> [(BorrowedFd<'_>, PollFlags); 2] {
        let wanted = |flag, is_wanted| match is_wanted {
            true => flag,
            false => PollFlags::empty(),
        };
        [
            (self.input.as_fd(), wanted(PollFlags::IN, is_read)),
            (self.output.as_fd(), wanted(PollFlags::OUT, self.pending())),
        ]
    }

    /// Whether bytes wait to be sent.
    pub(super) fn pending(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Whether messages may be taken that bring others with them.
    pub(super) fn has_room(&self) -> bool {
        self.unsent.len() < MOST_UNSENT
    }

    /// Sends a line of text.
    pub(super) fn greet(&mut self, text: &str) {
        self.unsent.extend_from_slice(text.as_bytes());
        self.unsent.push(b'\n');
        self.flush();
    }

    /// The first line of text, once it is here whole, or what there is of it if it grows too long.
    pub(super) fn greeting(&mut self) -> Option<String> {
        let most = 4 * GREETING.len();
        let end = self.received.iter().position(|&byte| byte == b'\n');
        let len = end.or_else(|| (self.received.len() > most).then_some(most))?;
        let line: Vec<u8> = self.received.drain(..len).collect();
        self.received.drain(..usize::from(end.is_some()));
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Sends a message, or keeps it to be sent.
    pub(super) fn send(&mut self, message: &impl Serialize) {
        let Ok(bytes) = postcard::to_allocvec(message) else {
            // Not of the messages that there are. The other end would miss it: both hear of an end.
            self.broken = true;
            self.shut();
            return;
        };
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.unsent.extend_from_slice(&len.to_le_bytes());
        self.unsent.extend_from_slice(&bytes);
        self.flush();
    }

    /// Sends what the other end takes.
    pub(super) fn flush(&mut self) {
        while self.pending() {
            match rustix::io::write(&self.output, &self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.broken = true,
            }
            if self.broken {
                self.unsent.clear();
            }
        }
    }

    /// Nothing goes any more, and nothing comes but what is here already, and the end. Both
    /// descriptors are of one socket.
    pub(super) fn shut(&self) {
        // Of a connected pair of sockets it cannot fail.
        let _shut = rustix::net::shutdown(&self.input, rustix::net::Shutdown::Both);
    }

    /// Reads what is there, one piece at a time. False at the end.
    pub(super) fn read(&mut self) -> bool {
        let mut bytes = [0; 1 << 16];
        match rustix::io::read(&self.input, &mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.received.extend_from_slice(&bytes[..count]);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// The next message that is here whole.
    pub(super) fn next<M: DeserializeOwned>(&mut self) -> Result<Option<M>, NoMessage> {
        let Some((len, rest)) = self.received.split_first_chunk() else {
            return Ok(None);
        };
        let len = u32::from_le_bytes(*len) as usize;
        if len > LONGEST {
            return Err(NoMessage);
        }
        let Some(bytes) = rest.get(..len) else {
            return Ok(None);
        };
        let message = postcard::from_bytes(bytes).map_err(|_| NoMessage)?;
        self.received.drain(..4 + len);
        Ok(Some(message))
    }
}

/// The other end sent something that is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoMessage;

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn pair() -> [Wire; 2] {
        let (a, b) = std::os::unix::net::UnixStream::pair().expect("two sockets");
        [a, b].map(|end| {
            let copy = end.try_clone().expect("a descriptor");
            Wire::new(end.into(), copy.into()).expect("sockets")
        })
    }

    #[test]
    fn messages_come_whole_and_in_order_however_they_are_cut() {
        let [mut one, mut other] = pair();
        one.greet(GREETING);
        let long = vec![7; 1 << 20];
        one.send(&Report::Output(1, long.clone()));
        one.send(&Report::Over);
        let mut came = Vec::new();
        let mut greeting = None;
        while came.len() < 2 {
            assert!(other.read());
            greeting = greeting.or_else(|| other.greeting());
            while let Some(report) = other.next::<Report>().expect("messages") {
                came.push(report);
            }
            one.flush();
        }
        assert_eq!(greeting.as_deref(), Some(GREETING));
        assert!(matches!(&came[0], Report::Output(1, bytes) if *bytes == long));
        assert!(matches!(came[1], Report::Over));
        drop(one);
        assert!(!other.read());
    }

    #[test]
    fn a_message_that_cannot_be_sent_ends_the_connection() {
        let name = OsString::from_vec(vec![0xff]);
        let [mut one, mut other] = pair();
        one.send(&std::path::PathBuf::from(&name));
        assert!(!one.read() && !other.read());
        let [mut one, mut other] = pair();
        one.send(&name);
        assert!(other.read());
        assert_eq!(other.next(), Ok(Some(name)));
    }

    #[test]
    fn what_a_shell_prints_is_no_greeting_and_no_message() {
        let [mut one, mut other] = pair();
        one.greet("Welcome to node2, user!");
        assert!(other.read());
        assert_eq!(other.greeting().as_deref(), Some("Welcome to node2, user!"));
        one.greet(&"x".repeat(10));
        assert!(other.read());
        assert!(other.next::<Report>().is_err());
    }
}
