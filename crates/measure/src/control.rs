//! How ranks agree between measurements: over an endpoint of its own, so that it neither disturbs
//! the endpoints that are measured nor depends on what they are forced to do.

use limic::settings::Settings;
use limic::{Barrier, Endpoint, HybridEndpoint, Result, World};

const GATHER: u64 = 1;
const SPREAD: u64 = 2;

/// All ranks, and the endpoint over which they agree.
#[derive(Debug)]
pub struct Control {
    world: World,
}

impl Control {
    /// Joins the job. The environment's settings are for what is measured, not for this.
    ///
    /// # Errors
    /// There is no launcher, or the ranks do not find each other.
    pub fn join() -> Result<Self> {
        let settings = Settings::builder().without_environment().build();
        let settings = settings?;
        let world = World::with(HybridEndpoint::with(settings)?)?;
        Ok(Self { world })
    }

    /// This process's number.
    pub fn rank(&self) -> u32 {
        self.world.rank()
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.world.size()
    }

    /// How `rank` meets the others over an endpoint of its own.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn barrier_of(&self, rank: u32) -> Result<Barrier> {
        self.world.barrier_of(rank)
    }

    /// Collective: waits for everybody.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn barrier(&self) -> Result<()> {
        self.world.barrier()
    }

    /// Collective: the job is over.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn leave(self) -> Result<()> {
        self.world.finalize()
    }

    /// Collective: everybody's bytes, by rank. All give the same number of bytes.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn gather<const N: usize>(&self, mine: &[u8; N]) -> Result<Vec<[u8; N]>> {
        let ranks = self.size() as usize;
        let mut all = vec![0; ranks * N];
        let root = self.world.peer(0)?;
        if self.rank() == 0 {
            all[..N].copy_from_slice(mine);
            for (rank, slot) in (0..).zip(all.chunks_exact_mut(N)).skip(1) {
                self.world.recv((self.world.peer(rank)?, GATHER), slot)?;
            }
            for rank in 1..self.size() {
                self.world.send(self.world.peer(rank)?, SPREAD, &all)?;
            }
        } else {
            self.world.send(root, GATHER, mine)?;
            self.world.recv((root, SPREAD), &mut all)?;
        }
        let one = |bytes: &[u8]| std::array::from_fn(|at| bytes[at]);
        Ok(all.chunks_exact(N).map(one).collect())
    }
}
