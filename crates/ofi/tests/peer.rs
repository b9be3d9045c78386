//! The provider beside others: an owner of the queues, as libfabric's `lnx` is one, drives it.

#![expect(unsafe_code, reason = "libfabric's interface is called")]

mod owner;
mod provider;

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use limic_ofi_abi::errno::{FI_EBUSY, FI_EINVAL, FI_ENODATA, FI_ENOSYS, FI_ETRUNC};
use limic_ofi_abi::peer::fi_peer_cq_context;
use limic_ofi_abi::*;

use self::owner::{Ends, Held, Libfabric, open_queue, open_queue_of};
use self::provider::{command, finish, provider};

/// Names a `libfabric.so.1` of a version that has peer mode.
const NEW: &str = "LIMIC_TEST_LIBFABRIC2";
/// In the process that a test starts: the libfabric to load.
const LIBRARY: &str = "LIMIC_TEST_OWNER_OF";
/// The name that two endpoints have.
const NAMES: [fi_addr_t; 2] = [0x1_0007, 0x2_0009];

/// Runs a test in a process of its own, whose environment names the provider. Gives what it wrote
/// to the standard error.
fn apart(test: &str, library: PathBuf, body: impl FnOnce(&Libfabric)) -> String {
    if let Some(library) = std::env::var_os(LIBRARY) {
        let library = CString::new(library.into_vec()).expect("a path");
        body(&Libfabric::load(&library));
        return String::new();
    }
    let provider = provider();
    let tests = std::env::current_exe().expect("a path");
    let mut command = command(tests, provider.path());
    command
        .args(["--exact", test, "--nocapture"])
        .env("FI_LOG_LEVEL", "info")
        .env("FI_LOG_PROV", "limic")
        .env(LIBRARY, library);
    let output = finish(command.spawn().expect("started"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{output:?}"
    );
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!errors.contains("a bug of limic"), "{errors}");
    errors
}

/// A libfabric whose peer mode is known.
fn new_libfabric() -> Option<PathBuf> {
    if std::env::var_os(LIBRARY).is_some() {
        return Some(PathBuf::new());
    }
    let named = std::env::var_os(NEW).map(PathBuf::from);
    if named.is_none() {
        println!("SKIPPED: no libfabric of 2.3 to 2.6 ({NEW} names its libfabric.so.1)");
    }
    named
}

/// Two endpoints whose address vector knows both; gives where they stand.
fn two_ends(libfabric: &Libfabric) -> (Ends, [fi_addr_t; 2]) {
    let info = libfabric.info().expect("limic is offered");
    // SAFETY: libfabric made it.
    assert_eq!(unsafe { (*info).mode }, 0, "owners lend nothing");
    let ends = Ends::open(info, libfabric.domain(info));
    let places = [ends.insert(0, NAMES[0]), ends.insert(1, NAMES[1])];
    (ends, places)
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + seed) as u8).collect()
}

const LENGTHS: [usize; 6] = [0, 8, 100, 5000, 70_000, 3_000_000];

#[test]
fn messages_find_the_receives_of_the_owner() {
    let Some(library) = new_libfabric() else {
        return;
    };
    apart(
        "messages_find_the_receives_of_the_owner",
        library,
        |libfabric| {
            let (ends, places) = two_ends(libfabric);
            for (round, len) in LENGTHS.into_iter().enumerate() {
                for (tag, early) in [
                    (Some(5), true),
                    (Some(5), false),
                    (None, true),
                    (None, false),
                ] {
                    let out = bytes(len, round);
                    let mut room = vec![0; len];
                    if early {
                        ends.receive(NAMES[0], tag, &mut room, 1);
                    }
                    ends.send(0, places[1], &out, tag, 77, 2);
                    if !early {
                        ends.wait_for_unexpected(1);
                        assert_eq!(ends.first_unexpected(), (77, NAMES[0]));
                        ends.receive(FI_ADDR_UNSPEC, tag, &mut room, 1);
                    }
                    let all = ends.completions(2);
                    let of = |context| {
                        all.iter()
                            .find(|it| it.context == context)
                            .expect("reported")
                    };
                    let kind = if tag.is_some() { FI_TAGGED } else { FI_MSG };
                    assert_eq!(of(2).flags & (FI_SEND | FI_RECV | kind), FI_SEND | kind);
                    let received = of(1);
                    assert_eq!(received.error.0, 0);
                    let wanted = FI_RECV | kind | FI_REMOTE_CQ_DATA;
                    assert_eq!(received.flags & (FI_SEND | wanted), wanted);
                    assert_eq!(
                        (received.len, received.data, received.source),
                        (len, 77, NAMES[0])
                    );
                    assert_eq!(received.tag, tag.unwrap_or(0));
                    assert_eq!(room, out);
                }
            }
            assert_eq!(ends.held.entries.get(), 0, "each entry was given back");
            ends.close();
        },
    );
}

#[test]
fn order_room_and_discarded_messages() {
    let Some(library) = new_libfabric() else {
        return;
    };
    apart("order_room_and_discarded_messages", library, |libfabric| {
        let (ends, places) = two_ends(libfabric);
        // The owner has no room at first: nothing is lost, and nothing overtakes.
        ends.held.busy.set(3);
        let out: Vec<Vec<u8>> = (0..20).map(|at| bytes(10 * at, at)).collect();
        for (at, out) in out.iter().enumerate() {
            ends.send(0, places[1], out, Some(9), at as u64, 100);
        }
        ends.wait_for_unexpected(20);
        ends.completions(20);
        ends.discard();
        let mut room = [0; 200];
        for (at, out) in out.iter().enumerate().skip(1) {
            ends.receive(NAMES[0], Some(9), &mut room, 1);
            let received = ends.completions(1)[0];
            assert_eq!((received.data, received.len), (at as u64, out.len()));
            assert_eq!(&room[..out.len()], out);
        }
        // A message that is too long, whose receive waited.
        let long = bytes(9000, 3);
        ends.receive(FI_ADDR_UNSPEC, Some(4), &mut room, 1);
        ends.send(0, places[1], &long, Some(4), 6, 2);
        let all = ends.completions(2);
        let cut = all.iter().find(|it| it.context == 1).expect("reported");
        assert_eq!(cut.error, (FI_ETRUNC, 9000 - room.len()));
        assert_eq!((cut.len, cut.tag, cut.source), (room.len(), 4, NAMES[0]));
        assert_eq!(ends.held.entries.get(), 0, "each entry was given back");
        // Sends of both, and receives.
        assert_eq!(ends.read_counter(), (20 + 1 + 19, 1));
        // What is waiting when all is closed, and was queued by an owner who calls back meanwhile.
        ends.held.calls_back.set(Some(ends.queue));
        ends.send(0, places[1], &long, Some(4), 6, 2);
        ends.wait_for_unexpected(1);
        assert_eq!(ends.held.called_back.take(), [-(FI_EBUSY as isize)]);
        ends.close_and_discard();
    });
}

#[test]
fn senders_get_their_names_late() {
    let Some(library) = new_libfabric() else {
        return;
    };
    apart("senders_get_their_names_late", library, |libfabric| {
        let info = libfabric.info().expect("limic is offered");
        let ends = Ends::open(info, libfabric.domain(info));
        let second = ends.insert(1, NAMES[1]);
        let out = bytes(50, 1);
        ends.send(0, second, &out, Some(3), 1, 2);
        ends.wait_for_unexpected(1);
        ends.completions(1);
        assert_eq!(ends.first_unexpected().1, FI_ADDR_UNSPEC);
        ends.insert(0, NAMES[0]);
        assert_eq!(ends.first_unexpected().1, NAMES[0]);
        let mut room = [0; 50];
        ends.receive(NAMES[0], Some(3), &mut room, 1);
        assert_eq!(ends.completions(1)[0].source, NAMES[0]);
        assert_eq!(room[..], out);
        ends.close();
    });
}

#[test]
fn completions_are_read_at_the_owner_alone() {
    let Some(library) = new_libfabric() else {
        return;
    };
    apart(
        "completions_are_read_at_the_owner_alone",
        library,
        |libfabric| {
            let (ends, _) = two_ends(libfabric);
            let mut room = [0_u8; 64];
            // SAFETY: as the tables say.
            unsafe {
                let read = (*(*ends.queue).ops).read;
                let code = read(ends.queue, room.as_mut_ptr().cast(), 1);
                assert_eq!(code, -(FI_ENOSYS as isize));
                let set = (*(*ends.counter).ops).set;
                assert_eq!(set(ends.counter, 1), -FI_ENOSYS);
            }
            ends.close();
        },
    );
}

#[test]
fn an_owner_with_less_than_is_known_is_refused() {
    let Some(library) = new_libfabric() else {
        return;
    };
    let test = "an_owner_with_less_than_is_known_is_refused";
    apart(test, library, |libfabric| {
        let domain = libfabric.domain(libfabric.info().expect("limic is offered"));
        let held: &'static Held = Box::leak(Box::default());
        let whole = size_of::<fi_peer_cq_context>();
        // A table is a length and two functions.
        for (table, size) in [
            ([24, 64, 64], whole - 1),
            ([16, 64, 64], whole),
            ([24, 64, 0], whole),
        ] {
            let table = Box::leak(Box::<[usize; 3]>::new(table));
            let (code, _) = open_queue_of(domain, held, table.as_ptr().cast(), size);
            assert_eq!(code, FI_EINVAL);
        }
    });
}

/// The system's libfabric, or any that is older or newer than those whose peer mode is known.
#[test]
fn a_libfabric_whose_peer_mode_is_unknown_is_refused() {
    let test = "a_libfabric_whose_peer_mode_is_unknown_is_refused";
    let system = PathBuf::from("libfabric.so.1");
    // SAFETY: a library whose start has no conditions; it is only looked for.
    let there = unsafe { libc::dlopen(c"libfabric.so.1".as_ptr(), libc::RTLD_LAZY) };
    if there.is_null() {
        println!("SKIPPED: no libfabric (package libfabric1)");
        return;
    }
    let known = "peer mode's structures of libfabric";
    let errors = apart(test, system, |libfabric| match libfabric.info() {
        Ok(_) => println!("SKIPPED: the system's libfabric has a peer mode that is known"),
        Err(code) => {
            assert_eq!(code, FI_ENODATA);
            let info = libfabric.info_without_owner();
            let held: &'static Held = Box::leak(Box::default());
            let (code, _) = open_queue(libfabric.domain(info), held);
            assert_eq!(code, FI_EINVAL);
        }
    });
    let said = errors.matches(known).count();
    assert!(
        said != 1,
        "fi_getinfo and fi_cq_open each say why: {errors}"
    );
}
