//! Endpoints that were given a service: who knows it asks for their address.
//!
//! Each has a socket in the abstract namespace, which is gone with it, and a thread that sleeps
//! until somebody asks. An address has a secret: it is told to processes of the same user alone,
//! and believed from them alone.

use std::io::Write as _;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use limic::{ADDRESS_LEN, Address};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::log;
use crate::threads::{self, Thread};
use limic_ofi_abi::errno::*;

/// Longer than anybody takes to say 64 bytes. Other calls about the domain wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long nobody is told anything while this process is short of something.
const PAUSE: Duration = Duration::from_millis(50);

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn place(service: &str) -> String {
    format!("limic-fi/{}/{service}", user())
}

fn is_same_user(peer: impl AsFd) -> bool {
    rustix::net::sockopt::socket_peercred(peer).is_ok_and(|peer| peer.uid.as_raw() == user())
}

fn errno_of(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(FI_EIO)
}

/// The service of an endpoint, which ends with this.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) name: String,
    socket: Arc<UnixListener>,
    thread: Option<Thread>,
}

impl Service {
    /// # Errors
    /// `EADDRINUSE` if another endpoint has it.
    pub(crate) fn open(name: &str, address: Address) -> Result<Self, i32> {
        let place = SocketAddr::from_abstract_name(place(name)).map_err(|_| FI_EINVAL)?;
        let socket = UnixListener::bind_addr(&place).map_err(|error| errno_of(&error))?;
        let socket = Arc::new(socket);
        let listener = Arc::clone(&socket);
        let started = threads::start("limic-fi-names", move || tell(&listener, address));
        Ok(Self {
            name: name.to_owned(),
            socket,
            thread: Some(started.map_err(|error| errno_of(&error))?),
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // In a forked child the socket goes on to be the parent's.
        if let Some(thread) = self.thread.take() {
            thread.end(|| {
                // Nothing is accepted any more.
                let _ = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
            });
        }
    }
}

/// Tells the address to whoever asks, until the socket is shut.
fn tell(listener: &UnixListener, address: Address) {
    let mut is_short = false;
    for asks in listener.incoming() {
        match asks {
            Ok(asks) if is_same_user(&asks) => {
                let mut asks = asks;
                // Whoever has gone meanwhile wants no answer.
                let _ = asks.write_all(&address.to_bytes());
            }
            Ok(_) => log::info(&"a process of another user asked for an address"),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::CONNABORTED) => {}
                Some(Errno::INVAL) => return,
                // It may end when somebody gives a descriptor or memory back. Whoever asks waits
                // in the kernel.
                Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    if !core::mem::replace(&mut is_short, true) {
                        log::warn(&format_args!("who asks for an address waits: {error}"));
                    }
                    std::thread::sleep(PAUSE);
                }
                _ => {
                    log::warn(&format_args!("nobody is told any address: {error}"));
                    // Whoever asks is refused from now on, and does not wait.
                    let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
                    return;
                }
            },
        }
    }
}

/// The address of the endpoint with this service.
///
/// # Errors
/// `ECONNREFUSED` if there is none, `ETIMEDOUT` if it does not answer.
pub(crate) fn ask(service: &str) -> Result<Address, i32> {
    ask_within(service, PATIENCE).map_err(|errno| match errno {
        Errno::AGAIN => FI_ETIMEDOUT,
        errno => errno.raw_os_error(),
    })
}

/// `AGAIN`: the time is over.
fn ask_within(service: &str, patience: Duration) -> Result<Address, Errno> {
    let until = Instant::now() + patience;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    let place = SocketAddrUnix::new_abstract_name(place(service).as_bytes())?;
    // Where many wait to be accepted, connecting waits as a send does.
    bounded(&socket, Timeout::Send, until, || {
        rustix::net::connect(&socket, &place)
    })?;
    if !is_same_user(&socket) {
        return Err(Errno::ACCESS);
    }
    let mut bytes = [0; ADDRESS_LEN];
    let mut known = 0;
    while known < ADDRESS_LEN {
        let (more, _) = bounded(&socket, Timeout::Recv, until, || {
            rustix::net::recv(&socket, &mut bytes[known..], RecvFlags::empty())
        })?;
        if more == 0 {
            return Err(Errno::IO);
        }
        known += more;
    }
    Address::from_bytes(&bytes).map_err(|_| Errno::IO)
}

/// A call about a socket that waits no longer than until then, however often it is interrupted.
fn bounded<T>(
    socket: impl AsFd,
    kind: Timeout,
    until: Instant,
    mut call: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Errno::AGAIN);
        }
        set_socket_timeout(&socket, kind, Some(left))?;
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LIMIT: Duration = Duration::from_secs(60);

    /// Somebody who listens under the name of a service, and does no more.
    fn stopped(service: &str) -> (std::os::fd::OwnedFd, SocketAddrUnix) {
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let socket = rustix::net::socket(family, kind, None).expect("a socket");
        let place = SocketAddrUnix::new_abstract_name(place(service).as_bytes()).expect("short");
        rustix::net::bind(&socket, &place).expect("free");
        rustix::net::listen(&socket, 0).expect("listens");
        (socket, place)
    }

    /// Asks in a thread that may be left behind.
    fn asked(service: &str) -> Result<Address, Errno> {
        let (tell, told) = mpsc::channel();
        let service = service.to_owned();
        std::thread::spawn(move || tell.send(ask_within(&service, SHORT)));
        told.recv_timeout(LIMIT).expect("it waits without end")
    }

    #[test]
    fn a_holder_that_is_stopped_is_not_waited_for_without_end() {
        let service = format!("stopped-{}", std::process::id());
        let (_listens, place) = stopped(&service);
        // There is room for one who waits to be accepted.
        assert_eq!(asked(&service).err(), Some(Errno::AGAIN));
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let mut waiting = Vec::new();
        loop {
            let flags = SocketFlags::NONBLOCK;
            let socket = rustix::net::socket_with(family, kind, flags, None).expect("a socket");
            match rustix::net::connect(&socket, &place) {
                Ok(()) => waiting.push(socket),
                Err(error) => break assert_eq!(error, Errno::AGAIN),
            }
        }
        assert_eq!(asked(&service).err(), Some(Errno::AGAIN));
    }

    #[test]
    fn a_forked_child_ends_no_service_of_its_parent() {
        let name = format!("parent-{}", std::process::id());
        let address = limic::HybridEndpoint::open().expect("open");
        let address = limic::Endpoint::address(&address);
        let service = Service::open(&name, address).expect("free");
        let mut copy = Some(service);
        assert!(crate::child::holds_in_child(|| {
            drop(copy.take());
            true
        }));
        let told = ask(&name).expect("it answers");
        assert_eq!(told.to_bytes(), address.to_bytes());
    }

    #[test]
    fn a_process_without_a_free_descriptor_tells_its_address_later() {
        let limit = |most: Option<u64>| {
            let maximum = getrlimit(Resource::Nofile).maximum;
            let current = most.or(maximum);
            setrlimit(Resource::Nofile, Rlimit { current, maximum }).is_ok()
        };
        let address = limic::HybridEndpoint::open().expect("open");
        let address = limic::Endpoint::address(&address);
        assert!(crate::child::holds_in_child(|| {
            let name = format!("short-{}", std::process::id());
            let _service = Service::open(&name, address).expect("free");
            let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
            let socket = rustix::net::socket(family, kind, None).expect("a socket");
            let place = SocketAddrUnix::new_abstract_name(place(&name).as_bytes()).expect("short");
            assert!(limit(Some(0)), "no descriptor is free");
            rustix::net::connect(&socket, &place).expect("it listens");
            std::thread::sleep(2 * PAUSE);
            assert!(limit(None));
            let mut told = [0; ADDRESS_LEN];
            let all = RecvFlags::WAITALL;
            let got = rustix::net::recv(&socket, &mut told[..], all).expect("an answer");
            got.0 == ADDRESS_LEN && told == address.to_bytes()
        }));
    }

    #[test]
    fn whoever_has_gone_is_not_waited_for() {
        let service = format!("gone-{}", std::process::id());
        assert_eq!(asked(&service).err(), Some(Errno::CONNREFUSED));
    }
}
