//! Turns: how a process gives its own away, and how it ends.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::ptr;

use corosensei::Yielder;
use corosensei::stack::DefaultStack;

use crate::sim::{self, Next, Process, State};

/// Bytes of a process's stack.
const STACK: usize = 1 << 20;

thread_local! {
    /// The way out of the process that has its turn.
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
    /// Stacks of processes that have ended.
    static STACKS: Cell<Vec<DefaultStack>> = const { Cell::new(Vec::new()) };
}

/// A stack for a process.
pub(crate) fn stack() -> DefaultStack {
    let mut stacks = STACKS.take();
    let stack = stacks.pop();
    STACKS.set(stacks);
    stack.unwrap_or_else(|| DefaultStack::new(STACK).expect("memory for a stack"))
}

fn give_back(stack: DefaultStack) {
    let mut stacks = STACKS.take();
    stacks.push(stack);
    STACKS.set(stacks);
}

/// A process has its first turn.
pub(crate) fn enter(yielder: &Yielder<(), ()>) {
    YIELDER.set(yielder);
}

/// The process that has its turn gives it away.
pub(crate) fn give_way() {
    let yielder = YIELDER.get();
    if yielder.is_null() {
        return;
    }
    // SAFETY: it was set by the coroutine that runs, whose yielder lives as long as that; the
    // scheduler sets it to null while none runs.
    unsafe { (*yielder).suspend(()) };
    YIELDER.set(yielder);
}

/// From now on nobody else has a turn: this is a forked child, whose copies of the others are not
/// they. Nothing fails there.
pub(crate) fn is_alone() {
    YIELDER.set(ptr::null());
    sim::with(|sim| {
        sim.is_child = true;
        sim.faults = sim::Faults::default();
    });
}

/// Waits, outside of limic, until something is so.
pub(crate) fn wait_for(doing: &str, mut is_so: impl FnMut(&mut sim::Sim) -> bool) {
    loop {
        let done = sim::with(|sim| {
            if is_so(sim) {
                sim.happened += 1;
                return true;
            }
            let (current, seen) = (sim.current.expect("a process"), sim.happened);
            let process = &mut sim.processes[current];
            process.doing = format!("process {current} {doing}");
            process.state = State::Asleep { until: None, seen };
            false
        });
        if done {
            return;
        }
        give_way();
    }
}

/// Ends the run because something is wrong: the process never has another turn.
pub(crate) fn wrong(what: impl std::fmt::Display) -> ! {
    sim::with(|sim| sim.fail(&what));
    if sim::with(|sim| sim.is_child) {
        panic!("{what}");
    }
    loop {
        give_way();
    }
}

/// Gives turns until all processes have ended, or something is wrong.
pub(crate) fn run() {
    while let Next::Turn(process) = sim::with(sim::Sim::next) {
        let mut coroutine = sim::with(|sim| {
            sim.current = Some(process);
            if let State::Asleep { .. } = sim.processes[process].state {
                sim.processes[process].state = State::Ready;
            }
            sim.processes[process].coroutine.take()
        })
        .expect("a process that goes on");
        let ended = Process::resume(&mut coroutine);
        YIELDER.set(ptr::null());
        sim::with(|sim| {
            sim.current = None;
            sim.processes[process].coroutine = Some(coroutine);
            if ended {
                sim.processes[process].state = State::Ended;
            }
        });
        bury();
    }
    // What is left of a run in which something was wrong.
    sim::with(|sim| {
        for process in &mut sim.processes {
            if !process.is_over() {
                process.state = State::Killed;
            }
        }
        sim.faults.children_live = false;
    });
    bury();
}

/// Takes from processes that have ended what the kernel would take.
fn bury() {
    let dead: Vec<usize> = sim::with(|sim| {
        (0..sim.processes.len())
            .filter(|one| sim.processes[*one].is_over() && sim.processes[*one].coroutine.is_some())
            .collect()
    });
    for process in dead {
        let (mut coroutine, killed) = sim::with(|sim| {
            let process = &mut sim.processes[process];
            let coroutine = process.coroutine.take().expect("one that was found");
            (coroutine, process.state == State::Killed)
        });
        if killed {
            // SAFETY: nothing runs on this stack any more, and no destructor of what lies there:
            // that is leaked, as a process that is killed leaves its memory to the kernel.
            unsafe { coroutine.force_reset() };
        }
        give_back(coroutine.into_stack());
        sim::with(|sim| {
            sim.happened += 1;
            let keep = killed && sim.faults.children_live;
            let gone = &mut sim.processes[process];
            // These hold mappings that are gone below.
            std::mem::forget((std::mem::take(&mut gone.areas), gone.own.take()));
            // It cannot fail: the counter is 0.
            let _ = rustix::io::write(gone.life.as_fd(), &1_u64.to_ne_bytes());
            let mappings = std::mem::take(&mut gone.mappings);
            let descriptors = std::mem::take(&mut gone.descriptors);
            if killed {
                for (start, (len, _)) in mappings {
                    limic_shm::system::forget_mapping(start);
                    // SAFETY: a mapping of a process that has no turn any more.
                    let _ = unsafe { rustix::mm::munmap(ptr::without_provenance_mut(start), len) };
                }
                for fd in descriptors {
                    sim.owners.remove(&fd);
                    if !keep {
                        // SAFETY: a descriptor of that process, which nobody uses any more. It may
                        // have closed it already.
                        unsafe { libc::close(fd) };
                    }
                }
                return;
            }
            sim.current = Some(process);
            if let Some((start, (len, _))) = mappings.first_key_value() {
                sim.fail(format!(
                    "{} mappings are left, the first of {len} bytes at {start:#x}",
                    mappings.len()
                ));
            }
            let open: Vec<_> = descriptors
                .iter()
                .copied()
                .filter(|fd| is_open(*fd))
                .collect();
            if !open.is_empty() {
                sim.fail(format!("descriptors are left: {open:?}"));
            }
            sim.current = None;
        });
    }
}

pub(crate) fn is_open(fd: i32) -> bool {
    // SAFETY: asks for a flag of a number.
    unsafe { libc::fcntl(fd, libc::F_GETFD) != -1 }
}
