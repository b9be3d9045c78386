//! What the module says of its own costs, and what a copy takes beside cross-memory attach.

use std::fs;
use std::time::Instant;

use limic_module_tests::abi::{self, COPY_READ, DONE, EXPOSE_READ, PENDING};
use limic_module_tests::{Child, Memory, PAGE, Session, To, check, gauge, guest_test, token};

const FOLDER: &str = "/sys/kernel/debug/limic";

fn measure(word: &str) -> std::io::Result<()> {
    fs::write(format!("{FOLDER}/measure"), word)
}

/// Nanoseconds of each step for one kind of call and size, by the name of the step; and the number
/// of calls.
fn breakdown(call: &str, max_bytes: &str) -> Option<(u64, Vec<(String, u64)>)> {
    let text = fs::read_to_string(format!("{FOLDER}/breakdown")).expect("the table");
    let mut lines = text.lines();
    let names = lines.next().expect("a header").split(' ').skip(3);
    let row = lines.find_map(|line| line.strip_prefix(&format!("{call} {max_bytes} ")))?;
    let mut numbers = row
        .split(' ')
        .map(|number| number.parse().expect("a number"));
    let calls = numbers.next().expect("calls");
    Some((calls, names.map(str::to_owned).zip(numbers).collect()))
}

/// Messages and copies of 64 KiB, a known number of each.
fn traffic(session: &Session, from: &Memory, to: &Memory) {
    let handle = session
        .expose(&[from.piece()], EXPOSE_READ, To::Session(session.id))
        .expect("expose");
    for _ in 0..20 {
        let copied = session.copy(handle, 0, &[to.piece()], COPY_READ);
        assert_eq!(copied, (from.len() as u64, Ok(())));
        assert_eq!(session.send(&[from.piece()], 0, 1, 0), Ok(PENDING));
        assert_eq!(session.recv(&[to.piece()], 0, 1, 1), Ok(DONE));
    }
    session.revoke(handle).expect("revoke");
}

#[test]
fn the_breakdown_counts_every_call_in_its_row() {
    guest_test(|| {
        let session = Session::member(token(), 0);
        let (from, to) = (Memory::filled(16 * PAGE, 1), Memory::new(16 * PAGE));
        // Off: nothing is counted.
        measure("0").expect("off");
        traffic(&session, &from, &to);
        assert_eq!(breakdown("copy", "65536"), None);
        assert_eq!((gauge("copies"), gauge("bytes")), (0, 0));
        measure("1").expect("on");
        traffic(&session, &from, &to);
        assert_eq!(gauge("copies"), 20);
        assert_eq!((gauge("send_queued"), gauge("recv_matched")), (20, 20));
        assert_eq!(gauge("bytes"), 40 * from.len() as i64);
        for (call, count, dear) in [
            ("copy", 20, "copy_ns"),
            ("transfer", 20, "copy_ns"),
            ("post", 20, "pin_ns"),
            ("expose", 1, "pin_ns"),
        ] {
            let (calls, steps) = breakdown(call, "65536").expect("a row");
            assert_eq!(calls, count, "{call}");
            let step = steps
                .iter()
                .find(|(name, _)| name == dear)
                .expect("the step");
            assert!(step.1 > 0, "{call} spent no time in {dear}: {steps:?}");
            println!("REPORT: {call} of 64 KiB: {steps:?}");
        }
        measure("0").expect("off");
        assert_eq!(gauge("copies"), 0, "switching starts from zero");
        for wrong in [
            "2",
            "yes",
            "1 x",
            "1 -1",
            "12",
            "1 18446744073709551616",
            "1                       1",
        ] {
            assert!(measure(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            fs::read_to_string(format!("{FOLDER}/measure")).expect("the switch"),
            "0\n"
        );
    });
}

#[test]
fn measuring_for_a_session_ends_with_it() {
    guest_test(|| {
        let on = || fs::read_to_string(format!("{FOLDER}/measure")).expect("the switch") == "1\n";
        let (first, second) = (Session::primitives(), Session::primitives());
        measure(&format!("1 {}\n", first.id)).expect("on");
        drop(second);
        assert!(on(), "another session's end is nothing to it");
        drop(first);
        assert!(!on(), "its own end turns it off");
        // Whoever turned it off before, and on again for itself, keeps it.
        let session = Session::primitives();
        measure(&format!("1 {}", session.id)).expect("on");
        measure("1").expect("on, for as long as it is wanted");
        drop(session);
        assert!(on(), "it was not this session's any more");
        measure("0").expect("off");
    });
}

/// The middle one of many runs, in nanoseconds.
fn median(mut run: impl FnMut()) -> u64 {
    let mut times: Vec<u64> = (0..101)
        .map(|_| {
            let begin = Instant::now();
            run();
            begin.elapsed().as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn copies_beside_cross_memory_attach() {
    guest_test(|| {
        let mine = Session::primitives();
        let most = 1 << 20;
        let id = mine.id;
        let mut child = Child::fork(|line| {
            let memory = Memory::filled(most, 4);
            let session = Session::primitives();
            let handle = session
                .expose(&[memory.piece()], EXPOSE_READ, To::Session(id))
                .expect("expose");
            line.say(memory.address());
            line.say(handle);
            line.hear();
        });
        let (address, handle) = (child.line.hear(), child.line.hear());
        let memory = Memory::filled(most, 9);
        // SAFETY: no argument.
        let trap = median(|| unsafe { mine.raw(abi::PING, 0).expect("ping") });
        println!("REPORT: a trap takes {trap} ns");
        for len in [0x1000, 0x4000, 0x1_0000, 0x4_0000, most] {
            let module = median(|| {
                let copied = mine.copy(handle, 0, &[memory.part(0, len)], COPY_READ);
                assert_eq!(copied, (len as u64, Ok(())));
            });
            check(&memory[..len], 4, 0);
            let attach = median(|| {
                let local = libc::iovec {
                    iov_base: memory.pointer().cast(),
                    iov_len: len,
                };
                let remote = libc::iovec {
                    iov_base: address as *mut _,
                    iov_len: len,
                };
                // SAFETY: the local piece is memory of this test; the remote one is the kernel's to
                // check.
                let copied =
                    unsafe { libc::process_vm_readv(child.pid(), &local, 1, &remote, 1, 0) };
                assert_eq!(copied, len as isize);
            });
            println!(
                "REPORT: {len} bytes: module {module} ns, cross-memory attach {attach} ns: {:.2}",
                module as f64 / attach as f64
            );
        }
        child.line.say(0);
        child.join();
    });
}
