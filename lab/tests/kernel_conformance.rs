//! The conformance suite over the kernel module alone: every message is matched in the kernel.

use limic::raw::OneSided;
use limic::{Access, Endpoint, Error, KernelEndpoint, PeerFailure, Settings};
use limic_copy::{CopyEngine, Group, Kmod, LocalSlice, LocalSliceMut, RemoteRange};
use limic_lab_tests::in_guest;
use limic_module_tests::{Child, Fault, Memory};
use limic_tests::conformance::settings;
use limic_tests::process::pass;
use limic_tests::{Cast, conformance};
use std::time::Duration;

fn kernel_endpoint() -> limic::Result<KernelEndpoint> {
    KernelEndpoint::with(settings(|s| s)?)
}

conformance!(kernel, kernel_endpoint, only limic_lab_tests::in_guest);

/// Where there is no module, opening says so and what to do. On every machine without it, and in
/// the guest with the device out of the way.
#[test]
fn without_the_device_the_reason_is_told() {
    if std::path::Path::new("/dev/limic").exists() {
        if !in_guest() {
            return;
        }
        std::fs::rename("/dev/limic", "/dev/limic-away").expect("root may");
    }
    let error = KernelEndpoint::open().expect_err("there is no device");
    if std::path::Path::new("/dev/limic-away").exists() {
        std::fs::rename("/dev/limic-away", "/dev/limic").expect("root may");
    }
    let text = error.to_string();
    assert!(text.contains("/dev/limic"), "{text}");
    assert!(text.contains("kernel/limic_rs"), "{text}");
}

/// Endpoints of different groups do not reach each other, and say why.
#[test]
fn another_group_is_out_of_reach() {
    if !in_guest() {
        return;
    }
    let open = |group: &str| {
        let settings = Settings::builder().without_environment();
        let settings = settings.kernel_group(group).build().expect("settings");
        KernelEndpoint::with(settings)
    };
    let (one, same, other) = (open("one"), open("one"), open("other"));
    let one = one.expect("an endpoint");
    let (same, other) = (same.expect("an endpoint"), other.expect("an endpoint"));
    let peer = |of: &KernelEndpoint| one.connect(&of.address().to_bytes()).expect("an address");
    let (near, far) = (peer(&same), peer(&other));
    one.send(near, 1, b"hello").expect("send");
    let mut room = [0; 5];
    let status = same.recv(limic::Selector::any(), &mut room).expect("recv");
    assert_eq!((status.len, &room), (5, b"hello"));
    let error = one.send(far, 1, b"hello").expect_err("another group");
    assert!(error.to_string().contains("LIMIC_KERNEL_GROUP"), "{error}");
}

/// A receive that waits for long says what it waits for, as that of other endpoints does.
#[test]
fn a_receive_of_what_nobody_sends_names_tag_and_peer() {
    if !in_guest() {
        return;
    }
    let cast = Cast::new("a_receive_of_what_nobody_sends_names_tag_and_peer");
    let report = cast.run(|rank| {
        let settings = settings(|s| s.patience(Duration::from_millis(20))).expect("settings");
        let endpoint = KernelEndpoint::with(settings).expect("an endpoint");
        let peers = rank.connect(&endpoint);
        if rank.rank == 1 {
            // It is the time that is told of. A sleeping endpoint looks around four times in it.
            pass(Duration::from_secs(1));
            endpoint.send(peers[0], 5, b"now").expect("send");
        } else {
            let received = endpoint.recv((peers[1], 5), &mut [0; 8]);
            assert_eq!(received.expect("recv").len, 3);
        }
        rank.link.meet(&endpoint);
    });
    if let Some(report) = report {
        let output = &report.ended[0].output;
        let wanted = "has waited for 20ms in recv of tag 5 from peer 1";
        assert!(output.contains(wanted), "{output}");
    }
}

/// What a region is not for, the module refuses too, to who asks it past the endpoint.
#[test]
fn the_module_knows_what_a_region_is_for() {
    if !in_guest() {
        return;
    }
    let endpoint = kernel_endpoint().expect("an endpoint");
    let own = std::fs::read_dir("/proc/self/fd").expect("descriptors");
    let own = own.flatten().find_map(|entry| {
        let link = std::fs::read_link(entry.path()).ok()?;
        let number = entry.file_name().to_str()?.parse().ok()?;
        (link.to_str() == Some("/dev/limic")).then_some(number)
    });
    let other = Kmod::open().expect("a session");
    let group = Group::Descriptor(own.expect("the endpoint's session"));
    let (pair, member) = other.join(group).expect("join");
    let mut room = vec![0_u8; 4096];
    let mut memory = vec![7_u8; 4096];
    for (access, readable, writable) in [
        (Access::READ, true, false),
        (Access::WRITE, false, true),
        (Access::BOTH, true, true),
    ] {
        let slice = limic::raw::RawSliceMut::from(memory.as_mut_slice());
        // SAFETY: the vector stays where it is, and is not used until the region is revoked below.
        let exposed = unsafe { endpoint.expose_raw(slice, None, access, 0) };
        let (region, key) = exposed.expect("expose");
        let range = [RemoteRange {
            key,
            address: 0,
            len: 4096,
        }];
        let from = [LocalSlice::new(room.as_ptr(), room.len())];
        // SAFETY: `room` is readable, and nobody writes to it.
        let written = unsafe { pair.write_at(&member, &range, &from, 0, u64::MAX) };
        let into = [LocalSliceMut::new(room.as_mut_ptr(), room.len())];
        // SAFETY: `room` is writable, and nobody else uses it.
        let read = unsafe { pair.read_at(&member, &range, &into, 0, u64::MAX) };
        assert_eq!((read.is_ok(), written.is_ok()), (readable, writable));
        endpoint.revoke(region).expect("revoke");
    }
}

/// A process that is killed is named as dead to those that wait for it, and to one that waits for
/// anybody.
#[test]
fn a_killed_peer_is_named() {
    if !in_guest() {
        return;
    }
    let cast = Cast::new("a_killed_peer_is_named").ranks(3).dies(2);
    cast.run(|rank| {
        let endpoint = kernel_endpoint().expect("an endpoint");
        let peers = rank.connect(&endpoint);
        endpoint
            .send(peers[(rank.rank as usize + 1) % 3], 1, b"there")
            .expect("send");
        endpoint
            .recv(limic::Selector::any_source(1.into()), &mut [0; 5])
            .expect("recv");
        rank.link.meet(&endpoint);
        if rank.rank == 2 {
            limic_tests::process::die();
        }
        let selector = match rank.rank {
            0 => limic::Selector::exact(peers[2], 7.into()),
            _ => limic::Selector::any(),
        };
        let error = endpoint.recv(selector, &mut [0; 8]).expect_err("it died");
        let wanted = Error::PeerFailed {
            peer: peers[2],
            why: limic::PeerFailure::Died,
        };
        assert_eq!(error, wanted);
        let late = endpoint.send(peers[2], 1, &vec![0; 100_000]);
        assert_eq!(late, Err(wanted));
    });
}

/// A send finds that the peer has died, before the endpoint has looked what came of it.
#[test]
fn what_a_peer_had_sent_comes_before_its_death() {
    if !in_guest() {
        return;
    }
    let endpoint = kernel_endpoint().expect("an endpoint");
    let address = endpoint.address().to_bytes();
    let mut child = Child::fork(|line| {
        let endpoint = kernel_endpoint().expect("an endpoint");
        let parent = endpoint.connect(&address).expect("an address");
        endpoint.send(parent, 1, b"hello").expect("send");
        line.hear();
        endpoint.send(parent, 2, b"last").expect("send");
        // The end of its process is the end of its session.
        std::mem::forget(endpoint);
    });
    let hello = endpoint.recv(limic::Selector::any(), &mut [0; 8]);
    let peer = hello.expect("recv").peer;
    let last = endpoint.irecv(limic::Selector::any_source(2.into()), vec![0; 8]);
    let last = last.expect("irecv");
    child.line.say(0);
    child.join();
    let died = Error::PeerFailed {
        peer,
        why: PeerFailure::Died,
    };
    assert_eq!(endpoint.send(peer, 3, b"too late"), Err(died.clone()));
    assert_eq!(last.wait().expect("it came before").0.len, 4);
    // Who waits for anybody is told of it afterwards.
    let next = endpoint.recv(limic::Selector::any(), &mut [0; 8]);
    assert_eq!(next, Err(died));
}

/// More operations than the module has slots for, and receives that it may not pin.
#[test]
fn more_than_the_module_holds() {
    if !in_guest() {
        return;
    }
    const MANY: u64 = 3000;
    Cast::new("more_than_the_module_holds").run(|rank| {
        let endpoint = kernel_endpoint().expect("an endpoint");
        let peers = rank.connect(&endpoint);
        let message = |tag: u64| tag.to_le_bytes().repeat(600);
        if rank.rank == 0 {
            let sends: Vec<_> = (0..MANY)
                .map(|tag| endpoint.isend(peers[1], tag, message(tag)).expect("isend"))
                .collect();
            for send in sends {
                send.wait().expect("send");
            }
        } else {
            let receives: Vec<_> = (0..MANY)
                .rev()
                .map(|tag| {
                    let from = (peers[0], tag);
                    (tag, endpoint.irecv(from, vec![0; 4800]).expect("irecv"))
                })
                .collect();
            for (tag, receive) in receives {
                assert!(receive.wait().expect("receive").1 == message(tag), "{tag}");
            }
        }
        rank.link.meet(&endpoint);
    });
}

/// A forked child that uses its parent's endpoint gets errors and goes on; the parent's messages
/// are not touched.
#[test]
fn a_forked_child_is_told_and_the_parent_goes_on() {
    if !in_guest() {
        return;
    }
    let endpoint = kernel_endpoint().expect("an endpoint");
    let me = endpoint.myself();
    let pending = endpoint.irecv((me, 1), vec![0; 100_000]).expect("irecv");
    // SAFETY: the child goes on in this thread alone and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        endpoint.progress();
        let sent = endpoint.send(me, 1, &vec![0; 100_000]).is_err();
        let received = pending.wait_buffer().0.is_err();
        let probed = endpoint.probe(limic::Selector::any()).is_err();
        endpoint.close();
        drop(endpoint);
        // SAFETY: ends the child without running what the parent will run at its own exit.
        unsafe { libc::_exit(i32::from(!(sent && received && probed))) };
    }
    let mut status = 0;
    // SAFETY: waits for the child of this test.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child's three calls failed, and it ended");
    endpoint.send(me, 1, &vec![7; 100_000]).expect("send");
    let (_, buffer) = pending.wait().expect("receive");
    assert!(buffer.iter().all(|byte| *byte == 7));
}

/// The sender has met the receive, and sleeps in a page fault of its own for as long as somebody
/// likes. A forked child holds the session, so it does not end with the endpoint's descriptor.
#[test]
fn nobody_writes_into_a_receive_once_its_endpoint_is_closed() {
    if !in_guest() {
        return;
    }
    const LEN: usize = 100_000;
    let receiver = kernel_endpoint().expect("an endpoint");
    let sender = kernel_endpoint().expect("an endpoint");
    let from = receiver.connect(&sender.address().to_bytes());
    let to = sender.connect(&receiver.address().to_bytes());
    let (from, to) = (from.expect("an address"), to.expect("an address"));
    let mut child = Child::fork(|line| {
        line.hear();
    });
    let memory = Memory::new(LEN);
    let mut fault = Fault::hold(&memory, 0);
    let pending = receiver.irecv((from, 1), vec![0; LEN]).expect("irecv");
    let sent = std::thread::scope(|scope| {
        let sent = scope.spawn(|| {
            let sender = sender;
            sender.send(to, 1, &memory)
        });
        let page = fault.touched();
        receiver.close();
        let (ended, mut buffer) = pending.wait_buffer();
        assert!(ended.is_err(), "{ended:?}");
        buffer.fill(9);
        fault.release(page);
        drop(fault);
        let sent = sent.join().expect("no panic");
        assert!(buffer.iter().all(|&byte| byte == 9));
        sent
    });
    let closed = Error::PeerFailed {
        peer: to,
        why: PeerFailure::Closed,
    };
    assert_eq!(sent, Err(closed), "told at once, though a child holds it");
    child.line.say(0);
    child.join();
}
