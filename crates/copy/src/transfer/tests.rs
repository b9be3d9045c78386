//! The loop over a stand-in for the kernel that stops where a test wants.

use std::cell::{Cell, RefCell};

use proptest::prelude::*;

use super::*;
use crate::LocalSliceMut;

const REMOTE: u64 = 0x10_0000;
const LOCAL: u64 = 0x7000_0000;
const GIB: u64 = 1 << 30;
const PEER: CmaPeer = CmaPeer {
    pid: 1,
    word: 0x50_0000,
    value: 0x1234_5678_9abc_def0,
};

/// What the stand-in for the kernel does on a call.
#[derive(Debug, Clone, Copy)]
enum Answer {
    /// Copies at most this much.
    UpTo(u64),
    Fails(i32),
    /// Copies at most this much, and from then on another process has the pid.
    Stranger(u64),
}

/// Touches no memory but the word. Both lists of a test are cut out of two stretches, so that an
/// address tells the place in the message; every call is checked to go on where the last stopped.
#[derive(Debug)]
struct Script {
    answers: RefCell<Vec<Answer>>,
    done: Cell<u64>,
    calls: Cell<usize>,
    word: Cell<u64>,
}

impl Script {
    fn new(start: u64, answers: &[Answer]) -> Self {
        let answers = answers.iter().rev().copied().collect();
        Self {
            answers: RefCell::new(answers),
            done: Cell::new(start),
            calls: Cell::new(0),
            word: Cell::new(PEER.value),
        }
    }

    /// What a process that has another word at the place answers, or the peer.
    fn read_word(&self, local: iovec, remote: iovec) {
        assert_eq!(remote.iov_base.addr(), PEER.word);
        assert_eq!((local.iov_len, remote.iov_len), (WORD, WORD));
        // SAFETY: the word of the caller's frame.
        unsafe { local.iov_base.cast::<u64>().write(self.word.get()) };
    }
}

fn check(entries: &[iovec], start: u64) -> u64 {
    assert!(!entries.is_empty() && entries.len() <= 1024);
    let mut at = start;
    for entry in entries {
        assert_eq!(entry.iov_base.addr() as u64, at);
        assert!(entry.iov_len > 0);
        at += entry.iov_len as u64;
    }
    at - start
}

impl VmSyscall for Script {
    unsafe fn call(
        &self,
        _: Direction,
        _: i32,
        local: &[iovec],
        remote: &[iovec],
    ) -> Result<usize, i32> {
        let ([local @ .., local_word], [remote @ .., remote_word]) = (local, remote) else {
            panic!("a read takes the word along");
        };
        if local.is_empty() {
            self.read_word(*local_word, *remote_word);
            return Ok(WORD);
        }
        self.calls.set(self.calls.get() + 1);
        let bytes = check(local, LOCAL + self.done.get());
        assert_eq!(bytes, check(remote, REMOTE + self.done.get()));
        // What the kernel itself cuts off at, with pages of 64 KiB.
        assert!(bytes + WORD as u64 <= 0x7fff_0000);
        let most = match self.answers.borrow_mut().pop() {
            Some(Answer::Fails(errno)) => return Err(errno),
            Some(Answer::Stranger(most)) => {
                self.word.set(!PEER.value);
                most
            }
            Some(Answer::UpTo(most)) => most,
            None => u64::MAX,
        };
        let moved = bytes.min(most);
        self.done.set(self.done.get() + moved);
        if most < bytes {
            return Ok(moved as usize);
        }
        self.read_word(*local_word, *remote_word);
        Ok(moved as usize + WORD)
    }
}

fn remote(cuts: &[u64]) -> Vec<RemoteRange> {
    let mut address = REMOTE;
    cuts.iter()
        .map(|&len| {
            let range = RemoteRange {
                key: 0,
                address,
                len,
            };
            address += len;
            range
        })
        .collect()
}

fn local(cuts: &[u64]) -> Vec<LocalSliceMut> {
    let mut address = LOCAL;
    cuts.iter()
        .map(|&len| {
            let pointer = std::ptr::without_provenance_mut(address as usize);
            address += len;
            LocalSliceMut::new(pointer, len as usize)
        })
        .collect()
}

fn run_script(
    script: &Script,
    remote_cuts: &[u64],
    local_cuts: &[u64],
    skip: u64,
    limit: u64,
) -> Result<u64, Stopped> {
    let (remote, local) = (remote(remote_cuts), local(local_cuts));
    // SAFETY: `Script` does not touch the memory that the list names.
    unsafe { transfer(script, Direction::Read, &PEER, &remote, &local, skip, limit) }
}

#[test]
fn more_than_the_kernel_takes_in_one_call_is_split() {
    let script = Script::new(0, &[]);
    assert_eq!(
        run_script(&script, &[5 * GIB], &[5 * GIB], 0, u64::MAX),
        Ok(5 * GIB)
    );
    assert_eq!(script.calls.get(), 3);
}

#[test]
fn a_bounded_call_starts_and_stops_where_asked() {
    let script = Script::new(3 * GIB + 5, &[]);
    let copied = run_script(&script, &[GIB, 4 * GIB], &[5 * GIB], 3 * GIB + 5, 4096);
    assert_eq!(copied, Ok(4096));
    assert_eq!(
        (script.calls.get(), script.done.get()),
        (1, 3 * GIB + 5 + 4096)
    );
}

#[test]
fn partial_results_and_interruptions_are_continued() {
    let answers = [
        Answer::Fails(libc::EINTR),
        Answer::UpTo(1),
        Answer::UpTo(4095),
        Answer::Fails(libc::EINTR),
    ];
    let script = Script::new(0, &answers);
    assert_eq!(
        run_script(&script, &[100, 9900], &[5000, 5000], 0, u64::MAX),
        Ok(10_000)
    );
    assert_eq!(script.calls.get(), 5);
}

#[test]
fn an_error_after_some_bytes_tells_how_many() {
    let answers = [
        Answer::UpTo(4096),
        Answer::UpTo(10),
        Answer::Fails(libc::EFAULT),
    ];
    let stopped = run_script(&Script::new(0, &answers), &[9000], &[9000], 0, u64::MAX);
    assert_eq!(
        stopped,
        Err(Stopped::Errno {
            errno: libc::EFAULT,
            copied: 4106
        })
    );
}

#[test]
fn bytes_of_another_process_are_none_of_the_peer() {
    for most in [4096, 8999, 9000, u64::MAX] {
        let answers = [Answer::UpTo(10), Answer::Stranger(most)];
        let stopped = run_script(&Script::new(0, &answers), &[9000], &[9000], 0, u64::MAX);
        assert_eq!(stopped, Err(Stopped::Stranger), "{most}");
    }
}

#[test]
fn no_progress_without_an_error_is_an_error() {
    let stopped = run_script(&Script::new(0, &[Answer::UpTo(0)]), &[9], &[9], 0, u64::MAX);
    assert_eq!(
        stopped,
        Err(Stopped::Errno {
            errno: libc::EIO,
            copied: 0
        })
    );
}

#[test]
fn nothing_to_do_is_no_call() {
    let script = Script::new(0, &[]);
    assert_eq!(run_script(&script, &[], &[0, 0], 0, u64::MAX), Ok(0));
    assert_eq!(run_script(&script, &[7], &[7], 7, u64::MAX), Ok(0));
    assert_eq!(run_script(&script, &[7], &[7], 0, 0), Ok(0));
    assert_eq!(script.calls.get(), 0);
}

#[test]
fn hostile_lists_are_refused_before_any_call() {
    let script = Script::new(0, &[]);
    let stopped = run_script(&script, &[8], &[9], 0, u64::MAX);
    assert_eq!(
        stopped,
        Err(Stopped::Mismatch {
            remote: 8,
            local: 9
        })
    );
    let stopped = run_script(&script, &[8], &[8], 9, 1);
    assert_eq!(stopped, Err(Stopped::Skip { skip: 9, total: 8 }));

    let far = [RemoteRange {
        key: 0,
        address: u64::MAX - 3,
        len: 8,
    }];
    // SAFETY: `Script` does not touch the memory that the list names.
    let stopped = unsafe {
        transfer(
            &script,
            Direction::Read,
            &PEER,
            &far,
            &local(&[8]),
            0,
            u64::MAX,
        )
    };
    assert_eq!(
        stopped,
        Err(Stopped::Errno {
            errno: libc::EFAULT,
            copied: 0
        })
    );

    let huge = [RemoteRange {
        key: 0,
        address: 0,
        len: u64::MAX,
    }; 2];
    // SAFETY: as above.
    let stopped = unsafe {
        transfer(
            &script,
            Direction::Read,
            &PEER,
            &huge,
            &local(&[8]),
            0,
            u64::MAX,
        )
    };
    assert_eq!(
        stopped,
        Err(Stopped::Mismatch {
            remote: u64::MAX,
            local: 8
        })
    );
    assert_eq!(script.calls.get(), 0);
}

/// Lengths of slices that add up to `total`, cut at `marks`.
fn cuts(total: u64, marks: &[u64]) -> Vec<u64> {
    let mut marks: Vec<_> = marks.iter().map(|mark| mark % (total + 1)).collect();
    marks.extend([0, total]);
    marks.sort_unstable();
    marks.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

proptest! {
    #[test]
    fn any_two_shapes_meet(
        total in prop_oneof![0..5000_u64, 0..6 * GIB],
        remote_marks in prop::collection::vec(any::<u64>(), 0..2000),
        local_marks in prop::collection::vec(any::<u64>(), 0..40),
        swap in any::<bool>(),
        skip in any::<u64>(),
        limit in prop_oneof![Just(u64::MAX), 0..6 * GIB],
        stops in prop::collection::vec(prop_oneof![
            Just(Answer::Fails(libc::EINTR)), (1..10_000_u64).prop_map(Answer::UpTo),
        ], 0..6),
    ) {
        let (mut one, mut two) = (cuts(total, &remote_marks), cuts(total, &local_marks));
        if swap {
            std::mem::swap(&mut one, &mut two);
        }
        let skip = skip % (total + 1);
        let script = Script::new(skip, &stops);
        let part = (total - skip).min(limit);
        prop_assert_eq!(run_script(&script, &one, &two, skip, limit), Ok(part));
        prop_assert_eq!(script.done.get(), skip + part);
    }
}
