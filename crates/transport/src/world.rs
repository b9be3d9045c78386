//! A job's ranks: who I am, who the others are, and the endpoint that reaches them.

use core::ops::Deref;

use crate::bootstrap::{self, Bootstrap};
use crate::connect_at_start::connect_at_start;
use crate::topology::CpuSet;
use crate::{ADDRESS_LEN, Barrier, Endpoint, Error, HybridEndpoint, Peer, Result, Tag};

/// Tag of this crate's own barrier: one of the highest, which [`Tag::mpi`] gives only to context
/// `u32::MAX`.
const BARRIER: Tag = Tag(0xffff_ffff_ffff_0000);

/// All ranks of a job, with an endpoint that is connected to each.
///
/// It dereferences to its endpoint, and the peers have the ranks' numbers.
#[derive(Debug)]
pub struct World<E: Endpoint = HybridEndpoint> {
    // Before the bootstrap: the endpoint closes first.
    endpoint: E,
    bootstrap: Box<dyn Bootstrap>,
    rank: u32,
    size: u32,
    /// The head of each rank in a barrier.
    heads: Vec<u32>,
    barrier: Barrier,
}

impl World<HybridEndpoint> {
    /// Joins the job that this process was started in, with the settings of the environment.
    ///
    /// Started by `limic run` or Hydra's `mpiexec`: PMI-1. By `prterun`, Open MPI's `mpirun` or
    /// `srun --mpi=pmix`: PMIx. By none of them: a job of one rank.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] says which launcher, which step, and what to do; and as
    /// [`HybridEndpoint::open`].
    pub fn init() -> Result<Self> {
        Self::with(HybridEndpoint::open()?)
    }
}

impl<E: Endpoint> World<E> {
    /// Joins the job with an endpoint of one's own.
    ///
    /// # Errors
    /// As [`World::init`].
    pub fn with(endpoint: E) -> Result<Self> {
        let mut bootstrap = bootstrap::detect()?;
        let (rank, size) = (bootstrap.rank(), bootstrap.size());
        let mut mine = endpoint.address().to_bytes().to_vec();
        // Where the kernel does not say which CPUs are allowed, the list is empty: barriers then
        // take the ranks to share them.
        let cpus = CpuSet::allowed().unwrap_or_default();
        mine.extend_from_slice(cpus.to_string().as_bytes());
        let all = bootstrap.all_gather(&mine)?;
        let mut places = Vec::with_capacity(all.len());
        // Nothing has been received yet, so the peers are numbered in this order: by rank.
        for (expected, blob) in all.iter().enumerate() {
            let (address, cpus) = blob.split_at(blob.len().min(ADDRESS_LEN));
            let peer = endpoint.connect(address)?;
            if peer.index() as usize != expected {
                return Err(Error::Bootstrap(format!(
                    "ranks {} and {expected} gave the same address: was a process forked after its start-up?",
                    peer.index()
                )));
            }
            let node = endpoint.peer_address(peer)?.node();
            places.push((node, cpus_of(cpus, expected)?));
        }
        let heads = Barrier::heads(&places);
        let world = Self {
            endpoint,
            bootstrap,
            rank,
            size,
            barrier: Barrier::new(rank, &heads)?,
            heads,
        };
        let peers: Vec<Peer> = (0..size).map(Peer).collect();
        connect_at_start(&world.endpoint, rank as usize, &peers)?;
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

    /// Returns when all ranks have called it. [`Barrier`] says how; the CPUs that ranks may use are
    /// those from when they joined.
    ///
    /// # Errors
    /// As [`Barrier::wait`]: [`Error::PeerFailed`] names a rank that is gone.
    pub fn barrier(&self) -> Result<()> {
        self.barrier.wait(&self.endpoint, BARRIER)
    }

    /// The same barrier as `rank` takes part in it, for other endpoints that are connected to the
    /// same ranks in the same order.
    ///
    /// # Errors
    /// [`Error::RankOutOfRange`].
    pub fn barrier_of(&self, rank: u32) -> Result<Barrier> {
        Barrier::new(rank, &self.heads)
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
        Ok(self.bootstrap.finalize()?)
    }
}

/// The CPUs that a rank named behind its address, as `0-63`.
fn cpus_of(list: &[u8], rank: usize) -> Result<CpuSet> {
    let list = String::from_utf8_lossy(list);
    list.parse().map_err(|error| {
        Error::Bootstrap(format!(
            "what rank {rank} gave behind its address: {error}; build all ranks with one version of limic"
        ))
    })
}

impl<E: Endpoint> Drop for World<E> {
    /// Leaves the job without waiting for the others. A rank that panics does not: its launcher
    /// should know.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.endpoint.close();
            // Nobody is left to tell.
            let _ = self.bootstrap.finalize();
        }
    }
}

impl<E: Endpoint> Deref for World<E> {
    type Target = E;
    fn deref(&self) -> &E {
        &self.endpoint
    }
}
