//! Operations in scopes, and those for which a process waits for so long only.

use core::time::Duration;

use limic::{Endpoint, Error, Outcome, Status, Tag};

use super::room::Room;
use super::states::reached;
use super::{Honest, Result, doing, one_in};
use crate::schedule::wrong;
use crate::script::Receive;
use crate::sim;

/// Some time to wait for something.
pub(super) fn some_time() -> Duration {
    Duration::from_nanos(1 << sim::with(|sim| sim.rng.u32(8..24)))
}

impl Honest<'_> {
    /// Sends, but not for long: what became of it. Its receiver may wait for other messages first.
    pub(super) fn send_in_time(&self, to: usize, tag: Tag, bytes: &[u8]) -> Outcome {
        let (to, time) = (self.peers[to], some_time());
        self.endpoint.scope(|scope| {
            let mut send = scope.isend(to, tag, bytes)?;
            if !send.wait_timeout(time) {
                send.cancel()?;
            }
            send.wait()
        })
    }

    /// Receives one message, in as many attempts as it takes.
    pub(super) fn receive_in_time(&mut self, receive: Receive) -> Result<()> {
        loop {
            let mut room = self.room_for(&receive);
            let posted = self.next_post();
            let taken =
                self.endpoint
                    .recv_timeout(self.selector(&receive), room.whole(), some_time());
            match taken {
                Ok(Some(status)) => {
                    self.arrived(posted, receive, &status, room);
                    return Ok(());
                }
                Ok(None) => {
                    reached("cancel", "a receive whose time is over");
                    room.finish(0);
                }
                Err(error) => return self.fails(&error),
            }
        }
    }

    /// Receives several messages in a scope. One for which it waits for long is cancelled, and
    /// posted again behind the scope.
    pub(super) fn receive_in_scope(&mut self, receives: &[Receive]) -> Result<()> {
        let mut posted: Vec<(u64, Room)> = Vec::new();
        for receive in receives {
            reached("receive", "Scoped");
            posted.push((self.next_post(), self.room_for(receive)));
        }
        doing(|| format!("receives in a scope, from {} on", posted[0].0));
        let selectors: Vec<_> = receives.iter().map(|one| self.selector(one)).collect();
        let mut outcomes: Vec<(usize, limic::Result<Status>)> = Vec::new();
        let endpoint = self.endpoint;
        let scope = endpoint.scope(|scope| {
            let mut under_way = Vec::new();
            let mut places = Vec::new();
            for (at, (_, room)) in posted.iter_mut().enumerate() {
                match scope.irecv(selectors[at], room.whole()) {
                    Ok(receive) => {
                        under_way.push(receive);
                        places.push(at);
                    }
                    Err(error) => outcomes.push((at, Err(error))),
                }
            }
            while !under_way.is_empty() {
                match limic::wait_any_timeout(endpoint, &mut under_way, some_time()) {
                    Some((at, outcome)) => {
                        let outcome = outcome.map(|(status, _)| status);
                        outcomes.push((places.swap_remove(at), outcome));
                    }
                    None if one_in(2) => {
                        let at = sim::with(|sim| sim.rng.usize(0..under_way.len()));
                        under_way[at].cancel()?;
                    }
                    None => {}
                }
            }
            Ok(())
        });
        if let Err(error) = scope {
            wrong(format!("a scope fails: {error}"));
        }
        let mut posted: Vec<_> = posted.into_iter().map(Some).collect();
        for (at, outcome) in outcomes {
            let (number, room) = posted[at].take().expect("each is over once");
            self.receive_is_over(number, receives[at], room, true, outcome)?;
        }
        Ok(())
    }

    /// A receive is over; one that was cancelled before it had a message is posted again.
    pub(super) fn receive_is_over(
        &mut self,
        posted: u64,
        receive: Receive,
        room: Room,
        cancelled: bool,
        outcome: Outcome,
    ) -> Result<()> {
        match outcome {
            Ok(status) => {
                self.arrived(posted, receive, &status, room);
                Ok(())
            }
            Err(Error::Cancelled) if cancelled => {
                reached("cancel", "a receive");
                room.finish(0);
                self.post_receive(receive)
            }
            Err(error) => {
                room.give_up();
                self.fails(&error)
            }
        }
    }
}
