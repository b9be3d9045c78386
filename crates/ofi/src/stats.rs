//! What an endpoint has moved, said when it closes: proof that it was this provider which did.

use core::cell::Cell;
use core::fmt::Write as _;
use std::io::Write as _;

use limic::Endpoint as _;

use crate::endpoint::Endpoint;

/// The variable that asks for it: anything but 0 prints a line per endpoint to the standard error.
const VARIABLE: &str = "LIMIC_FI_STATS";

/// What limic's own counters do not say.
#[derive(Default)]
pub(crate) struct Tally {
    reads: Cell<(u64, u64)>,
    writes: Cell<(u64, u64)>,
    atomics: Cell<u64>,
    printed: Cell<bool>,
}

impl Tally {
    /// A read or write of so many bytes of a peer's memory.
    pub(crate) fn accessed(&self, write: bool, bytes: usize) {
        let cell = if write { &self.writes } else { &self.reads };
        let (count, sum) = cell.get();
        cell.set((count + 1, sum + bytes as u64));
    }

    /// An atomic operation on a peer's memory.
    pub(crate) fn did_atomic(&self) {
        self.atomics.set(self.atomics.get() + 1);
    }

    /// Prints the line if it is wanted, once.
    pub(crate) fn print(&self, endpoint: &Endpoint) {
        if std::env::var_os(VARIABLE).is_none_or(|value| value == "0" || value.is_empty()) {
            return;
        }
        if self.printed.replace(true) {
            return;
        }
        let counters = endpoint.limic.counters();
        let sum = |peers: &[(limic::Peer, limic::counters::Traffic)]| {
            peers
                .iter()
                .fold((0, 0), |(messages, bytes), (_, traffic)| {
                    (messages + traffic.messages, bytes + traffic.bytes)
                })
        };
        let (sent, received) = (sum(&counters.sent), sum(&counters.received));
        let ((reads, read), (writes, written)) = (self.reads.get(), self.writes.get());
        let mut line = format!(
            "limic-fi: process {}: sent {} messages {} bytes, received {} messages {} bytes, read {reads} times {read} \
             bytes, wrote {writes} times {written} bytes, {} atomics; paths:",
            std::process::id(),
            sent.0,
            sent.1,
            received.0,
            received.1,
            self.atomics.get(),
        );
        for (path, traffic) in counters.paths.iter().filter(|(_, t)| t.messages > 0) {
            // Writing to a string cannot fail.
            let _ = write!(line, " {path} {}", traffic.messages);
        }
        line.push('\n');
        // In one piece, since all ranks of a job write there. There is nobody to tell if it fails.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}
