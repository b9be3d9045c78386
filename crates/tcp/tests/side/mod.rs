//! An endpoint's end of TCP, and what came there.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use limic_fabric::{
    Arrivals, ConnectionFailure, ConnectionId, Event, Fabric, Form, Part, SendRefused, Stretch,
};
use limic_tcp::{TcpFabric, TcpSettings};

/// How long anything may take.
const WATCHDOG: Duration = Duration::from_secs(60);

pub(crate) struct Side {
    pub(crate) fabric: TcpFabric,
    pub(crate) id: u64,
    pub(crate) secret: u64,
    arrivals: Arrivals,
    pub(crate) connected: Vec<(ConnectionId, u64, Vec<u8>)>,
    pub(crate) failed: Vec<(ConnectionId, ConnectionFailure)>,
    /// Connection, kind, tag and payload.
    pub(crate) came: Vec<(ConnectionId, u8, u64, Vec<u8>)>,
    /// Long messages that have begun to come: what they will be, and how long.
    coming: Vec<(ConnectionId, Form, Vec<u8>)>,
}

impl Side {
    /// On the loopback.
    pub(crate) fn open(id: u64) -> Self {
        Self::with(id, Duration::from_secs(30))
    }

    pub(crate) fn with(id: u64, timeout: Duration) -> Self {
        let settings = TcpSettings {
            interface: Some("127.0.0.1".to_owned()),
            timeout,
            ..TcpSettings::default()
        };
        let secret = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut fabric = TcpFabric::open(&settings, id, secret).expect("the loopback");
        fabric.set_hello(format!("I am {id}").into_bytes());
        Self {
            fabric,
            id,
            secret,
            arrivals: Arrivals::new(),
            connected: Vec::new(),
            failed: Vec::new(),
            came: Vec::new(),
            coming: Vec::new(),
        }
    }

    /// A thread that calls, as another program would.
    pub(crate) fn stranger(&self) -> TcpStream {
        TcpStream::connect(address(&self.fabric.part())).expect("it listens")
    }

    pub(crate) fn call(&mut self, other: &Self) -> ConnectionId {
        let connection = self
            .fabric
            .connect(&other.fabric.part(), other.id, other.secret);
        connection.expect("it listens")
    }

    /// One look. True if something happened.
    pub(crate) fn progress(&mut self) -> bool {
        match self.fabric.poll(&mut self.arrivals) {
            None => return false,
            Some(Event::Connected {
                connection,
                peer,
                hello,
            }) => self.connected.push((connection, peer, hello)),
            Some(Event::Failed { connection, why }) => self.failed.push((connection, why)),
            Some(Event::Messages) => {
                let from = self.arrivals.connection();
                for (form, payload) in self.arrivals.messages() {
                    self.came
                        .push((from, form.kind, form.tag, payload.to_vec()));
                }
                if let Some((form, first)) = self.arrivals.begun() {
                    self.coming.push((from, form, first.to_vec()));
                }
            }
            Some(Event::More { connection, left }) => return self.receive(connection, left),
            Some(Event::Transferred { .. }) => panic!("TCP has no reads"),
        }
        true
    }

    /// Takes what is there of the long message that has begun on a connection.
    fn receive(&mut self, connection: ConnectionId, missing: usize) -> bool {
        let at = self
            .coming
            .iter()
            .position(|(from, ..)| *from == connection);
        let at = at.expect("a message that has begun");
        let (from, form, bytes) = &mut self.coming[at];
        assert_eq!(missing, form.len as usize - bytes.len());
        bytes.reserve(missing);
        let room = bytes.spare_capacity_mut().as_mut_ptr().cast();
        // SAFETY: so many bytes were reserved.
        let got = unsafe { self.fabric.receive(*from, room, missing) };
        // SAFETY: they have just been written.
        unsafe { bytes.set_len(bytes.len() + got) };
        if got == missing {
            let (from, form, bytes) = self.coming.swap_remove(at);
            self.came.push((from, form.kind, form.tag, bytes));
        }
        got > 0
    }

    /// Begins a message of `len` bytes with these ones; gives how many of them went.
    pub(crate) fn begin(
        &mut self,
        to: ConnectionId,
        (tag, len): (u64, usize),
        payload: &[u8],
    ) -> Result<usize, SendRefused> {
        let (kind, len) = (1, len as u32);
        let data = [stretch(payload)];
        // SAFETY: the payload is there during the call.
        unsafe { self.fabric.begin(to, Form { kind, tag, len }, &[], &data) }
    }

    /// Goes on with it.
    pub(crate) fn go_on(&mut self, to: ConnectionId, payload: &[u8]) -> usize {
        // SAFETY: the payload is there during the call.
        unsafe { self.fabric.go_on(to, &[stretch(payload)]) }
    }

    pub(crate) fn send(
        &mut self,
        to: ConnectionId,
        tag: u64,
        payload: &[u8],
    ) -> Result<(), SendRefused> {
        let form = Form {
            kind: 1,
            tag,
            len: payload.len() as u32,
        };
        self.fabric
            .send(to, form, &mut |room| room.copy_from_slice(payload))
    }
}

fn stretch(bytes: &[u8]) -> Stretch {
    Stretch {
        start: bytes.as_ptr(),
        len: bytes.len(),
    }
}

/// Moves sides on until it is so.
pub(crate) fn until(
    what: &str,
    sides: &mut [&mut Side],
    mut done: impl FnMut(&[&mut Side]) -> bool,
) {
    let start = Instant::now();
    while !done(sides) {
        assert!(start.elapsed() < WATCHDOG, "{what}: it never came");
        let mut moved = false;
        for side in sides.iter_mut() {
            moved |= side.progress();
        }
        if !moved {
            std::thread::yield_now();
        }
    }
}

/// Waits until both have one connection.
pub(crate) fn meet(a: &mut Side, b: &mut Side) {
    until("the meeting", &mut [a, b], |sides| {
        sides.iter().all(|side| side.connected.len() == 1)
    });
}

/// The same, though a call was turned away before: nothing fails, and a message comes.
pub(crate) fn meet_after_all(a: &mut Side, b: &mut Side, there: ConnectionId) {
    until("the meeting", &mut [&mut *a, &mut *b], |sides| {
        assert!(sides.iter().all(|side| side.failed.is_empty()));
        sides.iter().all(|side| side.connected.len() == 1)
    });
    a.send(there, 1, b"after all").expect("ready");
    until("the message", &mut [a, b], |sides| sides[1].came.len() == 1);
}

/// Two that have met, and the connection of the first one.
pub(crate) fn met() -> (Side, Side, ConnectionId) {
    let (mut a, mut b) = (Side::open(1), Side::open(2));
    let there = a.call(&b);
    meet(&mut a, &mut b);
    (a, b, there)
}

pub(crate) fn address(part: &Part) -> SocketAddr {
    let (ip, port) = part.place().split_last_chunk::<2>().expect("a port");
    let ip = IpAddr::from(<[u8; 4]>::try_from(ip).expect("IPv4"));
    SocketAddr::new(ip, u16::from_be_bytes(*port))
}

/// A greeting as the caller of this id would say it.
pub(crate) fn greeting(to: &Side, secret: u64, from: u64, attempt: u32) -> Vec<u8> {
    let mut bytes = b"lmtcp\x01\0\0".to_vec();
    for word in [to.id, secret, from, from ^ 0x55] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(attempt.to_le_bytes());
    bytes.extend([0; 4]);
    bytes
}
