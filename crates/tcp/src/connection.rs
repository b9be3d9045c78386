//! One connection, and what is known of a peer beyond it.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::outgoing::Outgoing;

/// How long the first pause of a call lasts: an endpoint that looks has taken a call by then.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// How far a connection is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The socket is being connected; it has time until then.
    Calling(Instant),
    /// The greeting is out. The peer answers when it looks, however long that takes: the kernel
    /// tells if it dies meanwhile.
    Greeted {
        /// What has come of the answer.
        answer: Vec<u8>,
    },
    /// The call has ended without an answer, or could not be made; it is made anew then.
    Pausing(Instant),
    /// The peer's own call is to come, until then.
    Awaited(Instant),
    Ready,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The peer.
    pub(crate) id: u64,
    pub(crate) stage: Stage,
    /// Where this side has called, if it has.
    pub(crate) at: Option<SocketAddr>,
    /// From where the peer has called, if its call was taken.
    pub(crate) from: Option<IpAddr>,
    /// How long a call that was turned away pauses before it is made anew.
    pub(crate) pause_turned_away: Duration,
    /// The same of one that could not be made: the time of one leaves the other its own.
    pub(crate) pause_not_made: Duration,
    /// Until when a call may take to connect, and one that cannot be made is made anew; `None`: the
    /// call that is made now is the last.
    pub(crate) until: Option<Instant>,
    /// `None` while the peer's call is awaited, and while this side's pauses.
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) out: Outgoing,
    /// Messages follow at once: they wait for each other.
    pub(crate) corked: bool,
    /// The event set tells when the socket takes bytes again.
    pub(crate) blocked: bool,
    /// A message was refused since: the caller has more for this peer, and will call again.
    pub(crate) refused: bool,
    /// It is among those that hold messages back.
    pub(crate) holds: bool,
    /// A wait for room was given up, and all that waited is not out yet.
    pub(crate) had_time: bool,
    /// Nothing can be sent any more; what has come can be read.
    pub(crate) broken: Option<Errno>,
    /// Bytes of the message that has begun to go, which the caller has still to give.
    pub(crate) to_go: usize,
    /// Bytes that one call writes of a long message; 0 before the first one.
    pub(crate) piece: usize,
    /// The beginning of a record whose end has not come.
    pub(crate) input: Vec<u8>,
    /// Bytes of the long message that has begun to come, which the caller receives.
    pub(crate) to_come: usize,
    /// The last message was long, and the next one may be.
    pub(crate) long: bool,
    /// It is in the list of those that are to be read.
    pub(crate) listed: bool,
}

impl Connection {
    pub(crate) fn new(id: u64, stage: Stage, socket: Option<OwnedFd>) -> Self {
        Self {
            id,
            stage,
            at: None,
            from: None,
            pause_turned_away: FIRST_PAUSE,
            pause_not_made: FIRST_PAUSE,
            until: None,
            socket,
            out: Outgoing::default(),
            corked: false,
            blocked: false,
            refused: false,
            holds: false,
            had_time: false,
            broken: None,
            to_go: 0,
            piece: 0,
            input: Vec::new(),
            to_come: 0,
            long: false,
            listed: false,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    /// What the event set is asked for.
    pub(crate) fn waits_for(&self) -> EventFlags {
        let mut flags = EventFlags::IN;
        flags.set(EventFlags::OUT, self.blocked);
        flags
    }
}

/// What is known of an endpoint over all connections with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Its secret.
    pub(crate) secret: u64,
    /// The last connection.
    pub(crate) connection: u32,
    /// This side's count of its calls.
    pub(crate) attempt: u32,
    /// The peer's count of its calls, as far as it was heard. A call that was given up may come
    /// late: it is known by its number.
    pub(crate) heard: u32,
}

/// Somebody who has connected and not said a whole greeting.
#[derive(Debug)]
pub(crate) struct Stranger {
    pub(crate) socket: OwnedFd,
    pub(crate) said: Vec<u8>,
    pub(crate) since: Instant,
}
