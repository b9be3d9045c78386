//! What a child process has of the heap, and a program that is started.

use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use limic_heap::{Buffer, PeerReadable};
use limic_shm::ring::Memory;
use limic_shm::segment::{Arena, Placement};

#[global_allocator]
static HEAP: PeerReadable = PeerReadable::new();

const LEN: usize = 300_000;

/// No other test is at work: while one forks, the blocks of others are ordinary memory.
fn alone() -> impl Drop {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forks; what the child says must be true, or this fails.
fn in_child(says: impl FnOnce() -> bool, meanwhile: impl FnOnce()) {
    // SAFETY: the child calls `says`, which works on memory that is its own, and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        // A panic is no answer: its thread would be the last one to end, and the child with 0.
        let well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(says));
        let code = i32::from(!well.unwrap_or(false));
        // SAFETY: ends the child without what the harness has to do at its end.
        unsafe { libc::_exit(code) };
    }
    meanwhile();
    let mut status = 0;
    // SAFETY: a child of this process, and a place for what it ends with.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(
        (ended, status),
        (child, 0),
        "what the child has is not as it should be"
    );
}

/// A pipe: what is read, and what is written.
fn pipe() -> [OwnedFd; 2] {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors.
    let made = unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) };
    assert_eq!(made, 0);
    // SAFETY: two descriptors that nobody else has.
    fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

#[test]
fn a_child_has_a_copy_of_its_own() {
    let _alone = alone();
    let mut buffer = Buffer::new(LEN).expect("memory");
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = at as u8;
    }
    let mut vector: Vec<u8> = buffer.to_vec();
    let [wait, go] = pipe();
    let bytes = buffer.as_mut_ptr();
    let childs_end = go.as_raw_fd();
    in_child(
        || {
            // Until the parent has written.
            // SAFETY: the child's own copy of a descriptor; a byte of room.
            unsafe { libc::close(childs_end) };
            let mut word = [0];
            // SAFETY: as above.
            unsafe { libc::read(wait.as_raw_fd(), word.as_mut_ptr().cast(), 1) };
            // SAFETY: the buffer is alive, and the child has this thread alone.
            let mine = unsafe { std::slice::from_raw_parts_mut(bytes, LEN) };
            let same = mine.iter().enumerate().all(|(at, byte)| *byte == at as u8);
            mine.fill(1);
            let vectors_too = vector
                .iter()
                .enumerate()
                .all(|(at, byte)| *byte == at as u8);
            vector.fill(2);
            vector.resize(2 * LEN, 3);
            same && vectors_too && limic_heap::place(bytes, LEN).is_none()
        },
        || {
            // SAFETY: as above, in the parent.
            unsafe { std::slice::from_raw_parts_mut(bytes, LEN) }.fill(9);
            drop(go);
        },
    );
    assert!(buffer.iter().all(|byte| *byte == 9));
    assert!(
        vector
            .iter()
            .enumerate()
            .all(|(at, byte)| *byte == at as u8)
    );
    assert!(buffer.is_peer_readable());
}

#[test]
fn what_a_child_allocates_can_be_read_by_its_peers() {
    let _alone = alone();
    let _before = Buffer::new(LEN).expect("memory");
    in_child(
        || {
            [LEN, 40 << 20].into_iter().all(|len| {
                let buffer = Buffer::new(len);
                buffer.is_some_and(|buffer| buffer.is_peer_readable() && buffer[len - 1] == 0)
            })
        },
        || (),
    );
}

/// Its list of mappings is longer than the allocator's long blocks then.
#[test]
fn a_child_of_a_process_with_many_mappings_has_copies_too() {
    let _alone = alone();
    in_child(
        || {
            let mut first = Buffer::new(LEN).expect("memory");
            let arenas = (0..300).map(|_| Arena::create(4096, Placement::default()));
            let arenas: Vec<_> = arenas.collect::<Result<_, _>>().expect("arenas");
            let mut last = Buffer::new(40 << 20).expect("memory");
            (first[7], last[7]) = (1, 2);
            arenas.iter().for_each(|arena| set(arena, 3));
            let [wait, go] = pipe();
            let childs_end = go.as_raw_fd();
            let (firsts, lasts) = (first.as_mut_ptr(), last.as_mut_ptr());
            // SAFETY: the buffers are alive, and each process has one thread.
            let byte = |of: *mut u8| unsafe { of.add(7).read_volatile() };
            in_child(
                || {
                    // Until the parent has written.
                    // SAFETY: the child's own copy of a descriptor; a byte of room.
                    unsafe {
                        libc::close(childs_end);
                        libc::read(wait.as_raw_fd(), [0_u8].as_mut_ptr().cast(), 1);
                    }
                    let copies = byte(firsts) == 1 && byte(lasts) == 2;
                    // What peers write in the parent is zeroes here.
                    let zeroes = arenas.iter().all(|arena| get(arena) == 0);
                    arenas.iter().for_each(|arena| set(arena, 5));
                    copies && zeroes
                },
                || {
                    (first[7], last[7]) = (6, 6);
                    drop(go);
                },
            );
            let kept = byte(firsts) == 6 && byte(lasts) == 6;
            kept && arenas.iter().all(|arena| get(arena) == 3)
        },
        || (),
    );
}

/// Writes a word of an arena.
fn set(arena: &Arena, value: u32) {
    arena.view().word32(0).store(value, Relaxed);
}

fn get(arena: &Arena) -> u32 {
    arena.view().word32(0).load(Relaxed)
}

/// As daemons do, which close whatever there is.
fn close_memory_files() -> usize {
    let numbers = 3..1024;
    let closed = numbers.filter(|number| {
        let link = std::fs::read_link(format!("/proc/self/fd/{number}"));
        let is_memory = link.is_ok_and(|link| link.to_string_lossy().contains("memfd:limic"));
        // SAFETY: what has this descriptor does not use it any more but to close it.
        is_memory && unsafe { libc::close(*number) } == 0
    });
    closed.count()
}

#[test]
fn a_child_has_its_copy_though_the_descriptor_was_closed() {
    let _alone = alone();
    in_child(
        || {
            let Some(mut buffer) = Buffer::new(40 << 20) else {
                return false;
            };
            buffer[LEN] = 7;
            let closed = close_memory_files();
            // Another file has the number now.
            let _null = std::fs::File::open("/dev/null");
            in_child(|| buffer[LEN] == 7 && buffer[0] == 0, || ());
            closed > 0
        },
        || (),
    );
}

#[test]
fn a_number_that_another_file_has_now_is_neither_shown_nor_closed() {
    let _alone = alone();
    in_child(
        || {
            let buffers = [0; 2].map(|_| Buffer::new(40 << 20).expect("memory"));
            let places = buffers.each_ref().map(|buffer| {
                let place = limic_heap::place(buffer.as_ptr(), buffer.len());
                place.expect("a place").arena
            });
            let shown = |arena| limic_heap::descriptor(arena).is_some();
            let all = places.into_iter().all(shown);
            let closed = close_memory_files();
            let none = !places.into_iter().any(shown);
            // One number is that of a file of the program then, another one that of another arena.
            let files = (0..closed - 1).map(|_| std::fs::File::open("/proc/self/stat"));
            let files: Vec<_> = files.collect::<Result<_, _>>().expect("files");
            let later = Buffer::new(40 << 20).expect("memory");
            let still_none = !places.into_iter().any(shown);
            drop(buffers);
            let place = limic_heap::place(later.as_ptr(), 1).expect("a place");
            let stay = shown(place.arena)
                && files
                    .iter()
                    .all(|mut file| file.read(&mut [0; 8]).is_ok_and(|read| read == 8));
            all && closed >= 2 && none && still_none && stay
        },
        || (),
    );
}

/// The child's arenas leave their numbers to other files, as those of its parent do to its own.
#[test]
fn a_child_that_drops_its_copies_closes_none_of_its_files() {
    let _alone = alone();
    let buffer = Buffer::new(40 << 20).expect("memory");
    let place = limic_heap::place(buffer.as_ptr(), 1).expect("a place");
    in_child(
        || {
            let files = (0..20).map(|_| std::fs::File::open("/proc/self/stat"));
            let files: Vec<_> = files.collect::<Result<_, _>>().expect("files");
            let shown = limic_heap::descriptor(place.arena).is_some();
            drop(buffer);
            !shown
                && files
                    .iter()
                    .all(|mut file| file.read(&mut [0; 8]).is_ok_and(|read| read == 8))
        },
        || (),
    );
}

/// The parent goes on at once, and what it writes then is not in the child's copy.
#[test]
fn a_child_has_its_copy_though_no_descriptor_is_free() {
    let _alone = alone();
    const LONG: usize = 64 << 20;
    in_child(
        || {
            let Some(mut buffer) = Buffer::new(LONG) else {
                return false;
            };
            buffer.fill(7);
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            // SAFETY: a limit of this process, which is a child of its own.
            let limited = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) };
            assert_eq!(limited, 0);
            let bytes = buffer.as_mut_ptr();
            in_child(
                || {
                    // SAFETY: the child's own copy, in this thread alone.
                    let copy = unsafe { std::slice::from_raw_parts(bytes, LONG) };
                    copy.iter().all(|byte| *byte == 7)
                },
                || {
                    // SAFETY: the buffer is alive, and the parent has this thread alone.
                    unsafe { std::slice::from_raw_parts_mut(bytes, LONG) }.fill(9);
                },
            );
            buffer.iter().all(|byte| *byte == 9)
        },
        || (),
    );
}

/// The child is there for the limit, which is a whole process's.
#[test]
fn ordinary_memory_of_a_buffer_is_on_a_page_too() {
    let _alone = alone();
    in_child(
        || {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            // SAFETY: a limit of this process, which is a child of its own.
            let limited = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) };
            let buffer = Buffer::new(40 << 20).expect("memory");
            let is_zero = buffer.iter().all(|byte| *byte == 0);
            let is_on_a_page = buffer.as_ptr().addr() % 4096 == 0;
            limited == 0 && !buffer.is_peer_readable() && is_zero && is_on_a_page
        },
        || (),
    );
}

#[test]
fn a_fork_of_one_thread_leaves_others_their_memory() {
    let _alone = alone();
    let mut block = vec![1_u8; LEN];
    std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            for round in 0..2000_usize {
                let bytes = vec![round as u8; 20_000 + round % 7 * 4096];
                assert!(bytes.iter().all(|byte| *byte == round as u8));
            }
        });
        while !churn.is_finished() {
            in_child(
                || {
                    let same = block.iter().all(|byte| *byte == 1);
                    let mut other = vec![0_u8; LEN];
                    other.fill(2);
                    same && other.iter().all(|byte| *byte == 2)
                },
                || (),
            );
            block.fill(1);
        }
    });
}

#[test]
fn a_started_program_inherits_no_descriptor() {
    let _alone = alone();
    let buffer = Buffer::new(LEN).expect("memory");
    assert!(buffer.is_peer_readable());
    let listed = Command::new("ls")
        .args(["-l", "/proc/self/fd"])
        .output()
        .expect("ls");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(
        listed.contains("->") && !listed.contains("memfd"),
        "{listed}"
    );
}

#[test]
fn who_has_the_descriptor_can_read_and_not_write() {
    let _alone = alone();
    let mut buffer = Buffer::new(LEN).expect("memory");
    buffer[7] = 77;
    let place = limic_heap::place(buffer.as_ptr(), LEN).expect("a place");
    let (fd, bytes) = limic_heap::descriptor(place.arena).expect("a descriptor");
    let map = |access| {
        // SAFETY: the kernel chooses where.
        unsafe {
            let fd = fd.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, 0)
        }
    };
    assert_eq!(map(libc::PROT_READ | libc::PROT_WRITE), libc::MAP_FAILED);
    let readable = map(libc::PROT_READ);
    assert_ne!(readable, libc::MAP_FAILED);
    let there = readable
        .cast::<u8>()
        .wrapping_add(place.offset as usize + 7);
    // SAFETY: within the mapping, which ends after this.
    assert_eq!(unsafe { there.read_volatile() }, 77);
    // SAFETY: the mapping made above.
    unsafe { libc::munmap(readable, bytes) };
    // SAFETY: a descriptor of this process.
    let hole = unsafe {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        libc::fallocate(fd.as_raw_fd(), mode, 0, 4096)
    };
    assert_eq!(hole, -1, "a hole takes the bytes away");
    let mut file = std::fs::File::from(fd);
    assert!(file.read(&mut [0; 8]).is_ok());
}
