//! What limic's seams call.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::Location;

use libc::iovec;
use limic_shm::control::PidfdError;
use limic_shm::segment::{Areas, OwnSegment};
use limic_shm::system::{Call, System};
use rustix::io::Errno;

use crate::schedule::{give_way, is_open};
use crate::sim::{self, Sim, State};

/// Endpoints look around so often while they sleep, so that a peer that meddles with their wake-up
/// costs time alone. Among honest processes the simulator leaves that out: a wake-up that is lost
/// has to show.
const GUARD_NS: u64 = 250_000_000;

/// Bytes of a copy that only tells whether copies are possible.
const PROBE: usize = 8;

/// What a yield takes: others may use the processor meanwhile.
const YIELD_NS: u64 = 20_000;

/// No endpoint has so many descriptors, whatever its few peers do.
const MOST_DESCRIPTORS: usize = 250;

/// The simulated system.
struct Simulated;

/// From now on this thread's endpoints live in the run that is under way.
pub(crate) fn install() {
    limic_shm::system::install(Some(&Simulated));
    // SAFETY: `copy` lets the kernel do the work, with the lists as they are or shorter.
    unsafe { limic_copy::simulated::install(Some(copy)) };
}

impl System for Simulated {
    fn access(&self, at: &'static Location<'static>) {
        if sim::with(|sim| sim.access(at)) {
            give_way();
        }
    }

    fn yield_now(&self) {
        let gives_way = sim::with(|sim| {
            sim.now += YIELD_NS;
            sim.access("a yield") || sim.rng.bool()
        });
        if gives_way {
            give_way();
        }
    }

    fn deadline(&self, timeout: Option<u64>) -> Option<u64> {
        sim::with(|sim| {
            let timeout = match timeout {
                Some(timeout) if sim.guarded => Some(timeout.min(GUARD_NS)),
                timeout => timeout,
            };
            timeout.and_then(|timeout| sim.now.checked_add(timeout))
        })
    }

    fn sleep(&self, until: Option<u64>) -> bool {
        let over = sim::with(|sim| {
            let over = until.is_some_and(|until| until <= sim.now);
            if let (false, Some(current)) = (over, sim.current) {
                let seen = sim.happened;
                sim.processes[current].state = State::Asleep { until, seen };
            }
            over
        });
        if !over {
            give_way();
        }
        sim::with(|sim| {
            if sim.is_child {
                // There is nobody else to have a turn meanwhile.
                sim.now = sim.now.max(until.unwrap_or(0));
            }
            until.is_none_or(|until| until > sim.now)
        })
    }

    fn now_ns(&self) -> u64 {
        if sim::with(|sim| sim.access("the clock")) {
            give_way();
        }
        sim::with(|sim| sim.now)
    }

    fn process_id(&self) -> u32 {
        // A child's number is nobody else's.
        sim::with(|sim| match sim.current {
            Some(current) if !sim.is_child => Sim::process_id(current),
            _ => 0,
        })
    }

    fn random(&self) -> u64 {
        sim::with(|sim| sim.rng.u64(..))
    }

    fn call(&self, call: Call) -> Result<(), Errno> {
        if sim::with(|sim| sim.access("a call")) {
            give_way();
        }
        sim::with(|sim| sim.call(call))
    }

    fn opened(&self, fd: RawFd) {
        sim::with(|sim| {
            let Some(current) = sim.current else { return };
            if let Some(before) = sim.owners.insert(fd, current) {
                // It has closed it since.
                sim.processes[before].descriptors.remove(&fd);
            }
            let process = &mut sim.processes[current];
            process.descriptors.insert(fd);
            // Not all are open: nobody tells that one was closed.
            if !process.hostile && process.descriptors.len() > MOST_DESCRIPTORS {
                process.descriptors.retain(|fd| is_open(*fd));
                if process.descriptors.len() > MOST_DESCRIPTORS {
                    sim.fail("an endpoint has more descriptors than it may");
                }
            }
        });
    }

    fn mapped(&self, base: usize, len: usize, writable: bool) {
        sim::with(|sim| {
            if let Some(current) = sim.current {
                let mappings = &mut sim.processes[current].mappings;
                mappings.insert(base, (len, writable));
            }
        });
    }

    fn unmapped(&self, base: usize) {
        sim::with(|sim| {
            for process in &mut sim.processes {
                process.mappings.remove(&base);
            }
        });
    }

    fn segment(&self, areas: &Areas) {
        sim::with(|sim| {
            let Some(current) = sim.current else { return };
            if sim.processes[current].hostile {
                sim.processes[current].areas.push(areas.clone());
            }
        });
    }

    fn own_segment(&self, segment: &OwnSegment) {
        sim::with(|sim| {
            let Some(current) = sim.current else { return };
            if sim.processes[current].hostile {
                sim.processes[current].own = Some((segment.access(), segment.split_out()));
            }
        });
    }

    fn listens(&self, id: u64) {
        sim::with(|sim| {
            if let Some(current) = sim.current {
                sim.listeners.insert(id, current);
            }
        });
    }

    fn listener(&self, id: u64) -> Option<u32> {
        sim::with(|sim| sim.listeners.get(&id).copied().map(Sim::process_id))
    }

    fn pidfd(&self, process: u32) -> Result<OwnedFd, PidfdError> {
        let life = sim::with(|sim| {
            let process = Sim::process_of(process).and_then(|one| sim.processes.get(one));
            match process {
                Some(process) if !process.is_over() => process.life.try_clone().ok(),
                _ => None,
            }
        });
        let life = life.ok_or(PidfdError::Dead)?;
        self.opened(life.as_raw_fd());
        Ok(life)
    }
}

/// `process_vm_readv` and `process_vm_writev` of a simulated process.
fn copy(write: bool, pid: i32, local: &[iovec], remote: &[iovec]) -> Result<usize, i32> {
    if sim::with(|sim| sim.access("a copy")) {
        give_way();
    }
    let total: usize = local.iter().map(|one| one.iov_len).sum();
    let process = u32::try_from(pid).ok().and_then(Sim::process_of);
    let most = sim::with(|sim| {
        let Some(process) = process.filter(|one| *one < sim.processes.len()) else {
            return Err(libc::ESRCH);
        };
        if sim.processes[process].is_over() {
            return Err(libc::ESRCH);
        }
        if write && !sim.may_write(process, remote) {
            return Err(libc::EFAULT);
        }
        if !write && !sim.may_fill(local) {
            return Err(libc::EFAULT);
        }
        if total <= PROBE || !sim.chance(sim.faults.copy) {
            return Ok(total);
        }
        let (what, answer) = match sim.rng.u32(0..8) {
            0 => ("copy refused", Err(libc::EPERM)),
            _ => ("copy short", Ok(sim.rng.usize(1..total))),
        };
        sim.counts.fault(what);
        answer
    })?;
    // In two steps, between which others may have their turn.
    let half = sim::with(|sim| sim.rng.usize(0..=most));
    let first = part(write, local, remote, 0, half)?;
    if first < half || half == most {
        return Ok(first);
    }
    if sim::with(|sim| sim.access("the middle of a copy")) {
        give_way();
    }
    let over = sim::with(|sim| process.is_none_or(|process| sim.processes[process].is_over()));
    if over {
        return if first == 0 {
            Err(libc::ESRCH)
        } else {
            Ok(first)
        };
    }
    let rest = cut(remote, half, most - half);
    if write && !process.is_some_and(|process| sim::with(|sim| sim.may_write(process, &rest))) {
        return Ok(first);
    }
    match part(write, local, remote, half, most - half) {
        Ok(second) => Ok(first + second),
        Err(errno) if first == 0 => Err(errno),
        Err(_) => Ok(first),
    }
}

/// Copies so many bytes from one place of both lists on.
fn part(
    write: bool,
    local: &[iovec],
    remote: &[iovec],
    from: usize,
    len: usize,
) -> Result<usize, i32> {
    let (local, remote) = (cut(local, from, len), cut(remote, from, len));
    if len == 0 {
        return Ok(0);
    }
    let pid = std::process::id() as i32;
    let (locals, remotes) = (local.len() as u64, remote.len() as u64);
    let done = if write {
        // SAFETY: the caller of the copy says that `local` may be read; where it may write was
        // checked; the kernel checks that there is memory.
        unsafe { libc::process_vm_writev(pid, local.as_ptr(), locals, remote.as_ptr(), remotes, 0) }
    } else {
        // SAFETY: the caller of the copy says that `local` may be written.
        unsafe { libc::process_vm_readv(pid, local.as_ptr(), locals, remote.as_ptr(), remotes, 0) }
    };
    usize::try_from(done).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// So many bytes of a list from one place on.
fn cut(list: &[iovec], mut from: usize, mut len: usize) -> Vec<iovec> {
    let mut cut = Vec::with_capacity(list.len());
    for one in list {
        let skip = from.min(one.iov_len);
        from -= skip;
        let take = (one.iov_len - skip).min(len);
        len -= take;
        if take > 0 {
            cut.push(iovec {
                iov_base: one.iov_base.wrapping_byte_add(skip),
                iov_len: take,
            });
        }
    }
    cut
}

impl Sim {
    /// Whether another process may write there: only where a receive is posted or a region exposed.
    fn may_write(&mut self, process: usize, remote: &[iovec]) -> bool {
        if self.processes[process].fetches {
            return true;
        }
        self.has_rooms(process, remote)
    }

    /// Whether the process that reads out of another one may have the bytes there: only where it
    /// has posted a receive. A few bytes tell whether a copy is possible at all, and lie anywhere.
    fn may_fill(&mut self, local: &[iovec]) -> bool {
        let total: usize = local.iter().map(|one| one.iov_len).sum();
        match self.current {
            Some(process) if total > PROBE && !self.processes[process].hostile => {
                // The last entry is for the word by which the peer is known.
                let bytes = &local[..local.len() - 1];
                self.processes[process].fetches || self.has_rooms(process, bytes)
            }
            _ => true,
        }
    }

    /// Whether memory lies in rooms of a process; if not, the run has failed.
    fn has_rooms(&mut self, process: usize, memory: &[iovec]) -> bool {
        for one in memory {
            let (start, len) = (one.iov_base.addr(), one.iov_len);
            let room = self.processes[process].rooms.range(..=start).next_back();
            let inside = room.is_some_and(|(base, room)| start - base + len <= *room);
            if !inside {
                let doing = &self.processes[process].doing;
                let what = format!(
                    "a copy of {len} bytes to {start:#x} of process {process}, which has posted \
                     nothing there ({doing})"
                );
                self.fail(what);
                return false;
            }
        }
        true
    }
}
