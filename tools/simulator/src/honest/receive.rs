//! The ways in which a process receives.

use limic::raw::{Messages, Posted, RequestId};
use limic::{Endpoint, Loaned, Status};

use super::room::Room;
use super::scoped::some_time;
use super::states::reached;
use super::{Honest, Result, doing, one_in};
use crate::oracle;
use crate::schedule::wrong;
use crate::script::{Malice, Receive, Taking};
use crate::sim;

/// A receive under way.
pub(super) struct Receiving {
    pub(super) id: RequestId,
    pub(super) posted: u64,
    pub(super) receive: Receive,
    pub(super) room: Room,
    /// It is watched: its outcome comes by itself.
    pub(super) watched: bool,
    /// It is to be cancelled.
    pub(super) cancelled: bool,
}

impl Honest<'_> {
    /// Room for each message that a receive may get.
    pub(super) fn room_for(&self, receive: &Receive) -> Room {
        let messages = self.script.messages.iter();
        let fits = messages.filter(|message| message.to == self.me && receive.accepts(message));
        Room::new(fits.map(|message| message.len).max().unwrap_or(0))
    }

    pub(super) fn selector(&self, receive: &Receive) -> limic::Selector {
        receive.selector(receive.from.map(|from| self.peers[from]))
    }

    pub(super) fn next_post(&mut self) -> u64 {
        self.posted += 1;
        self.posted
    }

    pub(super) fn post_receive(&mut self, receive: Receive) -> Result<()> {
        let mut room = self.room_for(&receive);
        let posted = self.next_post();
        doing(|| format!("posts receive {posted} ({receive:?})"));
        reached("receive", "Posted");
        // SAFETY: the room is kept until the receive is over; a process that is killed leaks it.
        let answer = unsafe {
            self.endpoint
                .post_recv(&self.selector(&receive), &room.slices())
        };
        self.goes_on(answer, posted, receive, room)
    }

    /// A receive was posted: it is over, or it is waited for later.
    pub(super) fn goes_on(
        &mut self,
        answer: limic::Result<Posted>,
        posted: u64,
        receive: Receive,
        room: Room,
    ) -> Result<()> {
        match answer {
            Ok(Posted::Done(Ok(status))) => self.arrived(posted, receive, &status, room),
            Ok(Posted::Done(Err(error))) | Err(error) => return self.fails(&error),
            Ok(Posted::Pending(id)) => self.receives.push(Receiving {
                id,
                posted,
                receive,
                room,
                watched: false,
                cancelled: false,
            }),
        }
        Ok(())
    }

    /// Takes a message before it goes on.
    pub(super) fn take(&mut self, receive: Receive, taking: Taking) -> Result<()> {
        let selector = self.selector(&receive);
        let posted = self.next_post();
        doing(|| format!("takes {posted} ({receive:?}, {taking:?})"));
        reached("receive", format_args!("{taking:?}"));
        match taking {
            Taking::Timed => return self.receive_in_time(receive),
            Taking::Posted | Taking::Scoped => unreachable!("the phase does these itself"),
            Taking::Blocking | Taking::InOrder => {
                let mut room = self.room_for(&receive);
                // SAFETY: the room outlives the call.
                match unsafe { self.endpoint.recv_blocking(&selector, &room.slices()) } {
                    Ok(status) => self.arrived(posted, receive, &status, room),
                    Err(error) => return self.fails(&error),
                }
            }
            Taking::Loaned => match self.take_loan(selector) {
                Ok(loaned) => {
                    self.note_arrival(posted, receive, &loaned.status(), &loaned.to_vec());
                    if one_in(2) {
                        self.held.push(loaned);
                    }
                }
                Err(error) => return self.fails(&error),
            },
            Taking::Probed => {
                let (status, claim) = loop {
                    match self.endpoint.claim(&selector) {
                        Ok(Some(found)) => break found,
                        Ok(None) if one_in(2) => self.endpoint.sleep(None),
                        Ok(None) => {
                            let found = self.endpoint.wait_probe_timeout(selector, some_time());
                            found.or_else(|error| self.fails(&error).map(|()| None))?;
                        }
                        Err(error) => return self.fails(&error),
                    }
                };
                let mut room = Room::new(status.len as usize);
                // SAFETY: the room is kept until the receive is over; a process that is killed
                // leaks it.
                let answer = unsafe { self.endpoint.post_claimed(claim, &room.slices()) };
                return self.goes_on(answer, posted, receive, room);
            }
        }
        Ok(())
    }

    fn take_loan(&self, selector: limic::Selector) -> limic::Result<Loaned> {
        let fetches = |fetches| sim::with(|sim| sim.processes[self.me].fetches = fetches);
        fetches(true);
        let in_time = if one_in(2) {
            self.endpoint.recv_loaned_timeout(selector, some_time())
        } else {
            Ok(None)
        };
        let taken = match in_time {
            Ok(Some(loaned)) => Ok(loaned),
            Ok(None) => self.endpoint.recv_loaned(selector),
            Err(error) => Err(error),
        };
        fetches(false);
        taken
    }

    /// A receive is over.
    pub(super) fn arrived(&mut self, posted: u64, receive: Receive, status: &Status, room: Room) {
        let bytes = room.finish(status.len as usize);
        self.note_arrival(posted, receive, status, &bytes);
    }

    pub(super) fn note_arrival(
        &mut self,
        posted: u64,
        receive: Receive,
        status: &Status,
        bytes: &[u8],
    ) {
        if self.script.malice == Malice::Scribbles {
            return;
        }
        let from = self.peers.iter().position(|peer| *peer == status.peer);
        let from = from.unwrap_or_else(|| wrong(format!("a message of {} came", status.peer)));
        let key = (self.me, posted, receive);
        let found = sim::with(|sim| {
            sim.note(|| format!("receive {posted} has {} bytes from {from}", bytes.len()));
            oracle::arrived(sim, self.script, key, from, status, bytes)
        });
        if let Err(what) = found {
            wrong(what);
        }
    }
}
