//! One message copied by the receiver from the front and by the sender from the back.

use std::sync::atomic::{AtomicU32, Ordering};

use limic_copy::{
    Cma, CmaPeer, CopyEngine, LocalSlice, LocalSliceMut, ProbeWord, RemoteRange, SplitCopy,
    allow_peers,
};
use nix::sys::wait::WaitStatus;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::available;
use crate::forked::Forked;
use crate::peer::pattern;

const BLOCK: u64 = 16 * 1024;
const TOTAL: usize = (4 << 20) + 77;

/// Words that this process shares with its later children.
struct Shared {
    /// Blocks that the receiver has claimed, and those of the sender.
    front: AtomicU32,
    back: AtomicU32,
    /// Set by the parent: the child may start, and it may end.
    start: AtomicU32,
    done: AtomicU32,
}

fn shared() -> &'static Shared {
    // SAFETY: a new mapping, never taken away, of zeroes, which are valid atomics; page alignment
    // is enough for them.
    unsafe {
        let pages = mmap_anonymous(
            std::ptr::null_mut(),
            size_of::<Shared>(),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
        )
        .unwrap();
        &*pages.cast::<Shared>()
    }
}

/// The sender: writes blocks of `source` into the receiver's `target` from the back. System calls
/// only. Returns an exit code.
fn send(
    shared: &Shared,
    cut: SplitCopy,
    source: &[u8],
    target: RemoteRange,
    peer: &CmaPeer,
) -> i32 {
    // Pairs with the release in the test. Bounded by the alarm of a forked child.
    while shared.start.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    let local = [LocalSlice::from(source)];
    for own in 0.. {
        let Some(range) = cut.next_back(own, shared.front.load(Ordering::Relaxed)) else {
            // The receiver may still read here. Pairs with the release in the test.
            while shared.done.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            return 0;
        };
        shared.back.store(own + 1, Ordering::Relaxed);
        let limit = range.end - range.start;
        // SAFETY: `source` is this process's copy, which nobody writes; the receiver gave
        // `target` for it.
        let copied = unsafe { Cma.write_at(peer, &[target], &local, range.start, limit) };
        if copied != Ok(limit) {
            return 4;
        }
    }
    5
}

#[test]
fn both_sides_copy_a_message_together() {
    if !available("both_sides_copy_a_message_together") {
        return;
    }
    allow_peers();
    let shared = shared();
    let cut = SplitCopy::new(TOTAL as u64, BLOCK).unwrap();
    let source: Vec<u8> = (0..TOTAL).map(pattern).collect();
    let mut target = vec![0_u8; TOTAL];
    let word = ProbeWord::new(0x00b0_7451_de50);
    let address = target.as_mut_ptr().expose_provenance() as u64;
    let remote = RemoteRange {
        key: 0,
        address,
        len: TOTAL as u64,
    };
    // Made here and used in the child too: both name this process.
    let this = i32::try_from(std::process::id()).unwrap();
    let receiver = Cma::probe(this, word.address(), word.value()).unwrap();

    let sender = Forked::run(|| send(shared, cut, &source, remote, &receiver));
    // The child has the same word at the same address, and `source` too.
    let peer = Cma::probe(sender.pid(), word.address(), word.value()).unwrap();
    let source_address = source.as_ptr().expose_provenance() as u64;
    let source_range = RemoteRange {
        key: 0,
        address: source_address,
        len: TOTAL as u64,
    };
    let local = [LocalSliceMut::new(target.as_mut_ptr(), TOTAL)];
    // Pairs with the acquire in `send`.
    shared.start.store(1, Ordering::Release);
    let mut own = 0;
    while let Some(range) = cut.next_front(own, shared.back.load(Ordering::Relaxed)) {
        own += 1;
        shared.front.store(own, Ordering::Relaxed);
        let limit = range.end - range.start;
        // SAFETY: the room is this process's; at most the sender writes the same bytes there.
        let copied =
            unsafe { Cma.read_at(&peer, &[source_range], &local, range.start, limit) }.unwrap();
        assert_eq!(copied, limit);
    }
    shared.done.store(1, Ordering::Release);
    let pid = nix::unistd::Pid::from_raw(sender.pid());
    assert_eq!(sender.wait(), WaitStatus::Exited(pid, 0));
    // The last block by both, if they claimed it at the same time.
    let both = own + shared.back.load(Ordering::Relaxed) - cut.blocks();
    assert!(both <= 1, "{both} blocks twice");
    assert!(target == source);
}
