//! How a process meets the others at the end, or leaves before it.

use limic::raw::Requests;
use limic::{Endpoint, Error, Outcome};

use super::receive::Receiving;
use super::states::{of_error, reached};
use super::{Honest, doing, leaves};
use crate::schedule::wrong;
use crate::sim;

impl Honest<'_> {
    /// Waits until all processes have reached this point, or are gone.
    pub(super) fn meet_all(&mut self, why: &str) {
        self.reached += 1;
        let (me, reached) = (self.me, self.reached);
        doing(|| why.to_owned());
        sim::with(|sim| sim.board.reached[me] = reached);
        let mut time = 1_000;
        loop {
            let all = sim::with(|sim| {
                let others = sim.board.reached.iter().zip(&sim.processes);
                others.fold(true, |all, (at, process)| {
                    all && (*at >= reached || process.is_over() || process.hostile)
                })
            });
            if all {
                return;
            }
            // What peers want of this endpoint goes on meanwhile.
            self.endpoint.progress();
            time = (time * 2).min(1_000_000_000);
            self.endpoint
                .sleep(Some(core::time::Duration::from_nanos(time)));
        }
    }

    /// Closes while messages are under way; their buffers are its own again.
    pub(super) fn leave_hastily(&mut self) {
        leaves(self.me);
        doing(|| "leaves hastily".to_owned());
        reached("end", "leaves hastily");
        self.held.clear();
        self.end_all();
    }

    /// Ends everything, since a peer is gone.
    pub(super) fn give_up(&mut self) {
        leaves(self.me);
        self.held.clear();
        let sends = self.sends.iter().map(|one| one.id);
        let receives = self.receives.iter().map(|one| one.id);
        for id in sends.chain(receives).collect::<Vec<_>>() {
            // It may be over, or too late to cancel.
            let _ = self.endpoint.cancel(id);
        }
        self.end_all();
    }

    /// Closes, and sees that each operation is over, or will be.
    fn end_all(&mut self) {
        self.endpoint.close();
        doing(|| "looks at what is over after its close".to_owned());
        while let Some((name, outcome)) = self.endpoint.next_completed() {
            let listed = self.receives.iter().position(|one| one.posted == name);
            if let Some(at) = listed {
                let receiving = self.receives.swap_remove(at);
                self.ended(receiving, outcome);
            }
        }
        for sending in core::mem::take(&mut self.sends) {
            if self.endpoint.test(sending.id).is_none() {
                wrong("a send is not over though the endpoint is closed");
            }
        }
        for receiving in core::mem::take(&mut self.receives) {
            // Only one whose sender is stopped in the middle of a write into its room is not over:
            // it is when that is.
            let outcome = self.endpoint.wait(receiving.id);
            self.ended(receiving, outcome);
        }
    }

    fn ended(&mut self, receiving: Receiving, outcome: Outcome) {
        match outcome {
            Ok(status) => {
                self.arrived(receiving.posted, receiving.receive, &status, receiving.room);
            }
            Err(error) => {
                of_error(&error);
                match error {
                    Error::Cancelled => drop(receiving.room.finish(0)),
                    _ => receiving.room.give_up(),
                }
            }
        }
    }
}
