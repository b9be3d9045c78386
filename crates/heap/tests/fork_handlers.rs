//! What the heap does for others while a thread forks: in a process whose first handler for forks
//! is this test's, so that it runs when the heap waits for the child.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Relaxed};

use limic_heap::raw;

const LEN: usize = 100_000;
const LONG: usize = 40 << 20;

/// Two short blocks and two long ones.
static BLOCKS: [AtomicPtr<u8>; 4] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 4];
/// What was as it should be.
static WELL: AtomicUsize = AtomicUsize::new(0);
static ASKED: AtomicBool = AtomicBool::new(false);

/// Three things of each of two blocks.
fn use_heap(blocks: [*mut u8; 2]) {
    let none = raw::allocate(LEN, 1, false);
    let well = blocks.map(|block| {
        // SAFETY: a block of this test, which gives it up.
        unsafe {
            let length = raw::length(block).unwrap_or(0);
            let stays = !raw::resize(block, LEN + 1);
            let is_later = raw::free(block) && raw::contains(block);
            length >= LEN && stays && is_later && none.is_null()
        }
    });
    WELL.fetch_add(well.into_iter().filter(|well| *well).count(), Relaxed);
}

/// Both the thread that forks and another one, for which it waits here.
extern "C" fn before() {
    if !ASKED.swap(true, Relaxed) {
        let blocks = |of: [usize; 2]| of.map(|at| BLOCKS[at].load(Relaxed));
        let other = std::thread::spawn(move || use_heap(blocks([0, 2])));
        other.join().expect("it waits for nobody");
        use_heap(blocks([1, 3]));
    }
}

#[test]
fn while_a_thread_forks_all_others_go_on_and_what_they_give_back_is_free_then() {
    // SAFETY: a function that allocates, before there is a child; an end, if it waits for ever.
    unsafe {
        libc::alarm(60);
        assert_eq!(libc::pthread_atfork(Some(before), None, None), 0);
    }
    for (block, len) in BLOCKS.iter().zip([LEN, LEN, LONG, LONG]) {
        let new = raw::allocate(len, 1, false);
        assert!(!new.is_null());
        block.store(new, Relaxed);
    }
    // SAFETY: the child uses the heap and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        let blocks = [LEN, LONG].map(|len| raw::allocate(len, 1, true));
        // SAFETY: two blocks with as many bytes, and the end of the child.
        unsafe {
            let well = blocks
                .iter()
                .all(|block| !block.is_null() && block.add(LEN - 1).read() == 0);
            let freed = blocks.iter().all(|block| raw::free(*block));
            libc::_exit(i32::from(!(well && freed)));
        }
    }
    let mut status = 0;
    // SAFETY: a child of this process, and a place for what it ends with.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((ended, status), (child, 0), "the child has no heap");
    assert_eq!(WELL.load(Relaxed), 4);
    let [first, second, long, longer] = BLOCKS.each_ref().map(|block| block.load(Relaxed));
    // The arenas of long blocks are gone, and the places of others are given again.
    assert!(![long, longer].into_iter().any(raw::contains));
    let again = [0; 2].map(|_| raw::allocate(LEN, 1, false));
    assert!(again.contains(&first) && again.contains(&second));
}
