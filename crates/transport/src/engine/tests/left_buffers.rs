//! A receiver copies out of a buffer that its sender has back meanwhile: that is no message.

use core::time::Duration;

use limic_policy::{Path, PathSet};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{failed, in_child, meet, open_with, outcome, pending, post, post_receive, until};
use crate::Peer;
use crate::engine::Engine;
use crate::engine::protocol::arena_message;
use crate::engine::request::{Operation, ReceiveStage};
use crate::error::PeerFailure;
use crate::raw::{Posted, RequestId};

/// A single copy takes two visits.
const LEN: usize = 4 << 20;

/// A message of which the receiver has copied a part, and nothing is said any more.
struct HalfRead {
    receiver: Engine,
    sender: Engine,
    of_sender: u32,
    at_sender: u32,
    data: Vec<u8>,
    _room: Vec<u8>,
    receive: RequestId,
}

impl HalfRead {
    fn new() -> Self {
        let paths = PathSet::EMPTY.with(Path::Inline).with(Path::Eager);
        let paths = paths.with(Path::Cma).with(Path::Loan);
        let open = || {
            open_with(|with| {
                let with = with.allowed(paths).linger(Duration::ZERO);
                with.long_path(Path::Cma)
            })
        };
        let (mut receiver, mut sender, of_sender, at_sender) = meet(open(), open());
        let (data, mut room) = (vec![1; LEN], vec![0; LEN]);
        // SAFETY: the sender closes before the data changes.
        pending(unsafe { post(&mut sender, at_sender, 3, &data) });
        // SAFETY: the room stays until the receive is over.
        let posted = unsafe { post_receive(&mut receiver, (Peer(of_sender), 3), &mut room) };
        let receive = pending(posted);
        let slot = receiver.cx.requests.find(receive).expect("a receive");
        until(&mut [&mut receiver, &mut sender], |engines| {
            let operation = engines[0].cx.requests.get(slot);
            let Operation::Receive(receiving) = operation else {
                return false;
            };
            matches!(receiving.stage, ReceiveStage::Reading(incoming) if incoming.got > 0)
        });
        Self {
            receiver,
            sender,
            of_sender,
            at_sender,
            data,
            _room: room,
            receive,
        }
    }

    /// The sender has its buffer back, and writes it.
    fn take_back(&mut self) {
        self.sender.close();
        self.data.fill(2);
    }

    fn fails(mut self) {
        let outcome = outcome(&mut [&mut self.receiver], Posted::Pending(self.receive));
        assert_eq!(outcome, Err(failed(self.of_sender, PeerFailure::Closed)));
    }
}

#[test]
fn a_copy_out_of_a_buffer_that_its_sender_has_back_is_no_message() {
    let mut message = HalfRead::new();
    message.take_back();
    message.fails();
}

/// The sender's last words lie behind a descriptor, for which the receiver has no room.
#[test]
fn it_is_none_though_the_goodbye_cannot_be_read() {
    // The limit is one of the process.
    in_child(|| {
        let mut message = HalfRead::new();
        message.sender.borrow_loan(1).expect("an arena");
        let at_sender = message.at_sender;
        let sent = arena_message::send_arena(&mut message.sender.cx, at_sender, 0);
        assert!(sent, "there is room in the socket");
        message.take_back();
        let limit = getrlimit(Resource::Nofile);
        let none = Rlimit {
            current: Some(3),
            ..limit
        };
        setrlimit(Resource::Nofile, none).expect("a lower limit");
        until(&mut [&mut message.receiver], |engines| {
            engines[0].cx.sockets.is_paused()
        });
        setrlimit(Resource::Nofile, limit).expect("the limit of before");
        message.fails();
    });
}
