//! Access to memory that others expose.

use limic::raw::{OneSided, Posted, Requests};
use limic::{Endpoint, Error};

use super::room::Room;
use super::states::of_error;
use super::{Honest, Result, doing};
use crate::schedule::wrong;
use crate::script::content;
use crate::sim;

impl Honest<'_> {
    /// Each writes and reads a part of the regions of all others, of so many bytes.
    pub(super) fn one_sided(&mut self, part: usize) -> Result<()> {
        let processes = self.script.processes;
        let memory = vec![self.me as u8; part * processes];
        let start = memory.as_ptr().addr();
        sim::with(|sim| {
            let rooms = &mut sim.processes[self.me].rooms;
            rooms.insert(start, memory.len());
        });
        let (region, key) = match self.endpoint.expose(memory) {
            Ok(exposed) => exposed,
            Err(error) => wrong(format!("a region fails: {error}")),
        };
        sim::with(|sim| sim.board.keys[self.me] = key);
        self.meet_all("waits for regions");
        let keys = sim::with(|sim| sim.board.keys.clone());
        for (other, key) in keys.iter().copied().enumerate() {
            if other == self.me || self.script.hostile[other] {
                continue;
            }
            doing(|| format!("writes to the region of {other}"));
            let (peer, offset) = (self.peers[other], (part * self.me) as u64);
            let len = sim::with(|sim| sim.rng.usize(1..=part));
            let written: Vec<u8> = (0..len).map(|at| content(self.me, at)).collect();
            self.endpoint
                .write(peer, limic::RegionKey(key), offset, &written)
                .or_else(|error| self.fails(&error))?;
            let mut read = Room::exact(len);
            // SAFETY: the room is kept until the read is over.
            let posted = unsafe { self.endpoint.post_read(peer, key, offset, &read.slices()) };
            let over = match posted {
                Ok(Posted::Done(outcome)) => outcome,
                Ok(Posted::Pending(id)) => self.endpoint.wait(id),
                Err(error) => Err(error),
            };
            match over {
                Ok(_) => {
                    if read.finish(len) != written {
                        wrong(format!("what was written to {other} is not what is read"));
                    }
                }
                Err(error) => return self.fails(&error),
            }
        }
        self.meet_all("waits for accesses");
        doing(|| "revokes its region".to_owned());
        let memory = match self.endpoint.revoke(region) {
            Ok(memory) => memory,
            // A peer was stopped for long; the memory stays exposed, and is leaked.
            Err(error @ Error::RegionInUse { .. }) => {
                of_error(&error);
                return Ok(());
            }
            Err(error) => wrong(format!("a region is not given back: {error}")),
        };
        sim::with(|sim| sim.processes[self.me].rooms.remove(&start));
        if memory.len() != part * processes || memory[part * self.me] != self.me as u8 {
            wrong("a region comes back with other bytes");
        }
        Ok(())
    }
}
