//! Somebody greets an endpoint with its own address: nobody else than the endpoint itself may be
//! the peer of that address.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use limic::{ADDRESS_LEN, Address, Endpoint, HybridEndpoint};
use limic_tests::process::socket_name;
use limic_tests::{Cast, Link, check, content};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    UnixAddr, accept4, bind, connect, listen, recvmsg, sendmsg, socket,
};

fn name(address: &Address) -> UnixAddr {
    UnixAddr::new_abstract(socket_name(address).as_bytes()).expect("a name")
}

fn seqpacket() -> OwnedFd {
    let flags = SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).expect("socket")
}

/// A whole greeting with its descriptors, as an endpoint of this process sends it to somebody whose
/// address it was given.
fn greeting(to: &Address) -> (Vec<u8>, Vec<OwnedFd>) {
    let listener = seqpacket();
    bind(listener.as_raw_fd(), &name(to)).expect("bind");
    listen(&listener, Backlog::new(8).expect("a backlog")).expect("listen");
    let endpoint = HybridEndpoint::open().expect("open");
    let peer = endpoint.connect(&to.to_bytes()).expect("an address");
    let _send = endpoint.isend(peer, 1_u64, vec![0; 8]).expect("isend");
    let accepted = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC).expect("accept");
    // SAFETY: just made, and nobody else's.
    let accepted = unsafe { OwnedFd::from_raw_fd(accepted) };
    let mut bytes = vec![0; 4096];
    let mut room = nix::cmsg_space!([RawFd; 4]);
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let message = recvmsg::<UnixAddr>(
        accepted.as_raw_fd(),
        &mut slices,
        Some(&mut room),
        MsgFlags::empty(),
    )
    .expect("a greeting");
    let len = message.bytes;
    let mut descriptors = Vec::new();
    for part in message.cmsgs().expect("whole control messages") {
        if let ControlMessageOwned::ScmRights(part) = part {
            // SAFETY: the kernel has just made them for this process.
            descriptors.extend(part.iter().map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) }));
        }
    }
    bytes.truncate(len);
    (bytes, descriptors)
}

/// Greets `victim` with its own address, and gives the first word of what it answers.
fn greet_as_itself(link: &Link, endpoint: &HybridEndpoint, victim: &Address) -> u32 {
    // Somewhere else, so that an endpoint of this process greets this test instead of the victim.
    let mut bytes = victim.to_bytes();
    bytes[12] ^= 1;
    let elsewhere = Address::from_bytes(&bytes).expect("an address");
    let (mut hello, descriptors) = greeting(&elsewhere);
    hello[16..16 + ADDRESS_LEN].copy_from_slice(&victim.to_bytes());
    let socket = seqpacket();
    connect(socket.as_raw_fd(), &name(victim)).expect("connect");
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let control = [ControlMessage::ScmRights(&raw)];
    let slices = [IoSlice::new(&hello)];
    sendmsg::<UnixAddr>(
        socket.as_raw_fd(),
        &slices,
        &control,
        MsgFlags::MSG_NOSIGNAL,
        None,
    )
    .expect("sendmsg");
    let _ = link.exchange(&[]);
    let mut answer = [0; 4096];
    let len = nix::unistd::read(&socket, &mut answer).expect("an answer");
    link.meet(endpoint);
    assert!(len >= 4, "an answer of {len} bytes");
    u32::from_le_bytes(answer[..4].try_into().expect("4 bytes"))
}

#[test]
fn a_greeting_with_the_own_address_is_refused() {
    const REFUSAL: u32 = 3;
    Cast::new("a_greeting_with_the_own_address_is_refused").run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let blobs = rank.link.exchange(&endpoint.address().to_bytes());
        let victim = blobs[0].as_ref().expect("alive");
        let victim = Address::from_bytes(victim).expect("an address");
        if rank.rank == 1 {
            let answer = greet_as_itself(&rank.link, &endpoint, &victim);
            assert_eq!(answer, REFUSAL, "the kind of the answer");
            return;
        }
        let me = endpoint.myself();
        let _ = rank
            .link
            .exchange_while(&[], || endpoint.sleep(Some(Duration::ZERO)));
        rank.link.meet(&endpoint);
        for len in [8, 10_000, 8] {
            let mut inbox = vec![0; len];
            let status = endpoint.send_recv(me, 1_u64, &content(1, len), (me, 1), &mut inbox);
            assert_eq!(status.expect("to itself").peer, me);
            check(1, &inbox);
        }
    });
}
