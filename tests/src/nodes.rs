//! Ranks on two machines: each machine starts its own, and all their links meet in one hub, by TCP.
//!
//! The lab's guests are such machines (`cargo xtask lab test`, programs whose name ends with
//! `two_guests`): both run the same tests in the same order, and the lab's variables tell each
//! which one it is.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// Where the first machine waits for the second one's ranks.
const PORT: u16 = 7117;
/// How long it is left alone between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(20);

/// This machine, as one of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nodes {
    number: u32,
    other: Ipv4Addr,
}

impl Nodes {
    /// `None` on a machine of its own.
    pub(crate) fn of_environment() -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        Some(Self {
            number: variable("LIMIC_LAB_GUEST")?.parse().ok()?,
            other: variable("LIMIC_LAB_PEER")?.parse().ok()?,
        })
    }

    /// Whether a rank runs here: the first half on the first machine, the others on the second one.
    pub(crate) fn has(self, rank: u32, ranks: u32) -> bool {
        rank * 2 / ranks.max(1) == self.number
    }

    /// Whether the hub is here.
    pub(crate) fn is_first(self) -> bool {
        self.number == 0
    }

    /// On the first machine: waits for the other one's ranks of this test, and tells them the seed.
    /// Gives their links, by rank.
    ///
    /// # Panics
    /// If they do not come in time.
    pub(crate) fn accept(
        self,
        name: &str,
        ranks: u32,
        seed: u64,
        limit: Duration,
    ) -> Vec<(u32, UnixStream)> {
        let deadline = Instant::now() + limit;
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).expect("a port to listen");
        listener.set_nonblocking(true).expect("a mode of the port");
        let mut left: Vec<u32> = (0..ranks).filter(|rank| !self.has(*rank, ranks)).collect();
        let mut links = Vec::new();
        while !left.is_empty() {
            assert!(
                Instant::now() < deadline,
                "ranks {left:?} of the other machine did not come"
            );
            match listener.accept() {
                Ok((stream, _)) => {
                    // A rank of a test that failed here is sent away, and fails there.
                    if let Ok(rank) = greet(&stream, name, seed) {
                        left.retain(|other| *other != rank);
                        links.push((rank, relayed(stream)));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
                Err(error) => panic!("accept: {error}"),
            }
        }
        links
    }

    /// On the second machine: brings a rank's link to the hub. Gives its end, and the seed.
    ///
    /// # Panics
    /// If the first machine cannot be reached in time, or is at another test.
    pub(crate) fn reach(self, name: &str, rank: u32, limit: Duration) -> (UnixStream, u64) {
        let deadline = Instant::now() + limit;
        loop {
            match introduce((self.other, PORT), name, rank) {
                Ok((stream, seed)) => return (relayed(stream), seed),
                Err(error) => assert!(
                    Instant::now() < deadline,
                    "the first machine does not answer: {error}"
                ),
            }
            thread::sleep(PAUSE);
        }
    }
}

fn introduce(to: (Ipv4Addr, u16), name: &str, rank: u32) -> io::Result<(TcpStream, u64)> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    let mut words = rank.to_le_bytes().to_vec();
    words.extend((name.len() as u32).to_le_bytes());
    words.extend(name.as_bytes());
    stream.write_all(&words)?;
    let mut seed = [0; 8];
    stream.read_exact(&mut seed)?;
    Ok((stream, u64::from_le_bytes(seed)))
}

fn greet(mut stream: &TcpStream, name: &str, seed: u64) -> io::Result<u32> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let mut words = [0; 8];
    stream.read_exact(&mut words)?;
    let [rank, len] = [0, 4]
        .map(|at| u32::from_le_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]));
    let mut theirs = vec![0; len.min(4096) as usize];
    stream.read_exact(&mut theirs)?;
    if theirs != name.as_bytes() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    stream.write_all(&seed.to_le_bytes())?;
    Ok(rank)
}

/// A local socket whose other end is the connection. It ends when the other machine is gone, which
/// sends no word of that.
fn relayed(far: TcpStream) -> UnixStream {
    use rustix::net::sockopt;
    let watched = sockopt::set_socket_keepalive(&far, true)
        .and_then(|()| sockopt::set_tcp_keepidle(&far, Duration::from_secs(10)))
        .and_then(|()| sockopt::set_tcp_keepintvl(&far, Duration::from_secs(2)))
        .and_then(|()| sockopt::set_tcp_keepcnt(&far, 10));
    watched.expect("options of a socket");
    let (near, mine) = UnixStream::pair().expect("a pair of sockets");
    let back = (
        far.try_clone().expect("a descriptor"),
        near.try_clone().expect("a descriptor"),
    );
    thread::spawn(move || {
        // Either end may go at any time, which the other one is told.
        let _ = io::copy(&mut &near, &mut &far);
        let _ = far.shutdown(Shutdown::Write);
    });
    thread::spawn(move || {
        let (far, near) = back;
        let _ = io::copy(&mut &far, &mut &near);
        let _ = near.shutdown(Shutdown::Write);
    });
    mine
}
