//! All the ways in which a program waits for its operations.

use core::time::Duration;

use limic::raw::Requests;
use limic::{Endpoint, Error, Outcome, RequestId};

use super::receive::Receiving;
use super::states::reached;
use super::{Gone, Honest, Result, doing, one_in};
use crate::schedule::wrong;
use crate::script::Malice;
use crate::sim;

/// How long a process waits for messages that may be lost.
const PATIENCE_NS: u64 = 20_000_000_000;

impl Honest<'_> {
    /// Waits for all that is under way.
    pub(super) fn wait_for_all(&mut self) -> Result<()> {
        let scribbles = self.script.malice == Malice::Scribbles;
        let deadline = sim::with(|sim| sim.now + PATIENCE_NS);
        while !self.sends.is_empty() || !self.receives.is_empty() {
            let left = (self.sends.len(), self.receives.len());
            // What was written over may never come.
            let way = sim::with(|sim| if scribbles { 7 } else { sim.rng.u32(0..8) });
            if scribbles && sim::with(|sim| sim.now > deadline) {
                return Err(Gone);
            }
            doing(|| format!("waits ({way}) for {} sends, {} receives", left.0, left.1));
            let name = ["by name", "for any", "by the list", "by a cancel"].get(way as usize);
            reached("wait", name.unwrap_or(&"by tests"));
            match way {
                0 => self.wait_for_one()?,
                1 => self.wait_for_any()?,
                2 => self.watch()?,
                3 => self.cancel_one()?,
                _ => self.look()?,
            }
        }
        Ok(())
    }

    /// Operations that can be waited for by their names.
    fn named(&self) -> Vec<RequestId> {
        let sends = self.sends.iter().map(|one| one.id);
        let receives = self.receives.iter().filter(|one| !one.watched);
        sends.chain(receives.map(|one| one.id)).collect()
    }

    fn wait_for_one(&mut self) -> Result<()> {
        let named = self.named();
        if named.is_empty() {
            return self.watched();
        }
        let id = named[sim::with(|sim| sim.rng.usize(0..named.len()))];
        let outcome = self.endpoint.wait(id);
        self.over(id, outcome)
    }

    fn wait_for_any(&mut self) -> Result<()> {
        let named = self.named();
        match self.endpoint.wait_any(&named) {
            Some((at, outcome)) => self.over(named[at], outcome),
            None => self.watched(),
        }
    }

    /// Asks whether one is over, without waiting for it.
    fn look(&mut self) -> Result<()> {
        let named = self.named();
        if named.is_empty() {
            return self.watched();
        }
        let id = named[sim::with(|sim| sim.rng.usize(0..named.len()))];
        match self.endpoint.test(id) {
            Some(outcome) => self.over(id, outcome),
            None => {
                if one_in(2) {
                    self.endpoint.sleep(Some(Duration::from_millis(2)));
                } else {
                    self.endpoint.progress();
                }
                Ok(())
            }
        }
    }

    /// Has some receives tell of themselves; asks for one of them by its name all the same.
    fn watch(&mut self) -> Result<()> {
        for at in 0..self.receives.len() {
            if self.receives[at].watched || one_in(2) {
                continue;
            }
            let (id, name) = (self.receives[at].id, self.receives[at].posted);
            if let Err(error) = self.endpoint.watch(id, name) {
                wrong(format!("a receive cannot be watched: {error}"));
            }
            self.receives[at].watched = true;
        }
        let watched = self.receives.iter().filter(|one| one.watched);
        let ids: Vec<RequestId> = watched.map(|one| one.id).collect();
        if !ids.is_empty() && one_in(2) {
            let id = ids[sim::with(|sim| sim.rng.usize(0..ids.len()))];
            match self.endpoint.test(id) {
                // It is in the list.
                None | Some(Err(Error::UnknownRequest)) => {}
                Some(outcome) => return self.over(id, outcome),
            }
        }
        self.watched()
    }

    /// Takes what the list of watched receives tells.
    fn watched(&mut self) -> Result<()> {
        self.endpoint.progress();
        while let Some((name, outcome)) = self.endpoint.next_completed() {
            let Some(one) = self.receives.iter().find(|one| one.posted == name) else {
                wrong(format!("a receive {name} that is over is told of again"));
            };
            let id = one.id;
            self.over(id, outcome)?;
        }
        if self.named().is_empty() && !self.receives.is_empty() {
            self.endpoint.sleep(None);
        }
        Ok(())
    }

    /// An operation is over.
    fn over(&mut self, id: RequestId, outcome: Outcome) -> Result<()> {
        if let Some(at) = self.sends.iter().position(|one| one.id == id) {
            self.sends.swap_remove(at);
            return match outcome {
                Ok(_) => Ok(()),
                Err(error) => self.fails(&error),
            };
        }
        let at = self.receives.iter().position(|one| one.id == id);
        let at = at.unwrap_or_else(|| wrong(format!("{id:?} is over, and is nobody's")));
        let Receiving {
            posted,
            receive,
            room,
            cancelled,
            ..
        } = self.receives.swap_remove(at);
        self.receive_is_over(posted, receive, room, cancelled, outcome)
    }

    /// Cancels an operation, unless it is over.
    pub(super) fn cancel(&self, id: RequestId) {
        if !self.endpoint.is_done(id)
            && let Err(error) = self.endpoint.cancel(id)
        {
            wrong(format!("{id:?} cannot be cancelled: {error}"));
        }
    }

    /// Cancels a send or a receive, and posts it again at once if nothing became of it: a peer may
    /// wait for it.
    fn cancel_one(&mut self) -> Result<()> {
        let (sends, receives) = (self.sends.len(), self.receives.len());
        let at = sim::with(|sim| sim.rng.usize(0..sends + receives));
        let Some(at) = at.checked_sub(sends) else {
            return self.cancel_send(at);
        };
        let receiving = &mut self.receives[at];
        receiving.cancelled = true;
        let id = receiving.id;
        if receiving.watched {
            // It may be in the list already.
            let _ = self.endpoint.cancel(id);
            return self.watched();
        }
        self.cancel(id);
        let outcome = self.endpoint.wait(id);
        self.over(id, outcome)
    }
}
