//! Buffers that are sent again and again over the path `kmod`: they stay exposed, and a message
//! costs its sender no call.

use limic::settings::Path;
use limic::{Endpoint, HybridEndpoint};
use limic_copy::{
    Access, CopyEngine, Kmod, KmodPair, KmodPeer, Lasting, LocalSlice, LocalSliceMut, Opened,
    RemoteRange,
};
use limic_lab_tests::in_guest;
use limic_tests::Cast;
use limic_tests::conformance::settings;

const FOLDER: &str = "/sys/kernel/debug/limic";
const LEN: usize = 64 << 10;

fn endpoint() -> HybridEndpoint {
    // However short they are, nothing goes ahead of its receive.
    let forced = settings(|s| s.inline_max(0).eager_max(0).long_path(Path::Kmod));
    HybridEndpoint::with(forced.expect("settings")).expect("an endpoint")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(format!("{FOLDER}/{file}")).expect("a file in debugfs")
}

/// A figure of the module's.
fn counter(name: &str) -> i64 {
    let text = read("counters");
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find(|(found, _)| *found == name);
    found
        .and_then(|(_, number)| number.parse().ok())
        .expect(name)
}

/// How many calls of a kind were made since measuring began.
fn calls(kind: &str) -> u64 {
    let text = read("breakdown");
    let rows = text.lines().filter_map(|line| line.strip_prefix(kind));
    rows.filter_map(|row| row.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum()
}

/// The bytes of a message: those of another one are at no place the same.
fn fill(buffer: &mut [u8], message: usize) {
    buffer.fill(message as u8);
}

fn is_filled(buffer: &[u8], message: usize) -> bool {
    buffer == vec![message as u8; buffer.len()]
}

/// Memory that is mapped anew, mostly where the one before it was.
struct Mapped(&'static mut [u8]);

impl Mapped {
    fn new() -> Self {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, which lives until the drop.
        let memory = unsafe {
            let base = libc::mmap(std::ptr::null_mut(), LEN, access, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            std::slice::from_raw_parts_mut(base.cast::<u8>(), LEN)
        };
        Self(memory)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: its own mapping, to which nobody else refers.
        unsafe { libc::munmap(self.0.as_mut_ptr().cast(), LEN) };
    }
}

#[test]
fn a_buffer_that_comes_again_is_exposed_once() {
    if !in_guest() {
        return;
    }
    const ROUNDS: usize = 200;
    let ran = Cast::new("a_buffer_that_comes_again_is_exposed_once").run(|rank| {
        let endpoint = endpoint();
        if rank.rank == 0 {
            std::fs::write(format!("{FOLDER}/measure"), "1").expect("measure");
        }
        let peers = rank.connect(&endpoint);
        let mut buffer = vec![0; LEN];
        for round in 0..ROUNDS {
            if rank.rank == 0 {
                fill(&mut buffer, round);
                endpoint.send(peers[1], 1, &buffer).expect("a send");
                // The buffer is the application's again.
                buffer.fill(0xee);
            } else {
                endpoint
                    .recv((peers[0], 1), &mut buffer)
                    .expect("a receive");
                assert!(is_filled(&buffer, round), "message {round}");
            }
        }
        rank.link.meet(&endpoint);
    });
    if ran.is_none() {
        // A rank's process.
        return;
    }
    let (exposed, copied) = (calls("expose "), calls("copy "));
    println!("REPORT: {ROUNDS} messages: {exposed} exposures, {copied} copies");
    assert_eq!(copied, ROUNDS as u64);
    assert!(exposed <= 3, "{exposed} exposures");
    assert_eq!(counter("pinned_pages"), 0);
}

#[test]
fn memory_that_changes_between_messages_is_sent_as_it_is() {
    if !in_guest() {
        return;
    }
    const ROUNDS: usize = 60;
    let cast = Cast::new("memory_that_changes_between_messages_is_sent_as_it_is");
    let ran = cast.run(|rank| {
        let endpoint = endpoint();
        let peers = rank.connect(&endpoint);
        let mut places = std::collections::HashSet::new();
        let mut lasting = vec![0; LEN];
        for round in 0..ROUNDS {
            if rank.rank == 0 {
                let fresh = Mapped::new();
                places.insert(fresh.0.as_ptr().addr());
                fill(fresh.0, round);
                endpoint.send(peers[1], 1, fresh.0).expect("a send");
                drop(fresh);
                fill(&mut lasting, round + 1);
                if round % 10 == 5 {
                    // SAFETY: the child leaves at once, without touching anything.
                    unsafe {
                        let child = libc::fork();
                        if child == 0 {
                            libc::_exit(0);
                        }
                        assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
                    }
                }
                // Two at a time out of the same buffer.
                let both = endpoint.scope(|scope| {
                    let first = scope.isend(peers[1], 2, &lasting)?;
                    scope.isend(peers[1], 3, &lasting)?.wait()?;
                    first.wait()
                });
                both.expect("two sends");
            } else {
                let mut room = vec![0; LEN];
                for (tag, seed) in [(1, round), (3, round + 1), (2, round + 1)] {
                    endpoint
                        .recv((peers[0], tag), &mut room)
                        .expect("a receive");
                    assert!(is_filled(&room, seed), "message {round}, tag {tag}");
                }
                let moved = endpoint.counters();
                let moved = moved.paths.iter().find(|(path, _)| *path == Path::Kmod);
                let messages = moved.map(|(_, traffic)| traffic.messages);
                assert_eq!(messages, Some(3 * (round as u64 + 1)), "all by the module");
            }
        }
        assert!(
            rank.rank == 1 || places.len() < ROUNDS,
            "no address came again"
        );
        rank.link.meet(&endpoint);
    });
    if ran.is_some() {
        assert_eq!(counter("pinned_pages"), 0);
    }
}

/// A session that sends, and one that reads what it is sent.
struct Two {
    to_reader: KmodPair,
    lasting: Lasting,
    from_owner: (KmodPair, KmodPeer),
}

impl Two {
    fn open() -> Self {
        let (owner, reader) = [(); 2].map(|()| Kmod::open().expect("a session")).into();
        Self {
            to_reader: owner.pair(reader.session()).expect("a session's number").0,
            lasting: owner.lasting().expect("this module has latches"),
            from_owner: reader.pair(owner.session()).expect("a session's number"),
        }
    }

    /// Opens a buffer for one message.
    fn message(&mut self, buffer: &[u8]) -> Option<Opened> {
        let local = LocalSlice::new(buffer.as_ptr(), buffer.len());
        // SAFETY: the tests drop what comes of it before the buffer.
        unsafe { self.lasting.open(&self.to_reader, local) }
    }

    /// Reads all that is behind a handle.
    fn read(&self, handle: u64, room: &mut [u8]) -> bool {
        let (pair, peer) = &self.from_owner;
        let remote = [RemoteRange {
            key: handle,
            address: 0,
            len: room.len() as u64,
        }];
        let local = [LocalSliceMut::new(room.as_mut_ptr(), room.len())];
        // SAFETY: the room is borrowed, and the module writes to nothing else.
        let read = unsafe { pair.read_at(peer, &remote, &local, 0, u64::MAX) };
        read.is_ok_and(|bytes| bytes == room.len() as u64)
    }
}

/// Two that decide which buffer has which latch would take them from each other.
#[test]
fn a_sessions_latches_are_lent_once_at_a_time() {
    if !in_guest() {
        return;
    }
    let kmod = Kmod::open().expect("a session");
    let first = kmod.lasting().expect("this module has latches");
    assert!(kmod.lasting().is_none() && kmod.clone().lasting().is_none());
    drop(first);
    assert!(kmod.lasting().is_some());
}

#[test]
fn more_buffers_than_stay_exposed_take_turns() {
    if !in_guest() {
        return;
    }
    let mut two = Two::open();
    let mut buffers: Vec<Vec<u8>> = (0..200).map(|_| vec![0; 3 * 4096]).collect();
    let mut room = vec![0; 3 * 4096];
    for round in 0..5 {
        for (at, buffer) in buffers.iter_mut().enumerate() {
            fill(buffer, round + at);
            let message = two.message(buffer).expect("a latch is free");
            assert!(two.read(message.handle(), &mut room));
            assert!(is_filled(&room, round + at));
            let handle = message.handle();
            drop(message);
            assert!(!two.read(handle, &mut room), "the message is over");
        }
    }
    let exposures = counter("exposures");
    assert!((1..=64).contains(&exposures), "{exposures} stay exposed");
    // Where all latches that a buffer may take are open, it is not one that lasts.
    let open: Vec<_> = buffers.iter().map(|buffer| two.message(buffer)).collect();
    assert!(open.iter().flatten().count() <= 64);
    for (message, (at, _)) in open.iter().zip(buffers.iter().enumerate()) {
        if let Some(message) = message {
            assert!(two.read(message.handle(), &mut room));
            assert!(is_filled(&room, 4 + at));
        }
    }
    drop(open);
    drop(two);
    assert_eq!((counter("exposures"), counter("pinned_pages")), (0, 0));
}

#[test]
fn what_stays_exposed_makes_way_for_what_is_needed() {
    if !in_guest() {
        return;
    }
    const PAGE: usize = 4096;
    let mut two = Two::open();
    let limit = libc::rlimit {
        rlim_cur: 40 * PAGE as u64,
        rlim_max: 40 * PAGE as u64,
    };
    // Root may lock what it likes, so this goes on as somebody else.
    // SAFETY: plain system calls.
    let limited = unsafe {
        libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) == 0
            && libc::setresuid(65534, 65534, 65534) == 0
    };
    assert!(limited, "{}", std::io::Error::last_os_error());
    let mut room = vec![0; 10 * PAGE];
    let mut buffers: Vec<Vec<u8>> = (0..20).map(|_| vec![0; 10 * PAGE]).collect();
    for round in 0..3 {
        for (at, buffer) in buffers.iter_mut().enumerate() {
            fill(buffer, round + at);
            let message = two.message(buffer).expect("others make way");
            assert!(two.read(message.handle(), &mut room));
            assert!(is_filled(&room, round + at));
        }
    }
    // One that lasts no longer than its message needs all of it.
    let mut large = vec![0; 35 * PAGE];
    fill(&mut large, 9);
    let local = [LocalSlice::new(large.as_ptr(), large.len())];
    // SAFETY: the buffer stays until it is revoked.
    let exposed = unsafe { two.to_reader.expose_once_more(&local, Access::Read) };
    let exposed = exposed.expect("the others make way");
    let mut room = vec![0; 35 * PAGE];
    assert!(two.read(exposed.key, &mut room));
    assert!(is_filled(&room, 9));
    two.to_reader.revoke(&[exposed]).expect("revoke");
    // More than can ever be: nobody makes way in vain.
    let message = two.message(&buffers[0]).expect("there is room");
    let handle = message.handle();
    drop(message);
    let huge = vec![0; 100 * PAGE];
    assert!(two.message(&huge).is_none());
    let message = two.message(&buffers[0]).expect("it is still there");
    assert_eq!(message.handle(), handle);
}
