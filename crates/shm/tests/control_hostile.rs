//! What a hostile peer can send, and that no descriptor of it stays.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use limic_shm::control::{
    ControlError, Doorbell, DoorbellError, Listener, MAX_FDS, MAX_MESSAGE, PeerDoorbell, Received,
    Sent, Socket, abstract_name,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, bind, listen, sendmsg, socket_with,
};

/// The tests of this file count the descriptors of the process: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn pair() -> (Socket, Socket) {
    let listener = Listener::bind(getrandom::u64().unwrap()).unwrap();
    let near = Socket::connect(listener.id()).unwrap();
    let far = listener.accept().unwrap().unwrap();
    (near, far)
}

/// Sends without any of the checks of `Socket::send`.
fn send_raw(channel: &Socket, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    sendmsg(
        channel,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )
    .unwrap();
}

#[test]
fn up_to_four_descriptors_arrive() {
    let _alone = alone();
    let (near, far) = pair();
    let doorbell = Doorbell::new().unwrap();
    let before = open_fds();
    for count in 0..=MAX_FDS {
        let fds = vec![doorbell.for_peers(); count];
        assert_eq!(near.send(b"hello", &fds).unwrap(), Sent::Done);
        let mut buffer = [0; 5];
        let Received::Message { len, fds } = far.receive(&mut buffer).unwrap() else {
            panic!("no message")
        };
        assert_eq!((&buffer[..len], fds.len()), (&b"hello"[..], count));
        for fd in &fds {
            assert!(
                rustix::io::fcntl_getfd(fd)
                    .unwrap()
                    .contains(rustix::io::FdFlags::CLOEXEC)
            );
        }
    }
    assert_eq!(open_fds(), before);
    assert!(matches!(
        far.receive(&mut [0; 5]).unwrap(),
        Received::WouldBlock
    ));
}

/// Takes a message that was refused: nothing in it makes that wait.
fn take(from: &Socket) {
    let none = rustix::net::RecvFlags::DONTWAIT;
    rustix::net::recv(from, &mut [0; 1], none).expect("it is still there");
}

#[test]
fn too_many_descriptors_are_refused_and_closed() {
    let _alone = alone();
    let (near, far) = pair();
    let doorbell = Doorbell::new().unwrap();
    let before = open_fds();
    for count in [5, 6, 7, 40] {
        send_raw(&near, b"x", &vec![doorbell.for_peers(); count]);
        let error = far.receive(&mut [0; 16]).unwrap_err();
        assert!(
            matches!(error, ControlError::TooManyFds { limit: 4 }),
            "{error}"
        );
        assert_eq!(open_fds(), before);
        take(&far);
    }
    // The next message is not disturbed.
    assert_eq!(near.send(b"y", &[]).unwrap(), Sent::Done);
    assert!(matches!(
        far.receive(&mut [0; 16]).unwrap(),
        Received::Message { len: 1, .. }
    ));
}

#[test]
fn long_messages_are_refused_and_their_descriptors_closed() {
    let _alone = alone();
    let (near, far) = pair();
    let doorbell = Doorbell::new().unwrap();
    let before = open_fds();
    send_raw(
        &near,
        &[7; 10_000],
        &[doorbell.for_peers(), doorbell.for_peers()],
    );
    let error = far.receive(&mut [0; MAX_MESSAGE]).unwrap_err();
    assert!(
        matches!(
            error,
            ControlError::TooLong {
                capacity: MAX_MESSAGE
            }
        ),
        "{error}"
    );
    assert_eq!(open_fds(), before);
    take(&far);
    assert!(matches!(
        far.receive(&mut [0; 16]).unwrap(),
        Received::WouldBlock
    ));
}

#[test]
fn an_empty_message_ends_the_channel_and_leaks_nothing() {
    let _alone = alone();
    let (near, far) = pair();
    let doorbell = Doorbell::new().unwrap();
    let before = open_fds();
    send_raw(&near, b"", &[doorbell.for_peers()]);
    assert!(matches!(
        far.receive(&mut [0; 16]).unwrap(),
        Received::Closed
    ));
    assert_eq!(open_fds(), before);
    take(&far);
}

#[test]
fn messages_that_are_none_are_not_sent() {
    let _alone = alone();
    let (near, far) = pair();
    let doorbell = Doorbell::new().unwrap();
    assert!(matches!(near.send(b"", &[]), Err(ControlError::Empty)));
    assert!(matches!(
        near.send(&[0; MAX_MESSAGE + 1], &[]),
        Err(ControlError::TooLong { .. })
    ));
    assert!(matches!(
        near.send(b"x", &[doorbell.for_peers(); 5]),
        Err(ControlError::TooManyFds { .. })
    ));
    assert!(matches!(far.receive(&mut []), Err(ControlError::Empty)));
    assert!(matches!(
        far.receive(&mut [0; 16]).unwrap(),
        Received::WouldBlock
    ));
}

#[test]
fn a_full_queue_says_so_and_takes_more_later() {
    let _alone = alone();
    let (near, far) = pair();
    let mut sent = 0;
    while near.send(&[1; MAX_MESSAGE], &[]).unwrap() == Sent::Done {
        sent += 1;
        assert!(sent < 100_000, "the queue never fills up");
    }
    assert!(sent > 0);
    let mut buffer = [0; MAX_MESSAGE];
    for _ in 0..sent {
        assert!(matches!(
            far.receive(&mut buffer).unwrap(),
            Received::Message { .. }
        ));
    }
    assert_eq!(near.send(&[1; MAX_MESSAGE], &[]).unwrap(), Sent::Done);
}

#[test]
fn a_full_backlog_is_told_from_nobody_there() {
    let _alone = alone();
    let id = getrandom::u64().unwrap();
    let error = Socket::connect(id).unwrap_err();
    assert!(error.to_string().contains("network namespace"), "{error}");
    assert!(matches!(error, ControlError::NobodyListens { .. }));

    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let lazy = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let name = abstract_name(id);
    bind(
        &lazy,
        &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap(),
    )
    .unwrap();
    listen(&lazy, 0).unwrap();
    let mut waiting = Vec::new();
    let error = loop {
        match Socket::connect(id) {
            Ok(channel) => waiting.push(channel),
            Err(error) => break error,
        }
        assert!(waiting.len() < 100, "the backlog never fills up");
    };
    assert!(matches!(error, ControlError::BacklogFull { .. }), "{error}");
}

/// Silencing it would close them.
#[test]
fn nobody_puts_descriptors_into_a_doorbell() {
    let _alone = alone();
    let doorbell = Doorbell::new().unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [doorbell.for_peers()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let byte = [IoSlice::new(b"x")];
    match sendmsg(
        doorbell.for_peers(),
        &byte,
        &mut control,
        SendFlags::NOSIGNAL,
    ) {
        Err(Errno::PERM) => doorbell.ring(),
        Ok(_) => println!("SKIPPED: the kernel is older than Linux 6.16"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn only_a_unix_stream_socket_is_a_doorbell() {
    let _alone = alone();
    let (near, _far) = pair();
    let (reader, writer) = std::io::pipe().unwrap();
    let datagrams = std::os::unix::net::UnixDatagram::unbound().unwrap();
    let other_family = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let counter = rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let before = open_fds();
    let others: [OwnedFd; 7] = [
        std::fs::File::open("/proc/self/exe").unwrap().into(),
        rustix::io::fcntl_dupfd_cloexec(&near, 0).unwrap(),
        reader.try_clone().unwrap().into(),
        writer.try_clone().unwrap().into(),
        datagrams.try_clone().unwrap().into(),
        other_family.try_clone().unwrap().into(),
        counter.try_clone().unwrap(),
    ];
    for other in others {
        let error = PeerDoorbell::from_fd(other).unwrap_err();
        assert!(
            matches!(error, DoorbellError::NotUnixStream { .. }),
            "{error}"
        );
        println!("{error}");
    }
    assert_eq!(open_fds(), before);
    let doorbell = Doorbell::new().unwrap();
    PeerDoorbell::from_fd(doorbell.for_peers().try_clone_to_owned().unwrap()).unwrap();
}
