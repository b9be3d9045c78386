//! Descriptors that came from a peer, or that peers can put others into, are closed so that nobody
//! waits.
//!
//! The last close of a TCP socket with SO_LINGER waits until its bytes are through, and that of a
//! file of FUSE or NFS until a server has answered. A Unix socket closes what lies unread in its
//! queue. So a peer could hold up whoever closes what it has sent. What may be of that kind is
//! closed by a thread that there is only then; honest peers send nothing of it.

use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::fcntl_get_seals;
use rustix::net::sockopt::{set_socket_passcred, socket_domain, socket_type};
use rustix::net::{AddressFamily, RecvFlags, Shutdown, SocketType, recv, shutdown};

use crate::process::{LockHere, Process, start_thread};

/// Descriptors that wait to be closed before nobody is accepted any more who may bring others.
const MANY: usize = 64;

/// What waits to be closed.
#[derive(Default)]
struct Waiting {
    fds: Vec<OwnedFd>,
    /// The process that has a thread for it. A forked child has not its parent's.
    thread: Option<Process>,
}

static WAITING: LockHere<Waiting> = LockHere::new(Waiting {
    fds: Vec::new(),
    thread: None,
});

/// Whether so many descriptors that peers have passed wait to be closed that no others should be
/// taken.
#[must_use]
pub fn many_wait_to_be_closed() -> bool {
    WAITING.lock().fds.len() >= MANY
}

/// Whether this is what honest peers pass: memory, or a Unix stream with no descriptors in its
/// queue, as doorbells are. Its close never waits.
///
/// The kernel answers by itself, whatever it is: no file system is asked, which may be a FUSE
/// daemon of the peer.
pub(super) fn closes_at_once(fd: BorrowedFd<'_>) -> bool {
    let is_memory = fcntl_get_seals(fd).is_ok();
    let is_stream = || {
        socket_domain(fd) == Ok(AddressFamily::UNIX) && socket_type(fd) == Ok(SocketType::STREAM)
    };
    is_memory || is_stream() && !brings_descriptors(fd)
}

/// Closes what a peer has passed.
pub(super) fn close(fd: OwnedFd) {
    if closes_at_once(fd.as_fd()) {
        drop(fd);
    } else {
        close_aside(fd);
    }
}

/// Has a descriptor closed by a thread.
fn close_aside(fd: OwnedFd) {
    let here = Process::current();
    let mut waiting = WAITING.lock();
    waiting.fds.push(fd);
    if waiting.thread == Some(here) {
        return;
    }
    waiting.thread = Some(here);
    drop(waiting);
    let close_all = || {
        while let Some(fd) = next() {
            drop(fd);
        }
    };
    if start_thread("limic-closes", Some(64 << 10), close_all).is_err() {
        // The next one tries again.
        WAITING.lock().thread = None;
    }
}

fn next() -> Option<OwnedFd> {
    let mut waiting = WAITING.lock();
    let fd = waiting.fds.pop();
    if fd.is_none() {
        waiting.thread = None;
    }
    fd
}

/// A socket of this process into whose queue peers can put descriptors.
#[derive(Debug)]
pub(super) struct OwnSocket {
    fd: ManuallyDrop<OwnedFd>,
    process: Process,
}

impl OwnSocket {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self {
            fd: ManuallyDrop::new(fd),
            process: Process::current(),
        }
    }

    /// From now on nothing is put into the queue. False in a forked child, which has a copy of its
    /// parent's socket.
    pub(super) fn shut(&self) -> bool {
        let own = self.process.is_current();
        if own {
            // It fails only where the connection has ended.
            let _ = shutdown(&*self.fd, Shutdown::Both);
        }
        own
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        let own = self.shut();
        // SAFETY: nobody uses it after this.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        // Nothing ends with a copy.
        if own && brings_descriptors(fd.as_fd()) {
            close_aside(fd);
        }
    }
}

impl Deref for OwnSocket {
    type Target = OwnedFd;
    fn deref(&self) -> &OwnedFd {
        &self.fd
    }
}

impl AsFd for OwnSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Messages that are looked at: more than a queue holds of honest ones.
const LOOKS: u32 = 4096;

/// Takes what is in the queue of a Unix socket, up to a message that brings descriptors. True if
/// there is one, as far as can be seen.
fn brings_descriptors(fd: BorrowedFd<'_>) -> bool {
    // Then each message, and an empty one too, comes with credentials. The end of the connection
    // does not. A stream has no empty ones.
    let _ = set_socket_passcred(fd, true);
    let is_stream = socket_type(fd) == Ok(SocketType::STREAM);
    for _ in 0..LOOKS {
        match look(fd) {
            Look::Nothing => return false,
            Look::Descriptors => return true,
            Look::Bytes(0) if is_stream => return false,
            // Not more of a stream than was looked at.
            Look::Bytes(len) => {
                let _ = recv(fd, &mut [0; PART][..len.max(1)], RecvFlags::DONTWAIT);
            }
            Look::Interrupted => {}
        }
    }
    true
}

/// Bytes that are looked at.
const PART: usize = 512;

/// What comes first in a queue.
enum Look {
    Nothing,
    /// So many, and nothing else.
    Bytes(usize),
    Descriptors,
    Interrupted,
}

/// Bytes of credentials in a control message.
const fn credentials() -> usize {
    // SAFETY: CMSG_SPACE only computes with its argument.
    unsafe { libc::CMSG_SPACE(size_of::<libc::ucred>() as u32) as usize }
}

fn look(fd: BorrowedFd<'_>) -> Look {
    const ROOM: usize = credentials();
    let mut room = [MaybeUninit::<u64>::uninit(); ROOM.div_ceil(8)];
    let mut bytes = [0_u8; PART];
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: PART,
    };
    // SAFETY: integers and pointers, for which zeroes are valid.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = room.as_mut_ptr().cast();
    message.msg_controllen = ROOM as _;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: a header with room for bytes, and for credentials, which leave none for descriptors.
    let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags) };
    match usize::try_from(got) {
        Ok(_) if message.msg_flags & libc::MSG_CTRUNC != 0 => Look::Descriptors,
        Ok(0) if message.msg_controllen == 0 => Look::Nothing,
        Ok(len) => Look::Bytes(len),
        Err(_) => match std::io::Error::last_os_error().raw_os_error() {
            // The first says once that the peer has not read all; what it sent comes then.
            Some(libc::ECONNRESET | libc::EINTR) => Look::Interrupted,
            _ => Look::Nothing,
        },
    }
}

#[cfg(all(test, not(miri), not(loom)))]
mod tests {
    use core::time::Duration;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;
    use std::time::Instant;

    use rustix::net::{SocketFlags, socketpair, sockopt};

    use super::super::socket::{Received, Socket};
    use super::*;

    const WATCHDOG: Duration = Duration::from_secs(60);

    /// A socket whose close waits for the other one, which does not read.
    fn lingers() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback");
        let mut one = TcpStream::connect(listener.local_addr().expect("bound")).expect("listens");
        let (other, _) = listener.accept().expect("it has called");
        one.set_nonblocking(true).expect("a socket");
        while one.write(&[0; 1 << 16]).is_ok() {}
        sockopt::set_socket_linger(&one, Some(10 * WATCHDOG)).expect("a socket");
        (one.into(), other)
    }

    fn pair(kind: SocketType) -> [OwnedFd; 2] {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socketpair(AddressFamily::UNIX, kind, flags, None)
            .expect("descriptors")
            .into()
    }

    /// Runs what must not wait while the sockets linger.
    fn does_not_wait(lingering: Vec<TcpStream>, body: impl FnOnce() + Send + 'static) {
        let (done, is_done) = mpsc::channel();
        let runs = std::thread::spawn(move || {
            body();
            let _ = done.send(());
        });
        let outcome = is_done.recv_timeout(WATCHDOG);
        // The closes end.
        drop(lingering);
        runs.join().expect("no panic");
        outcome.expect("it waits for a close");
        let start = Instant::now();
        while WAITING.lock().thread.is_some() {
            assert!(start.elapsed() < WATCHDOG, "nobody closes");
            std::thread::yield_now();
        }
    }

    /// Sends descriptors, and closes them here.
    fn pass(by: &Socket, fds: Vec<OwnedFd>) {
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let _sent = by.send(b"message", &borrowed).expect("sent");
    }

    #[test]
    fn nobody_waits_for_the_close_of_what_a_peer_has_passed() {
        let (lingering, other) = lingers();
        let [one, two] = pair(SocketType::SEQPACKET).map(Socket::from_connected);
        pass(&one, vec![lingering]);
        drop(one);
        does_not_wait(vec![other], move || {
            let error = two
                .receive(&mut [0; 16])
                .expect_err("no memory and no doorbell");
            assert!(error.to_string().contains("neither"), "{error}");
        });
    }

    #[test]
    fn nobody_waits_for_what_lies_in_the_queue_of_what_a_peer_has_passed() {
        let (lingering, other) = lingers();
        let [one, two] = pair(SocketType::SEQPACKET).map(Socket::from_connected);
        let [inner, passed] = pair(SocketType::STREAM).map(Socket::from_connected);
        pass(&inner, vec![lingering]);
        drop(inner);
        pass(
            &one,
            vec![passed.as_fd().try_clone_to_owned().expect("one")],
        );
        core::mem::forget(passed);
        does_not_wait(vec![other], move || {
            let _why = two.receive(&mut [0; 16]).expect_err("no empty queue");
        });
    }

    #[test]
    fn nobody_waits_for_what_lies_unread_in_a_socket() {
        let ((first, other), (second, another)) = (lingers(), lingers());
        let [one, two] = pair(SocketType::SEQPACKET).map(Socket::from_connected);
        // An empty message looks like the end.
        rustix::net::send(&one, &[], rustix::net::SendFlags::empty()).expect("sent");
        pass(&one, vec![first]);
        let [more, than] = pair(SocketType::SEQPACKET).map(Socket::from_connected);
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").expect("a file"));
        pass(&more, vec![file(), file(), file(), second]);
        drop((one, more));
        does_not_wait(vec![other, another], move || {
            assert!(matches!(two.receive(&mut [0; 16]), Ok(Received::Closed)));
            drop((two, than));
        });
    }

    #[test]
    fn what_honest_peers_leave_unread_needs_no_thread() {
        for kind in [SocketType::SEQPACKET, SocketType::STREAM] {
            let [one, two] = pair(kind);
            assert!(!brings_descriptors(two.as_fd()));
            for len in [1, 2000] {
                rustix::net::send(&one, &vec![1; len], rustix::net::SendFlags::empty())
                    .expect("sent");
            }
            drop(one);
            assert!(!brings_descriptors(two.as_fd()));
        }
        let [one, two] = pair(SocketType::SEQPACKET).map(Socket::from_connected);
        let [bell, _] = pair(SocketType::STREAM);
        pass(&one, vec![bell]);
        two.take_all();
        assert!(!brings_descriptors(two.as_fd()));
    }
}
