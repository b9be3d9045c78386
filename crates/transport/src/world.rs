//! A job's ranks: who I am, who the others are, and the endpoint that reaches them.

use core::ops::Deref;

use crate::bootstrap::{self, Bootstrap};
use crate::meet::meet_at_start;
use crate::{Endpoint, Error, HybridEndpoint, Peer, RawEndpoint, Result, Selector, Tag};

/// Tags of this crate's own barrier: the highest ones, which [`Tag::mpi`] gives only to context `u32::MAX`.
const BARRIER: u64 = 0xffff_ffff_ffff_0000;

/// All ranks of a job, with an endpoint that is connected to each.
///
/// It dereferences to its endpoint, and the peers have the ranks' numbers.
#[derive(Debug)]
pub struct World<E: RawEndpoint = HybridEndpoint> {
    // Before the bootstrap: the endpoint closes first.
    endpoint: E,
    bootstrap: Box<dyn Bootstrap>,
    rank: u32,
    size: u32,
}

impl World<HybridEndpoint> {
    /// Joins the job that this process was started in, with the settings of the environment.
    ///
    /// Started by `limic run` or Hydra's `mpiexec`: PMI-1. By `prterun`, Open MPI's `mpirun` or `srun
    /// --mpi=pmix`: PMIx. By none of them: a job of one rank.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] says which launcher, which step, and what to do; and as [`HybridEndpoint::open`].
    pub fn init() -> Result<Self> {
        Self::with(HybridEndpoint::open()?)
    }
}

impl<E: RawEndpoint> World<E> {
    /// Joins the job with an endpoint of one's own.
    ///
    /// # Errors
    /// As [`World::init`].
    pub fn with(endpoint: E) -> Result<Self> {
        let fail = |error: bootstrap::BootstrapError| Error::Bootstrap(error.to_string());
        let mut bootstrap = bootstrap::detect().map_err(fail)?;
        let (rank, size) = (bootstrap.rank(), bootstrap.size());
        let all = bootstrap
            .all_gather(&endpoint.address().to_bytes())
            .map_err(fail)?;
        // Nothing has been received yet, so the peers are numbered in this order: by rank.
        for (expected, address) in all.iter().enumerate() {
            let peer = endpoint.connect(address)?;
            if peer.index() as usize != expected {
                return Err(Error::Bootstrap(format!(
                    "ranks {} and {expected} gave the same address: was a process forked after its start-up?",
                    peer.index()
                )));
            }
        }
        let world = Self {
            endpoint,
            bootstrap,
            rank,
            size,
        };
        let peers: Vec<Peer> = (0..size).map(Peer).collect();
        meet_at_start(&world.endpoint, rank as usize, &peers)?;
        Ok(world)
    }

    /// This process's number, 0 to `size - 1`.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many processes the job has.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// How the job was started: `pmi1`, `pmix` or `single`.
    #[must_use]
    pub fn launcher(&self) -> &'static str {
        self.bootstrap.kind()
    }

    /// The peer with this rank.
    ///
    /// # Errors
    /// [`Error::RankOutOfRange`].
    pub fn peer(&self, rank: u32) -> Result<Peer> {
        if rank < self.size {
            Ok(Peer(rank))
        } else {
            Err(Error::RankOutOfRange {
                rank,
                size: self.size,
            })
        }
    }

    /// The endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &E {
        &self.endpoint
    }

    /// Returns when all ranks have called it: `log2(size)` rounds of empty messages
    /// (dissemination barrier; Hensgen, Finkel, Manber 1988).
    ///
    /// # Errors
    /// [`Error::PeerFailed`] names the rank that is gone.
    pub fn barrier(&self) -> Result<()> {
        let mut distance = 1;
        let mut round = 0;
        while distance < self.size {
            let to = Peer((self.rank + distance) % self.size);
            let from = Peer((self.rank + self.size - distance) % self.size);
            let tag = Tag(BARRIER + round);
            self.endpoint.send(to, tag, &[])?;
            self.endpoint.recv(Selector::exact(from, tag), &mut [])?;
            distance *= 2;
            round += 1;
        }
        Ok(())
    }

    /// Ends the whole job: every rank is killed, and the launcher returns `code`.
    pub fn abort(mut self, code: i32, message: &str) -> ! {
        self.bootstrap.abort(code, message);
        std::process::exit(code)
    }

    /// Leaves the job in good order: waits until all ranks do, so that nobody misses a message.
    ///
    /// # Errors
    /// [`Error::PeerFailed`] if a rank died, [`Error::Bootstrap`].
    pub fn finalize(mut self) -> Result<()> {
        self.barrier()?;
        self.endpoint.close();
        self.bootstrap
            .finalize()
            .map_err(|error| Error::Bootstrap(error.to_string()))
    }
}

impl<E: RawEndpoint> Drop for World<E> {
    /// Leaves the job without waiting for the others. A rank that panics does not: its launcher should know.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.endpoint.close();
            // Nobody is left to tell.
            let _ = self.bootstrap.finalize();
        }
    }
}

impl<E: RawEndpoint> Deref for World<E> {
    type Target = E;
    fn deref(&self) -> &E {
        &self.endpoint
    }
}
