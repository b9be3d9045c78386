//! Sockets with the options that connections have.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use limic_fabric::{MOST_STRETCHES, Stretch};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, ipproto, listen,
    socket_with, sockopt,
};

/// Calls that wait in the kernel until they are accepted: an endpoint that computes leaves the
/// whole job waiting there. The kernel has its own bound too (net.core.somaxconn).
pub(crate) const BACKLOG: i32 = 4096;

fn socket(ip: IpAddr) -> Result<OwnedFd, Errno> {
    let family = match ip {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
}

/// A socket that peers call, at this address; and where that is. The kernel keeps back who has
/// connected and says nothing, for this time about.
pub(crate) fn listener(ip: IpAddr, silent: Duration) -> Result<(OwnedFd, SocketAddr), Errno> {
    let listener = socket(ip)?;
    bind(&listener, &SocketAddr::new(ip, 0))?;
    defer_accept(listener.as_fd(), silent);
    listen(&listener, BACKLOG)?;
    let at = SocketAddr::try_from(getsockname(&listener)?)?;
    Ok((listener, at))
}

#[expect(unsafe_code, reason = "rustix has no TCP_DEFER_ACCEPT")]
fn defer_accept(listener: BorrowedFd<'_>, silent: Duration) {
    let seconds = libc::c_int::try_from(silent.as_secs()).unwrap_or(libc::c_int::MAX);
    let seconds = seconds.max(1);
    // SAFETY: the kernel reads one int, and `seconds` is one. Where it does not know the option,
    // such callers are accepted at once, and wait as strangers.
    unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

/// A socket that is being connected; from this address, if one is given and of the same family.
pub(crate) fn call(to: SocketAddr, from: Option<IpAddr>) -> Result<OwnedFd, Errno> {
    let socket = socket(to.ip())?;
    if let Some(from) = from.filter(|from| from.is_ipv4() == to.is_ipv4()) {
        bind(&socket, &SocketAddr::new(from, 0))?;
    }
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Small messages go at once, and a machine that is gone is noticed within this time though nothing
/// is sent, or the peer takes nothing.
pub(crate) fn prepare(socket: &OwnedFd, timeout: Duration) -> Result<(), Errno> {
    const TRIES: u32 = 3;
    let second = Duration::from_secs(1);
    sockopt::set_tcp_nodelay(socket, true)?;
    limit_pauses(socket.as_fd(), timeout / 4);
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, (timeout / 2).max(second))?;
    sockopt::set_tcp_keepintvl(socket, (timeout / (2 * TRIES)).max(second))?;
    sockopt::set_tcp_keepcnt(socket, TRIES)
}

/// The longest time between two tries of the kernel, in milliseconds (linux/tcp.h).
const TCP_RTO_MAX_MS: libc::c_int = 44;

/// Bounds the pauses of the kernel between its tries. They double, and while a peer takes nothing
/// they go on doubling, though it answers: a machine that is gone would not be asked for minutes.
#[expect(unsafe_code, reason = "rustix has no TCP_RTO_MAX_MS")]
fn limit_pauses(socket: BorrowedFd<'_>, longest: Duration) {
    // What the kernel takes.
    let longest = longest.as_millis().clamp(1000, 120_000) as libc::c_int;
    // SAFETY: the kernel reads one int, and `longest` is one. Linux before 6.15 does not know the
    // option, and goes on with pauses of up to two minutes.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            (&raw const longest).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

/// What `limit_pauses` has set. `None`: the kernel does not know the option.
#[cfg(test)]
#[expect(unsafe_code, reason = "rustix has no TCP_RTO_MAX_MS")]
pub(crate) fn longest_pause(socket: &OwnedFd) -> Option<libc::c_int> {
    let mut longest: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes one int, and `longest` is one.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            (&raw mut longest).cast(),
            &raw mut len,
        )
    };
    (got == 0).then_some(longest)
}

/// What went wrong with a socket, if anything did.
pub(crate) fn error_of(socket: &OwnedFd) -> Option<Errno> {
    match sockopt::socket_error(socket) {
        Ok(Ok(())) => None,
        Ok(Err(error)) | Err(error) => Some(error),
    }
}

/// Whether this error says that no network leads to the other machine now. One that is away for a
/// while may lead there again.
pub(crate) fn is_network_away(error: Errno) -> bool {
    matches!(
        error,
        Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::HOSTDOWN | Errno::NETUNREACH | Errno::NETDOWN
    )
}

/// Whether the other machine has not answered for this time, though it was asked more than once.
///
/// TCP_USER_TIMEOUT would end a connection too whose peer answers, but takes no bytes since its
/// process computes: so the kernel's own numbers are looked at instead.
#[expect(unsafe_code, reason = "rustix has no TCP_INFO")]
pub(crate) fn is_silent(socket: BorrowedFd<'_>, timeout: Duration) -> bool {
    // SAFETY: all of its fields are numbers.
    let mut info: libc::tcp_info = unsafe { core::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes no more than `len` bytes, all of them of `info`.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    let asked = info.tcpi_retransmits >= 2 || info.tcpi_probes >= 2;
    let heard = info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv);
    let heard = Duration::from_millis(heard.into());
    got == 0 && asked && heard > timeout
}

/// Whether bytes are on their way that the other machine has not acknowledged.
#[expect(unsafe_code, reason = "rustix has no SIOCOUTQ")]
pub(crate) fn is_under_way(socket: BorrowedFd<'_>) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ, writes one int.
    let got = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    got == 0 && bytes > 0
}

/// Bytes that one call writes of a long message.
///
/// A call of the kernel has the socket for itself as long as it copies, and acknowledgements wait
/// meanwhile: a sender whose window is full stands still until the call is over. So calls are
/// short. But what a call leaves at its end goes to the device alone, and a little costs as much
/// as a lot. So a call writes two times what the kernel hands to a device at a time: as many whole
/// segments as 64 KiB hold (decision 0027).
#[expect(unsafe_code, reason = "rustix has no TCP_MAXSEG")]
pub(crate) fn piece(socket: BorrowedFd<'_>) -> usize {
    /// Most bytes that the kernel hands to a device at a time. Headers are among them, which seldom
    /// take a segment's place. Where it hands over more or fewer, a call leaves a little at its
    /// end, and takes some more time.
    const TOGETHER: usize = 64 << 10;
    let mut segment: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes one int, and `segment` is one. If it fails, that is 0.
    unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw mut segment).cast(),
            &raw mut len,
        );
    }
    let segment = usize::try_from(segment).unwrap_or(0).clamp(1, TOGETHER);
    2 * (TOGETHER / segment * segment)
}

/// Writes some bytes, and at most `most` bytes of a message's data from its byte `from` on behind
/// them, by one call; gives how many went. If the data is in more parts than a call writes, it is
/// the first ones.
///
/// # Safety
/// The data can be read during the call.
#[expect(unsafe_code, reason = "the data is the application's")]
pub(crate) unsafe fn send_part_of(
    socket: BorrowedFd<'_>,
    before: &[u8],
    data: &[Stretch],
    (mut from, mut most): (usize, usize),
) -> Result<usize, Errno> {
    let part = |start: *const u8, len| libc::iovec {
        iov_base: start.cast_mut().cast(),
        iov_len: len,
    };
    let mut parts = [part(core::ptr::null(), 0); 1 + MOST_STRETCHES];
    parts[0] = part(before.as_ptr(), before.len());
    for (to, stretch) in parts[1..].iter_mut().zip(data) {
        let skipped = from.min(stretch.len);
        let len = most.min(stretch.len - skipped);
        // In the stretch, or at its end.
        *to = part(stretch.start.wrapping_add(skipped), len);
        (from, most) = (from - skipped, most - len);
    }
    // SAFETY: all of its fields are numbers or pointers.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = 1 + data.len().min(MOST_STRETCHES);
    // A peer that is gone is an error here, and not a signal.
    // SAFETY: the kernel reads the parts, which are there by the caller's promise, and writes
    // nothing.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    number_of_bytes(sent)
}

/// Reads into memory of the application; gives how many bytes came.
///
/// # Safety
/// `into` has room for `len` bytes.
#[expect(unsafe_code, reason = "the room is the application's")]
pub(crate) unsafe fn receive(
    socket: BorrowedFd<'_>,
    into: *mut u8,
    len: usize,
) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    number_of_bytes(unsafe { libc::recv(socket.as_raw_fd(), into.cast(), len, 0) })
}

fn number_of_bytes(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| {
        let error = std::io::Error::last_os_error().raw_os_error();
        Errno::from_raw_os_error(error.unwrap_or(0))
    })
}
