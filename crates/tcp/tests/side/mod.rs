//! An endpoint's end of TCP, and what came there.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use limic_fabric::{
    ConnectionFailure, ConnectionId, Event, Fabric, Form, Inbox, Part, SendRefused,
};
use limic_tcp::{TcpFabric, TcpSettings};

/// How long anything may take.
const WATCHDOG: Duration = Duration::from_secs(60);

pub(crate) struct Side {
    pub(crate) fabric: TcpFabric,
    pub(crate) id: u64,
    pub(crate) secret: u64,
    inbox: Inbox,
    pub(crate) connected: Vec<(ConnectionId, u64, Vec<u8>)>,
    pub(crate) failed: Vec<(ConnectionId, ConnectionFailure)>,
    /// Connection, kind, tag and payload.
    pub(crate) came: Vec<(ConnectionId, u8, u64, Vec<u8>)>,
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
            inbox: Inbox::new(),
            connected: Vec::new(),
            failed: Vec::new(),
            came: Vec::new(),
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
        match self.fabric.poll(&mut self.inbox) {
            None => return false,
            Some(Event::Connected {
                connection,
                peer,
                hello,
            }) => self.connected.push((connection, peer, hello)),
            Some(Event::Failed { connection, why }) => self.failed.push((connection, why)),
            Some(Event::Messages) => {
                let from = self.inbox.connection();
                for (form, payload) in self.inbox.messages() {
                    self.came
                        .push((from, form.kind, form.tag, payload.to_vec()));
                }
            }
            Some(Event::Transferred { .. }) => panic!("TCP has no reads"),
        }
        true
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
