//! A host of several: what its job reports to the launcher, and does as the launcher says.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use super::super::RunError;
use super::super::outcome::Ending;
use super::super::output::Sink;
use super::super::wire::{Order, Report, Wire};
use super::{Control, Job, Phase};

/// Bytes of a stream that are on their way to the launcher at most: until it has written them, the
/// ranks' pipes fill, and nothing else waits.
const WINDOW: usize = 1 << 18;

/// Bytes of a stream in one report.
const MOST_OUTPUT: usize = 1 << 16;

/// How long a launcher that reads nothing is waited for at the end.
const PATIENCE: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// The way to the launcher.
#[derive(Debug)]
pub(super) struct Launcher {
    /// None once it is gone.
    wire: Option<Wire>,
    /// Bytes of both streams that it has not written yet.
    sent: [usize; 2],
    /// The standard input of rank 0, if it is on this host and reads.
    input: Option<OwnedFd>,
    /// What rank 0 has not read yet.
    unread: Vec<u8>,
    /// Nothing comes behind that.
    is_last: bool,
    /// The launcher was told that nothing comes from here any more.
    has_ended: bool,
}

impl Launcher {
    pub(super) fn new(wire: Wire) -> Self {
        Self {
            wire: Some(wire),
            sent: [0; 2],
            input: None,
            unread: Vec::new(),
            is_last: false,
            has_ended: false,
        }
    }

    pub(super) fn report(&mut self, report: &Report) {
        if let Some(wire) = &mut self.wire {
            wire.send(report);
        }
    }

    /// The ranks could not be started.
    pub(super) fn fail(&mut self, error: &RunError) {
        self.report(&Report::Failed(error.to_string(), error.exit_code()));
    }

    pub(super) fn rank_ended(&mut self, rank: u32, pid: i32, ending: Ending) {
        self.report(&Report::Ended(rank, pid, ending));
    }

    /// No process is left.
    pub(super) fn over(&mut self) {
        self.report(&Report::Over);
    }

    /// All that the ranks printed was sent.
    fn last(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.report(&Report::Last);
        }
    }

    /// Sends what is left, before any rank runs.
    pub(super) fn finish(&mut self) {
        self.over();
        self.last();
        while let Some(wire) = self.wire.as_mut().filter(|wire| wire.pending()) {
            let [_, (fd, flags)] = wire.interests(false);
            match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], Some(&PATIENCE)) {
                Ok(0) => return,
                _ => wire.flush(),
            }
        }
    }

    /// Rank 0 reads from the other end of this.
    pub(super) fn feed(&mut self, input: Option<OwnedFd>) {
        self.input = input;
    }

    /// Whether reports wait to be sent.
    pub(super) fn pending(&self) -> bool {
        self.wire.as_ref().is_some_and(Wire::pending)
    }

    pub(super) fn interests(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let wire = self.wire.as_ref().map(|wire| wire.interests(true));
        wire.into_iter().flatten()
    }

    /// The input of rank 0, if it is to be polled for room.
    pub(super) fn feeding(&self) -> Option<BorrowedFd<'_>> {
        let input = self.input.as_ref().filter(|_| !self.unread.is_empty());
        input.map(AsFd::as_fd)
    }

    /// Gives rank 0 what it takes.
    fn feed_rank(&mut self) {
        let Some(input) = &self.input else {
            self.unread.clear();
            return;
        };
        let had_some = !self.unread.is_empty();
        while !self.unread.is_empty() {
            match rustix::io::write(input, &self.unread) {
                Ok(count) => drop(self.unread.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.input = None;
                    self.unread.clear();
                    self.report(&Report::Refused);
                    return;
                }
            }
        }
        if self.is_last {
            self.input = None;
        } else if had_some {
            self.report(&Report::Taken);
        }
    }

    fn relay(&mut self, stream: usize, sink: &mut Sink) {
        let Some(wire) = &mut self.wire else {
            sink.give_up();
            return;
        };
        while sink.pending() && self.sent[stream] < WINDOW && wire.has_room() {
            let bytes = sink.take(MOST_OUTPUT);
            self.sent[stream] += bytes.len();
            wire.send(&Report::Output(stream, bytes));
        }
    }
}

impl Job {
    /// Whether what ranks say over PMI can be handed on.
    pub(super) fn takes_lines(&self) -> bool {
        match &self.control {
            Control::Server(_) => true,
            Control::Launcher(launcher) => launcher.wire.as_ref().is_none_or(Wire::has_room),
        }
    }

    /// Sends what ranks printed to the launcher.
    pub(super) fn relay_output(&mut self) {
        if let Control::Launcher(launcher) = &mut self.control {
            for (stream, sink) in self.sinks.iter_mut().enumerate() {
                launcher.relay(stream, sink);
            }
            if self.phase == Phase::Over && !self.sinks.iter().any(Sink::pending) {
                launcher.last();
            }
        }
    }

    pub(super) fn feed(&mut self) {
        if let Control::Launcher(launcher) = &mut self.control {
            launcher.feed_rank();
        }
    }

    /// Does what the launcher says. Once it is gone, the ranks end.
    pub(super) fn serve_launcher(&mut self) {
        let Control::Launcher(launcher) = &mut self.control else {
            return;
        };
        let Some(wire) = &mut launcher.wire else {
            return;
        };
        wire.flush();
        let mut is_open = wire.read();
        let mut orders = Vec::new();
        loop {
            match wire.next() {
                Ok(Some(order)) => orders.push(order),
                Ok(None) => break,
                Err(_) => {
                    is_open = false;
                    break;
                }
            }
        }
        if !is_open {
            launcher.wire = None;
        }
        for order in orders {
            self.obey(order);
        }
        if !is_open {
            match self.phase {
                Phase::Running => self.end(),
                Phase::Over => {}
                _ => self.kill(),
            }
        }
    }

    fn obey(&mut self, order: Order) {
        let Control::Launcher(launcher) = &mut self.control else {
            return;
        };
        match order {
            // There was one already.
            Order::Start(_) => {}
            Order::Answer(rank, line) => self.answer(rank, line),
            Order::Input(bytes) => {
                launcher.is_last = bytes.is_empty();
                launcher.unread.extend_from_slice(&bytes);
                launcher.feed_rank();
            }
            Order::Written(stream, count) => {
                if let Some(sent) = launcher.sent.get_mut(stream) {
                    *sent = sent.saturating_sub(count);
                }
            }
            Order::Unread(stream) => {
                if let Some(sink) = self.sinks.get_mut(stream) {
                    sink.give_up();
                }
            }
            Order::Signal(number) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    self.pass_on(signal, false);
                }
            }
            Order::End => self.end(),
            Order::Kill => self.kill(),
        }
    }
}
