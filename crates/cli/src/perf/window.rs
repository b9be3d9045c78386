//! Windows of non-blocking messages: bandwidth, both directions, message rate, and many pairs.

use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use limic::{Endpoint, ScopedRecv, ScopedSend};
use limic_measure::content::{LINE, Wrong, fill, rewrite, seed, verify, verify_length};

use super::args::{Pattern, Reuse};
use super::buffers::Buffers;
use super::lane::Team;
use super::pattern::{ANSWER, DATA, Start, Stopped, WINDOW, Work};

/// Where messages have no buffers of their own, so many bytes are received into side by side: they
/// stay in a core's own cache, as with benchmarks that receive all into one buffer.
const SHARED_BYTES: usize = 256 << 10;

/// Memory that is gone through before any of it is used again, without reuse: more than a core's
/// share of any cache.
const COLD_BYTES: usize = 64 << 20;

/// Which memory the messages of a window use.
#[derive(Debug, Clone, Copy)]
struct Layout {
    bytes: usize,
    /// From one message of a window to the next, in the memory to send from: 0 if they share it.
    stride: usize,
    /// Windows until the memory is used again.
    windows: u64,
    /// Messages that are received side by side.
    deep: usize,
    /// Whether each window is filled anew before its clock starts.
    refill: bool,
    /// Whether a word of each cache line of a message is written before it is sent.
    rewrite: bool,
}

/// What is left to send of a window.
#[derive(Debug)]
enum Messages<'a> {
    /// All are this one.
    Shared(&'a [u8]),
    Own(&'a mut [u8]),
}

impl Layout {
    fn of(work: &Work) -> Self {
        let bytes = work.bytes;
        let whole = (bytes * WINDOW).max(1);
        let side_by_side = (SHARED_BYTES / bytes.max(1)).clamp(2, WINDOW);
        let (stride, windows, deep) = match work.reuse {
            // What is under way must not be written.
            None if work.rewrite => (bytes.next_multiple_of(LINE), 1, side_by_side),
            None => (0, 1, side_by_side),
            Some(Reuse::On) => (bytes, 1, WINDOW),
            Some(Reuse::Off) => (bytes, (COLD_BYTES / whole).max(1) as u64, WINDOW),
        };
        Self {
            bytes,
            stride,
            windows,
            deep,
            refill: work.check || work.reuse == Some(Reuse::On),
            rewrite: work.rewrite,
        }
    }

    fn send_bytes(&self) -> usize {
        match self.stride {
            0 => self.bytes,
            stride => stride * WINDOW * self.windows as usize,
        }
    }

    fn receive_bytes(&self) -> usize {
        self.bytes * self.deep * self.windows as usize
    }

    /// The window's part of the memory to send from.
    fn sends<'a>(&self, memory: &'a mut [u8], window: u64) -> &'a mut [u8] {
        let len = self.send_bytes() / self.windows as usize;
        &mut memory[(window % self.windows) as usize * len..][..len]
    }

    /// The window's part of the memory to receive into.
    fn receives<'a>(&self, memory: &'a mut [u8], window: u64) -> &'a mut [u8] {
        let len = self.bytes * self.deep;
        &mut memory[(window % self.windows) as usize * len..][..len]
    }

    /// Fills what a window sends.
    fn fill(&self, memory: &mut [u8], rank: u32, window: u64) {
        let messages = if self.stride == 0 { 1 } else { WINDOW };
        for index in 0..messages {
            let message = &mut memory[index * self.stride..][..self.bytes];
            fill(message, seed(rank, window, index));
        }
    }

    /// The messages of a window's part of the memory.
    fn messages<'a>(&self, memory: &'a mut [u8]) -> Messages<'a> {
        match self.stride {
            0 => Messages::Shared(memory),
            _ => Messages::Own(memory),
        }
    }

    /// The next message to be sent, written anew if that is asked for.
    #[inline(always)]
    fn next<'a>(&self, messages: &mut Messages<'a>, seed: u64) -> &'a [u8] {
        let rest = match messages {
            Messages::Shared(message) => return message,
            Messages::Own(rest) => rest,
        };
        let (message, tail) = std::mem::take(rest).split_at_mut(self.stride);
        *rest = tail;
        let message = &mut message[..self.bytes];
        if self.rewrite {
            rewrite(message, seed);
        }
        message
    }

    /// Checks the messages of a window from `first` on.
    fn verify(&self, memory: &[u8], from: u32, window: u64, first: usize) -> Result<(), Wrong> {
        for index in first..(first + self.deep).min(WINDOW) {
            let message = &memory[(index - first) * self.bytes..][..self.bytes];
            let filled_as = if self.stride == 0 { 0 } else { index };
            verify(message, from, seed(from, window, filled_as))?;
        }
        Ok(())
    }
}

/// Times windows. The sender's clock runs from the first send of a window to its answer.
pub(super) fn run(
    work: &Work,
    team: &Team<impl Endpoint>,
    buffers: &mut Buffers,
    start: Start<'_>,
) -> Result<Duration, Stopped> {
    let layout = Layout::of(work);
    let both = work.pattern == Pattern::Bibandwidth;
    let sends = team.first || both;
    let receives = !team.first || both;
    let out = buffers
        .send
        .take(if sends { layout.send_bytes() } else { 0 })?;
    let into = buffers
        .receive
        .take(if receives { layout.receive_bytes() } else { 0 })?;
    if sends && !team.loans {
        // The send buffers are written at the beginning, once.
        for window in 0..layout.windows {
            layout.fill(layout.sends(out, window), team.rank, window);
        }
    }
    let windows = |count| match (team.loans, both) {
        _ if team.region.is_some() => regions(work, &layout, team, out, into, count),
        (true, _) => loans(work, team, count),
        (false, true) => exchange(work, &layout, team, out, into, count),
        (false, false) if team.first => send(&layout, team, out, count),
        (false, false) => receive(work, &layout, team, into, count),
    };
    let mut windows = windows;
    windows(work.warmup)?;
    start()?;
    let time = windows(work.iterations)?;
    Ok(if sends { time } else { Duration::ZERO })
}

fn send(
    layout: &Layout,
    team: &Team<impl Endpoint>,
    memory: &mut [u8],
    count: u64,
) -> Result<Duration, Stopped> {
    let mut time = Duration::ZERO;
    for window in 0..count {
        let out = layout.sends(memory, window);
        if layout.refill {
            layout.fill(out, team.rank, window);
        }
        let mut messages = layout.messages(out);
        let begin = Instant::now();
        team.endpoint.scope(|scope| {
            let mut requests = ArrayVec::<_, WINDOW>::new();
            for index in 0..WINDOW {
                let message = layout.next(&mut messages, seed(team.rank, window, index));
                requests.push(scope.isend(team.partner, DATA, message)?);
            }
            wait_for(&mut requests)
        })?;
        team.endpoint.recv((team.partner, ANSWER), &mut [])?;
        time += begin.elapsed();
    }
    Ok(time)
}

/// Waits for sends, each taken out of its place: an array that is moved as a whole costs as much as
/// some messages.
#[inline(always)]
fn wait_for<E: Endpoint>(requests: &mut ArrayVec<ScopedSend<'_, E>, WINDOW>) -> limic::Result<()> {
    for request in requests.drain(..) {
        request.wait()?;
    }
    Ok(())
}

/// The same for receives, with the lengths of what came.
#[inline(always)]
fn learn_lengths<E: Endpoint>(
    requests: &mut ArrayVec<ScopedRecv<'_, E>, WINDOW>,
    lengths: &mut [u64],
) -> limic::Result<()> {
    for (request, length) in requests.drain(..).zip(lengths) {
        *length = request.wait()?.0.len;
    }
    Ok(())
}

fn receive(
    work: &Work,
    layout: &Layout,
    team: &Team<impl Endpoint>,
    memory: &mut [u8],
    count: u64,
) -> Result<Duration, Stopped> {
    for window in 0..count {
        let into = layout.receives(memory, window);
        for first in (0..WINDOW).step_by(layout.deep) {
            let deep = layout.deep.min(WINDOW - first);
            let mut lengths = [0; WINDOW];
            team.endpoint.scope(|scope| {
                let mut rest = &mut *into;
                let mut requests = ArrayVec::<_, WINDOW>::new();
                for _ in 0..deep {
                    let (message, tail) = rest.split_at_mut(layout.bytes);
                    rest = tail;
                    requests.push(scope.irecv((team.partner, DATA), message)?);
                }
                learn_lengths(&mut requests, &mut lengths)
            })?;
            if work.check {
                check(layout, team, into, &lengths[..deep], window, first)?;
            }
        }
        team.endpoint.send(team.partner, ANSWER, &[])?;
    }
    Ok(Duration::ZERO)
}

/// Both directions at once. The receives of one side answer the sends of the other.
fn exchange(
    work: &Work,
    layout: &Layout,
    team: &Team<impl Endpoint>,
    out: &mut [u8],
    into: &mut [u8],
    count: u64,
) -> Result<Duration, Stopped> {
    let mut time = Duration::ZERO;
    for window in 0..count {
        let out = layout.sends(out, window);
        if layout.refill {
            layout.fill(out, team.rank, window);
        }
        let mut messages = layout.messages(out);
        let into = layout.receives(into, window);
        let begin = Instant::now();
        for first in (0..WINDOW).step_by(layout.deep) {
            let deep = layout.deep.min(WINDOW - first);
            let mut lengths = [0; WINDOW];
            team.endpoint.scope(|scope| {
                let mut rest = &mut *into;
                let mut receives = ArrayVec::<_, WINDOW>::new();
                let mut sends = ArrayVec::<_, WINDOW>::new();
                for _ in 0..deep {
                    let (message, tail) = rest.split_at_mut(layout.bytes);
                    rest = tail;
                    receives.push(scope.irecv((team.partner, DATA), message)?);
                }
                for index in first..first + deep {
                    let message = layout.next(&mut messages, seed(team.rank, window, index));
                    sends.push(scope.isend(team.partner, DATA, message)?);
                }
                learn_lengths(&mut receives, &mut lengths)?;
                wait_for(&mut sends)
            })?;
            if work.check {
                check(layout, team, into, &lengths[..deep], window, first)?;
            }
        }
        time += begin.elapsed();
    }
    Ok(time)
}

fn check(
    layout: &Layout,
    team: &Team<impl Endpoint>,
    into: &[u8],
    lengths: &[u64],
    window: u64,
    first: usize,
) -> Result<(), Wrong> {
    for length in lengths {
        verify_length(*length, team.partner_rank, layout.bytes)?;
    }
    layout.verify(into, team.partner_rank, window, first)
}

/// Windows of reads from a region of the partner, each told by an empty message.
fn regions(
    work: &Work,
    layout: &Layout,
    team: &Team<impl Endpoint>,
    out: &mut [u8],
    into: &mut [u8],
    count: u64,
) -> Result<Duration, Stopped> {
    let mut time = Duration::ZERO;
    for window in 0..count {
        let Some(region) = &team.region else {
            return Ok(time);
        };
        if team.first {
            let memory = layout.sends(out, window);
            if layout.refill {
                layout.fill(memory, team.rank, window);
                region.put(&memory[..layout.bytes])?;
            }
            let begin = Instant::now();
            team.endpoint.send(team.partner, DATA, &[])?;
            team.endpoint.recv((team.partner, ANSWER), &mut [])?;
            time += begin.elapsed();
            continue;
        }
        team.endpoint.recv((team.partner, DATA), &mut [])?;
        let message = &mut into[..layout.bytes];
        for _ in 0..WINDOW {
            region.fetch(message)?;
        }
        if work.check {
            let seed = seed(team.partner_rank, window, 0);
            verify(message, team.partner_rank, seed)?;
        }
        team.endpoint.send(team.partner, ANSWER, &[])?;
    }
    Ok(time)
}

/// Windows of loans: buffers in shared memory that change hands.
fn loans(work: &Work, team: &Team<impl Endpoint>, count: u64) -> Result<Duration, Stopped> {
    let both = work.pattern == Pattern::Bibandwidth;
    let from = team.partner_rank;
    let begin = Instant::now();
    for window in 0..count {
        for index in 0..WINDOW {
            if team.first || both {
                let mut loan = team.endpoint.loan(work.bytes)?;
                work.write(&mut loan, seed(team.rank, window, index));
                loan.send(team.partner, DATA)?;
            }
            if !team.first || both {
                let loan = team.endpoint.recv_loaned((team.partner, DATA))?;
                if work.check {
                    verify_length(loan.status().len, from, work.bytes)?;
                    verify(&loan.to_vec(), from, seed(from, window, index))?;
                }
            }
        }
        if team.first {
            team.endpoint.recv((team.partner, ANSWER), &mut [])?;
        } else {
            team.endpoint.send(team.partner, ANSWER, &[])?;
        }
    }
    Ok(begin.elapsed())
}
