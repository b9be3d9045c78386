//! How a process meets the others at the end, or leaves before it.

use limic::Endpoint;
use limic::raw::{RequestId, Requests};

use super::{Honest, doing};
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
        doing(|| "leaves hastily".to_owned());
        self.held.clear();
        self.endpoint.close();
        for sending in &mut self.sends {
            let over = self.endpoint.test(sending.id);
            if over.is_none() {
                wrong("a send is not over though the endpoint is closed");
            }
            sending.data.fill(0xee);
        }
        for receiving in self.receives.drain(..) {
            receiving.room.give_up();
        }
    }

    /// Ends everything, since a peer is gone.
    pub(super) fn give_up(&mut self) {
        self.held.clear();
        let mut ids: Vec<RequestId> = self.sends.iter().map(|one| one.id).collect();
        ids.extend(
            self.receives
                .iter()
                .filter(|one| !one.watched)
                .map(|one| one.id),
        );
        for id in &ids {
            // It may be over, or too late to cancel.
            let _ = self.endpoint.cancel(*id);
        }
        self.endpoint.close();
        for id in ids {
            doing(|| format!("waits for {id:?} after close"));
            if self.endpoint.test(id).is_none() {
                wrong("an operation is not over though the endpoint is closed");
            }
        }
        for receiving in self.receives.drain(..) {
            receiving.room.give_up();
        }
        for sending in &mut self.sends {
            sending.data.fill(0xee);
        }
    }
}
