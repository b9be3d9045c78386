//! What ranks print through the launcher, onto one standard output and one standard error: whole
//! lines with `--label`, and else the bytes as they come.
//!
//! Lines are bytes, not text. A reader of the launcher's output that is slow (a pager) slows the
//! ranks down, never the launcher: it writes only what the kernel takes without waiting.

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A line longer than this is cut: memory is bounded, whatever a rank prints.
const MAX_PARTIAL: usize = 1 << 18;

/// Ranks are not read from while this many bytes wait to be written.
const MAX_QUEUED: usize = 1 << 20;

/// After `poll` reported room, a pipe takes this many bytes without waiting (`PIPE_BUF`).
const PIECE: usize = 4096;

const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// The same file by another descriptor. That of a terminal does not wait: it may have room, and not
/// for the whole piece, until somebody reads on. Others who have the file open go on waiting.
pub(super) fn own(fd: impl AsFd) -> std::io::Result<OwnedFd> {
    let fd = fd.as_fd();
    if fd.is_terminal() {
        let mut options = File::options();
        options.write(true);
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        if let Ok(file) = options.open(path) {
            return Ok(file.into());
        }
    }
    fd.try_clone_to_owned()
}

/// Writes one piece of these bytes once there is room; [`Errno::AGAIN`] if there is none in time.
pub(super) fn write_piece(fd: impl AsFd, bytes: &[u8], time: &Timespec) -> Result<usize, Errno> {
    let mut room = [PollFd::new(&fd, PollFlags::OUT)];
    match poll(&mut room, Some(time))? {
        0 => Err(Errno::AGAIN),
        _ => rustix::io::write(fd, &bytes[..bytes.len().min(PIECE)]),
    }
}

/// The launcher's own standard output or error.
#[derive(Debug)]
pub(super) struct Sink {
    /// None on a host of several: the launcher writes what is taken from the queue.
    fd: Option<OwnedFd>,
    queue: Vec<u8>,
    written: usize,
    broken: bool,
}

impl Sink {
    /// Writes to a descriptor of its own.
    pub(super) fn new(fd: impl AsFd) -> std::io::Result<Self> {
        Ok(Self {
            fd: Some(own(fd)?),
            ..Self::relayed()
        })
    }

    /// Keeps what is to be written for [`Self::take`].
    pub(super) fn relayed() -> Self {
        Self {
            fd: None,
            queue: Vec::new(),
            written: 0,
            broken: false,
        }
    }

    /// Adds bytes to those that wait, which are as many as their sender keeps to.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        if !self.broken {
            self.queue.extend_from_slice(bytes);
        }
    }

    /// At most so many of the bytes that wait.
    pub(super) fn take(&mut self, most: usize) -> Vec<u8> {
        let end = self.queue.len().min(self.written + most);
        let taken = self.queue[self.written..end].to_vec();
        self.written = end;
        self.forget_written();
        taken
    }

    /// The descriptor that takes the bytes that wait, if any do.
    pub(super) fn wanted(&self) -> Option<BorrowedFd<'_>> {
        let fd = self.fd.as_ref().filter(|_| self.pending());
        fd.map(AsFd::as_fd)
    }

    /// Whether bytes wait to be written.
    pub(super) fn pending(&self) -> bool {
        self.written < self.queue.len()
    }

    /// Whether ranks may be read from.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() - self.written < MAX_QUEUED
    }

    /// Whether the reader went away: what ranks print has no place to go.
    pub(super) fn broken(&self) -> bool {
        self.broken
    }

    /// Forgets what waits to be written.
    fn discard(&mut self) {
        self.written = self.queue.len();
    }

    /// Nobody reads it any more.
    pub(super) fn give_up(&mut self) {
        self.broken = true;
        self.discard();
    }

    /// Writes one piece if there is room: standard output and error may be one pipe, and the last
    /// room that `poll` has seen for both is used up by one. An error loses what ranks print, and
    /// is no reader that went away.
    pub(super) fn write(&mut self) -> Result<(), Errno> {
        let Some(fd) = &self.fd else { return Ok(()) };
        let result = write_piece(fd, &self.queue[self.written..], &NOW);
        match result {
            Ok(count) => self.written += count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(_) => self.give_up(),
        }
        self.forget_written();
        match result {
            Ok(_) | Err(Errno::PIPE) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn forget_written(&mut self) {
        if !self.pending() || self.written >= MAX_QUEUED {
            drop(self.queue.drain(..self.written));
            self.written = 0;
        }
    }
}

/// The reading end of a rank's output, and the line that it has not finished.
#[derive(Debug)]
pub(super) struct Output {
    pipe: OwnedFd,
    /// What each line begins with. Without it, nothing is cut into lines.
    prefix: Option<String>,
    partial: Vec<u8>,
}

impl Output {
    /// `pipe` is non-blocking. The lines of a rank that is given begin with its number.
    pub(super) fn new(pipe: OwnedFd, label: Option<u32>) -> Self {
        Self {
            pipe,
            prefix: label.map(|rank| format!("[{rank}] ")),
            partial: Vec::new(),
        }
    }

    /// Reads one piece; `Ok(false)` when there is nothing for now, an error when there never will
    /// be: the caller then calls [`Self::finish`].
    pub(super) fn read(&mut self, sink: &mut Sink) -> Result<bool, Errno> {
        let mut bytes = [0; 1 << 14];
        match rustix::io::read(&self.pipe, &mut bytes) {
            Ok(0) => Err(Errno::PIPE),
            Ok(count) => {
                self.feed(&bytes[..count], sink);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Writes out a last line without a line end, with one.
    pub(super) fn finish(mut self, sink: &mut Sink) {
        if !self.partial.is_empty() {
            self.feed(b"\n", sink);
        }
    }

    fn feed(&mut self, bytes: &[u8], sink: &mut Sink) {
        let Some(prefix) = &self.prefix else {
            sink.add(bytes);
            return;
        };
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(piece);
            let whole = self.partial.ends_with(b"\n");
            if whole || self.partial.len() >= MAX_PARTIAL {
                sink.add(prefix.as_bytes());
                sink.add(&self.partial);
                self.partial.clear();
                if !whole {
                    sink.add(b"\n");
                }
            }
        }
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(pieces: &[&[u8]]) -> Vec<u8> {
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        let mut stream = Output::new(pipe, Some(3));
        let mut sink = Sink::new(std::io::stderr()).unwrap();
        for piece in pieces {
            stream.feed(piece, &mut sink);
        }
        stream.finish(&mut sink);
        sink.queue
    }

    #[test]
    fn lines_come_out_whole_whatever_they_hold() {
        assert_eq!(
            labelled(&[b"a", b"b\n\nc\xff\0"]),
            b"[3] ab\n[3] \n[3] c\xff\0\n"
        );
        assert_eq!(labelled(&[]), b"");
        assert_eq!(labelled(&[b"x\n"]), b"[3] x\n");
    }

    #[test]
    fn endless_lines_are_cut() {
        let out = labelled(&[&vec![b'x'; MAX_PARTIAL], b"y\n"]);
        assert_eq!(out.len(), MAX_PARTIAL + 5 + 6);
        assert!(out.ends_with(b"\n[3] y\n"));
    }
}
