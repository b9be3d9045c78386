//! One message copied by the receiver from the front and by the sender from the back.

use std::sync::atomic::{AtomicU64, Ordering};

use limic_copy::{
    Cma, CmaPeer, CopyEngine, LocalSlice, LocalSliceMut, ProbeWord, RemoteRange, RendezvousWord,
    SplitCopy, allow_peers,
};
use nix::sys::wait::WaitStatus;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::available;
use crate::forked::Forked;
use crate::peer::pattern;

const BLOCK: u64 = 16 * 1024;
const TOTAL: usize = (4 << 20) + 77;

/// Two words that this process shares with its later children.
struct Shared {
    meet: AtomicU64,
    /// Set by the parent when the child may start.
    start: AtomicU64,
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
        let Ok(claimed) = RendezvousWord(&shared.meet).claim_back(cut.blocks(), own) else {
            return 2;
        };
        let Some(index) = claimed else { return 0 };
        let Some(range) = cut.range(index) else {
            return 3;
        };
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
fn both_sides_copy_every_block_once() {
    if !available("both_sides_copy_every_block_once") {
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
    RendezvousWord(&shared.meet).reset();

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
    let meet = RendezvousWord(&shared.meet);
    let mut own = 0;
    while let Some(index) = meet.claim_front(cut.blocks(), own).unwrap() {
        own += 1;
        let range = cut.range(index).unwrap();
        let limit = range.end - range.start;
        // SAFETY: the block is this side's by its claim; nobody else touches it.
        let copied =
            unsafe { Cma.read_at(&peer, &[source_range], &local, range.start, limit) }.unwrap();
        assert_eq!(copied, limit);
    }
    let pid = nix::unistd::Pid::from_raw(sender.pid());
    assert_eq!(sender.wait(), WaitStatus::Exited(pid, 0));
    let (front, back) = RendezvousWord(&shared.meet).counts();
    assert_eq!(front + back, cut.blocks());
    assert_eq!(front, own);
    assert!(target == source);
}
