//! Kinds of memory, and the limits: huge pages, files, aliases, RLIMIT_MEMLOCK, absurd lengths.

use std::fs::OpenOptions;

use limic_module_tests::abi::{
    COPY_READ, COPY_WRITE, DONE, EXPOSE_READ, EXPOSE_WRITE, Iov, PENDING,
};
use limic_module_tests::{
    Child, Errno, Memory, PAGE, Session, To, check, fill, gauge, guest_test, token,
};

const HUGE: usize = 2 << 20;

/// Exposes, reads back, writes, and checks every byte.
fn there_and_back(memory: &mut Memory) {
    let session = Session::primitives();
    let len = memory.len();
    fill(memory, 1);
    let flags = EXPOSE_READ | EXPOSE_WRITE;
    let handle = session
        .expose(&[memory.piece()], flags, To::Session(session.id))
        .expect("expose");
    let mut other = Memory::new(len);
    assert_eq!(
        session.copy(handle, 0, &[other.piece()], COPY_READ),
        (len as u64, Ok(()))
    );
    check(&other, 1, 0);
    fill(&mut other, 2);
    assert_eq!(
        session.copy(handle, 0, &[other.piece()], COPY_WRITE),
        (len as u64, Ok(()))
    );
    check(memory, 2, 0);
    assert_eq!(session.revoke(handle), Ok(()));
}

#[test]
fn transparent_huge_pages() {
    guest_test(|| {
        let mut memory = Memory::huge(4 * HUGE, false).expect("memory");
        fill(&mut memory, 0);
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
        let huge = smaps
            .lines()
            .filter_map(|line| line.strip_prefix("AnonHugePages:"));
        let kib = huge.filter_map(|it| it.split_whitespace().next()?.parse::<usize>().ok());
        let kib: usize = kib.sum();
        assert!(kib * 1024 >= 4 * HUGE, "only {kib} KiB are huge");
        // Descriptors hold runs, and a huge page is one: 2048 pages need no second descriptor.
        let empty = gauge("pool_empty");
        there_and_back(&mut memory);
        assert_eq!(gauge("pool_empty"), empty);
        // Parts of it, not aligned to anything.
        let session = Session::primitives();
        fill(&mut memory, 3);
        let handle = session
            .expose(
                &[memory.part(5000, 3 * HUGE)],
                EXPOSE_READ,
                To::Session(session.id),
            )
            .expect("expose");
        let other = Memory::new(HUGE);
        let result = session.copy(handle, 777_777, &[other.piece()], COPY_READ);
        assert_eq!(result, (HUGE as u64, Ok(())));
        check(&other, 3, 777_777 + 5000);
        // A hole in the middle splits the huge page while it is pinned.
        memory.punch(HUGE + 8 * PAGE, PAGE);
        let result = session.copy(handle, 777_777, &[other.piece()], COPY_READ);
        assert_eq!(result, (HUGE as u64, Ok(())));
        check(&other, 3, 777_777 + 5000);
    });
}

#[test]
fn reserved_huge_pages() {
    guest_test(|| {
        std::fs::write("/proc/sys/vm/nr_hugepages", "4").expect("reserve huge pages");
        let mut memory = Memory::huge(2 * HUGE, true).expect("reserved huge pages");
        there_and_back(&mut memory);
        drop(memory);
        std::fs::write("/proc/sys/vm/nr_hugepages", "0").expect("give them back");
    });
}

#[test]
fn scattered_pages_and_many_descriptors() {
    guest_test(|| {
        // Every second page of a mapping that was touched in a bad order: hardly two follow each
        // other.
        let pages = 3000;
        let mut memory = Memory::new(2 * pages * PAGE);
        for page in 0..2 * pages {
            memory[page * 7919 % (2 * pages) * PAGE] = 1;
        }
        fill(&mut memory, 1);
        let session = Session::primitives();
        for chunk in [0, 1000, 2000] {
            let pieces: Vec<Iov> = (chunk..chunk + 1000)
                .map(|page| memory.part(2 * page * PAGE, PAGE))
                .collect();
            let handle = session
                .expose(&pieces, EXPOSE_READ, To::Session(session.id))
                .expect("expose");
            let other = Memory::new(1000 * PAGE);
            let result = session.copy(handle, 0, &[other.piece()], COPY_READ);
            assert_eq!(result, (1000 * PAGE as u64, Ok(())));
            for page in 0..1000 {
                let from = 2 * (chunk + page) * PAGE;
                check(&other[page * PAGE..(page + 1) * PAGE], 1, from);
            }
        }
    });
}

#[test]
fn files() {
    guest_test(|| {
        let path = "/tmp/limic-module-tests-file";
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path);
        let file = open.expect("a file on tmpfs");
        file.set_len(16 * PAGE as u64).expect("its length");
        // tmpfs is memory, so it can be pinned; a private mapping of a file is copied first.
        for shared in [true, false] {
            let mut memory = Memory::of_file(&file, 16 * PAGE, shared).expect("map");
            there_and_back(&mut memory);
        }
        // Pages behind the end of the file.
        let memory = Memory::of_file(&file, 16 * PAGE, true).expect("map");
        file.set_len(8 * PAGE as u64).expect("shorter");
        let session = Session::primitives();
        let behind = session.expose(&[memory.piece()], EXPOSE_READ, To::Session(session.id));
        assert_eq!(behind, Err(Errno(libc::EFAULT)));
        // A file that is cut while it is pinned: the pages stay until they are let go.
        let handle = session
            .expose(
                &[memory.part(0, 8 * PAGE)],
                EXPOSE_READ,
                To::Session(session.id),
            )
            .expect("expose");
        file.set_len(0).expect("empty");
        let other = Memory::new(8 * PAGE);
        let result = session.copy(handle, 0, &[other.piece()], COPY_READ);
        assert_eq!(result.1, Ok(()));
        // A read-only mapping of something that nobody may write.
        let text = std::fs::File::open("/proc/self/exe").expect("this program");
        // SAFETY: a new mapping; the address is not used as a reference.
        let base = unsafe {
            use std::os::fd::AsRawFd;
            let (private, read) = (libc::MAP_PRIVATE, libc::PROT_READ);
            libc::mmap(
                std::ptr::null_mut(),
                PAGE,
                read,
                private,
                text.as_raw_fd(),
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        let piece = Iov {
            base: base as u64,
            len: PAGE as u64,
        };
        let refused = session.expose(&[piece], EXPOSE_WRITE, To::Session(session.id));
        assert_eq!(refused, Err(Errno(libc::EFAULT)));
        let handle = session
            .expose(&[piece], EXPOSE_READ, To::Session(session.id))
            .expect("code can be sent");
        let result = session.copy(handle, 0, &[other.part(0, PAGE)], COPY_READ);
        assert_eq!(result.1, Ok(()));
        assert_eq!(&other[..4], b"\x7fELF");
        let _ = std::fs::remove_file(path);
    });
}

#[test]
fn memory_that_is_no_memory_is_refused() {
    guest_test(|| {
        let session = Session::member(token(), 0);
        // The status area is the kernel's, mapped by the caller.
        let area = Iov {
            base: session.status_address() as u64,
            len: 64,
        };
        for flags in [EXPOSE_WRITE, EXPOSE_READ | EXPOSE_WRITE] {
            let refused = session.expose(&[area], flags, To::Session(session.id));
            assert_eq!(refused, Err(Errno(libc::EFAULT)));
        }
        assert_eq!(session.recv(&[area], 0, 1, 0), Err(Errno(libc::EFAULT)));
        // Nothing at all, and memory that was given back.
        let gone = Memory::new(PAGE).piece();
        for base in [0, 8, gone.base] {
            let piece = [Iov { base, len: 64 }];
            let refused = session.expose(&piece, EXPOSE_READ, To::Session(session.id));
            assert_eq!(refused, Err(Errno(libc::EFAULT)), "{base:#x}");
            assert_eq!(session.send(&piece, 0, 1, 0), Err(Errno(libc::EFAULT)));
        }
    });
}

#[test]
fn one_buffer_as_source_and_target() {
    guest_test(|| {
        let session = Session::member(token(), 0);
        let mut memory = Memory::filled(16 * PAGE, 1);
        // The very same bytes: they stay what they are.
        let flags = EXPOSE_READ | EXPOSE_WRITE;
        let handle = session
            .expose(&[memory.piece()], flags, To::Session(session.id))
            .expect("expose");
        for direction in [COPY_READ, COPY_WRITE] {
            let result = session.copy(handle, 0, &[memory.piece()], direction);
            assert_eq!(result, (16 * PAGE as u64, Ok(())));
            check(&memory, 1, 0);
        }
        assert_eq!(session.send(&[memory.piece()], 0, 1, 0), Ok(PENDING));
        assert_eq!(session.recv(&[memory.piece()], 0, 1, 1), Ok(DONE));
        check(&memory, 1, 0);
        // Overlapping: the bytes are unspecified, but the rest is untouched and the kernel is well.
        let half = 8 * PAGE;
        let result = session.copy(handle, 100, &[memory.part(0, half)], COPY_READ);
        assert_eq!(result, (half as u64, Ok(())));
        check(&memory[half..], 1, half);
        // Two mappings of the same pages, in two processes.
        let mut shared = Memory::shared(4 * PAGE);
        fill(&mut shared, 2);
        let id = session.id;
        let mut child = Child::fork(|line| {
            let other = Session::primitives();
            let handle = other
                .expose(&[shared.piece()], flags, To::Session(id))
                .expect("expose");
            line.say(handle);
            line.hear();
        });
        let theirs = child.line.hear();
        for direction in [COPY_READ, COPY_WRITE] {
            let result = session.copy(theirs, 0, &[shared.piece()], direction);
            assert_eq!(result, (4 * PAGE as u64, Ok(())));
        }
        check(&shared, 2, 0);
        child.line.say(0);
        child.join();
        fill(&mut memory, 0);
    });
}
