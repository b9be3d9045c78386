//! A job's ranks: who I am, who the others are, and the endpoint that reaches them.

use core::iter;
use core::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use limic_shm::process::Process;
use limic_topology::CpuSet;

use crate::bootstrap::{self, Bootstrap};
use crate::connect_at_start::connect_at_start;
use crate::{ADDRESS_LEN, Barrier, Endpoint, Error, HybridEndpoint, Peer, Result, Tag};

/// Tag of a world's barrier: a library's, and [`Tag::mpi`] gives it only to context `u32::MAX`.
const BARRIER: Tag = Tag(0xffff_ffff_ffff_0000);
const _: () = assert!(BARRIER.0 & Tag::LIBRARY.0 != 0);

/// All ranks of a job, with an endpoint that is connected to each.
///
/// It dereferences to its endpoint, and the peers have the ranks' numbers.
///
/// Its own messages, of [`barrier`](Self::barrier) and [`finalize`](Self::finalize), have the bit
/// [`Tag::LIBRARY`]. A receive by a [mask](crate::Selector::with_mask) without that bit takes them
/// too, and then this rank's barrier waits for them in vain.
#[derive(Debug)]
pub struct World<E: Endpoint = HybridEndpoint> {
    // Before the launcher's connection: the endpoint closes first.
    endpoint: E,
    launcher: Launcher,
    rank: u32,
    size: u32,
    /// The head of each rank in a barrier.
    heads: Vec<u32>,
    barrier: Barrier,
    process: Process,
}

/// A world's connection to what started its job, for any thread.
#[derive(Clone, Debug)]
pub struct Launcher(Arc<Mutex<Box<dyn Bootstrap>>>);

impl Launcher {
    fn lock(&self) -> MutexGuard<'_, Box<dyn Bootstrap>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the whole job, as [`World::abort`], and waits for no other thread. If one is in a call
    /// to the launcher just now, the launcher sees this process end, without the `message`.
    pub fn abort(&self, code: i32, message: &str) -> ! {
        match self.0.try_lock() {
            Ok(mut bootstrap) => bootstrap.abort(code, message),
            Err(TryLockError::Poisoned(bootstrap)) => bootstrap.into_inner().abort(code, message),
            Err(TryLockError::WouldBlock) => {}
        }
        std::process::exit(code)
    }
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
    /// Joins the job with an endpoint of one's own, which has no [peer](Endpoint::connect) yet, not
    /// even [itself](Endpoint::myself).
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
        let (addresses, cpus): (Vec<&[u8]>, Vec<&[u8]>) = all
            .iter()
            .map(|blob| blob.split_at(blob.len().min(ADDRESS_LEN)))
            .unzip();
        let peers = connect_in_order(&endpoint, &addresses)?;
        let mut places = Vec::with_capacity(all.len());
        for (rank, (peer, cpus)) in peers.iter().zip(cpus).enumerate() {
            let node = endpoint.peer_address(*peer)?.node();
            places.push((node, cpus_of(cpus, rank)?));
        }
        let heads = Barrier::heads(&places);
        let world = Self {
            endpoint,
            launcher: Launcher(Arc::new(Mutex::new(bootstrap))),
            rank,
            size,
            barrier: Barrier::new(rank, &heads)?,
            heads,
            process: Process::current(),
        };
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
        self.launcher.lock().kind()
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

    /// Opens `count` endpoints beside the world's, for a thread each. The first is connected to the
    /// first of every rank, the second to the second, and so on; as with the world's own, peers
    /// have the ranks' numbers. All ranks call it, with the same `count`.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint, World};
    ///
    /// let mut world = World::init()?;
    /// let myself = world.peer(world.rank())?;
    /// for endpoint in world.endpoints(2, HybridEndpoint::open)? {
    ///     std::thread::spawn(move || endpoint.send(myself, 7, b"from this thread to itself"));
    /// }
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `open` returns; [`Error::Bootstrap`] names a rank that opens another number, or none
    /// since it could not.
    pub fn endpoints<F: Endpoint>(
        &mut self,
        count: usize,
        open: impl FnMut() -> Result<F>,
    ) -> Result<Vec<F>> {
        let opened: Result<Vec<F>> = iter::repeat_with(open).take(count).collect();
        // Also where it failed: all other ranks wait for what this one gives.
        let mine = opened.iter().flatten();
        let mine: Vec<u8> = mine.flat_map(|one| one.address().to_bytes()).collect();
        let all = self.launcher.lock().all_gather(&mine);
        let (endpoints, all) = (opened?, all?);
        if let Some((rank, other)) = (0..)
            .zip(&all)
            .find(|(_, one)| one.len() != count * ADDRESS_LEN)
        {
            return Err(Error::Bootstrap(format!(
                "rank {rank} has opened {} endpoints where rank {} has {count}: all ranks have to open as many",
                other.len() / ADDRESS_LEN,
                self.rank,
            )));
        }
        for (at, endpoint) in endpoints.iter().enumerate() {
            let place = at * ADDRESS_LEN..(at + 1) * ADDRESS_LEN;
            let addresses: Vec<&[u8]> = all.iter().map(|one| &one[place.clone()]).collect();
            let peers = connect_in_order(endpoint, &addresses)?;
            connect_at_start(endpoint, self.rank as usize, &peers)?;
        }
        Ok(endpoints)
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

    /// This world's barrier and the tag of its messages, for a runtime that waits by itself
    /// ([`Barrier::wait_by`]).
    #[must_use]
    pub fn own_barrier(&self) -> (&Barrier, Tag) {
        (&self.barrier, BARRIER)
    }

    /// Ends the whole job: every rank is killed, and the launcher returns `code`.
    pub fn abort(self, code: i32, message: &str) -> ! {
        self.launcher.abort(code, message)
    }

    /// The connection to the launcher, by which any thread can [abort](Launcher::abort) the job.
    #[must_use]
    pub fn connection(&self) -> Launcher {
        self.launcher.clone()
    }

    /// Leaves the job in good order: waits until all ranks do, so that nobody misses a message.
    ///
    /// Regions, loans and requests borrow the world, and end before it:
    ///
    /// ```compile_fail,E0505
    /// use limic::{Endpoint, World};
    ///
    /// let world = World::init()?;
    /// let region = world.region(vec![0; 8])?;
    /// world.finalize()?;
    /// let memory = region.revoke()?; // Comes before `finalize`.
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::PeerFailed`] if a rank died, [`Error::Bootstrap`].
    pub fn finalize(self) -> Result<()> {
        self.barrier()?;
        self.endpoint.close();
        Ok(self.launcher.lock().finalize()?)
    }
}

/// Connects a new endpoint to all ranks. It has received nothing yet, so its peers are numbered in
/// this order: by rank.
fn connect_in_order<E: Endpoint>(endpoint: &E, addresses: &[&[u8]]) -> Result<Vec<Peer>> {
    let mut peers = Vec::with_capacity(addresses.len());
    for (rank, address) in (0..).zip(addresses) {
        let peer = endpoint.connect(address)?;
        if peer.index() < rank {
            return Err(Error::Bootstrap(format!(
                "ranks {} and {rank} gave the same address: was a process forked after its start-up?",
                peer.index()
            )));
        }
        if peer.index() > rank {
            return Err(Error::Bootstrap(
                "the endpoint had peers before it joined the job: it has to be a new one"
                    .to_owned(),
            ));
        }
        peers.push(peer);
    }
    Ok(peers)
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
    /// should know. Nor does a forked child, which is no rank.
    fn drop(&mut self) {
        if !std::thread::panicking() && self.process.is_current() {
            self.endpoint.close();
            // Nobody is left to tell.
            let _ = self.launcher.lock().finalize();
        }
    }
}

impl<E: Endpoint> Deref for World<E> {
    type Target = E;
    fn deref(&self) -> &E {
        &self.endpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_has_peers_joins_no_job() {
        let [old, other] = [(); 2].map(|()| HybridEndpoint::open().expect("open"));
        let addresses = [&other, &old, &old].map(|one| one.address().to_bytes());
        let addresses = addresses.each_ref().map(<[u8; ADDRESS_LEN]>::as_slice);
        let refused = |endpoint: &HybridEndpoint, addresses| {
            let error = connect_in_order(endpoint, addresses).expect_err("it is refused");
            error.to_string()
        };
        old.myself();
        let why = refused(&old, &addresses[..2]);
        assert!(why.contains("had peers before"), "{why}");
        let why = refused(&other, &addresses[..]);
        assert!(why.contains("ranks 1 and 2 gave the same address"), "{why}");
    }
}
