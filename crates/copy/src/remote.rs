//! Single copy by cross-memory attach, or the reason why there is none.

use std::ptr;

use limic_shm::bytes::{RawSlice, RawSliceMut, ReceiveBuffer, SendBuffer};

use crate::{
    Cma, CmaPeer, CopyEngine, CopyError, LocalSlice, LocalSliceMut, ProbeWord, RemoteRange,
};

/// Messages that one call reads at most.
pub const MOST_TOGETHER: usize = 4;

/// A copy that did not work.
#[derive(Debug)]
pub struct Failed {
    /// Bytes that certainly got through.
    pub copied: u64,
    /// The line for the log: cause and errno.
    pub why: String,
}

impl Failed {
    /// Nothing was tried, for this reason.
    pub(crate) fn refused(why: &str) -> Self {
        Self {
            copied: 0,
            why: why.to_owned(),
        }
    }
}

impl From<CopyError> for Failed {
    fn from(error: CopyError) -> Self {
        Self {
            copied: error.copied(),
            why: error.to_string(),
        }
    }
}

/// What a peer needs to try single copy on this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProbeData {
    /// This process, as the kernel numbers it for the peer.
    pub pid: i32,
    /// Where a word lies in it.
    pub address: u64,
    /// What the word is.
    pub value: u64,
}

/// This process's side: the word that peers read to make sure whom they reach.
#[derive(Debug)]
pub struct Probe(ProbeWord);

impl Probe {
    /// A word that is `random`, so that no other process has it by chance.
    #[must_use]
    pub fn new(random: u64) -> Self {
        // Yama's middle setting asks that a process name its tracers.
        let _ = crate::allow_peers();
        Self(ProbeWord::new(random))
    }

    /// What peers are told.
    #[must_use]
    pub fn data(&self) -> ProbeData {
        ProbeData {
            pid: limic_shm::system::process_id() as i32,
            address: self.0.address(),
            value: self.0.value(),
        }
    }
}

/// A peer's process, if single copy reaches it.
#[derive(Debug)]
pub struct RemoteProcess(Result<CmaPeer, String>);

impl RemoteProcess {
    /// Tries it, with one read of eight bytes.
    #[must_use]
    pub fn probe(data: ProbeData) -> Self {
        Self(Cma::probe(data.pid, data.address, data.value).map_err(|refused| refused.to_string()))
    }

    /// It is not reached, for this reason.
    #[must_use]
    pub fn none(why: &str) -> Self {
        Self(Err(why.to_owned()))
    }

    /// Why it cannot be used.
    pub fn refusal(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    /// Never use it again.
    pub fn demote(&mut self, why: &str) {
        self.0 = Err(why.to_owned());
    }

    /// Reads up to `limit` bytes from `skip` on.
    ///
    /// # Errors
    /// What went wrong, and after how many bytes.
    pub fn read(
        &self,
        remote: RemoteRange,
        into: &ReceiveBuffer,
        skip: u64,
        limit: u64,
    ) -> Result<u64, Failed> {
        let peer = self.peer()?;
        let local = CopySlices::writable(into, remote.len);
        // SAFETY: the room is writable by the invariant of `ReceiveBuffer`, and the transport does
        // nothing else with it during the call.
        unsafe { Cma.read_at(peer, &[remote], local.as_slice(), skip, limit) }.map_err(Failed::from)
    }

    /// Reads some messages whole, each into a room of one slice, by one call of the kernel.
    ///
    /// # Errors
    /// What went wrong, and after how many bytes of them all.
    pub fn read_together(&self, messages: &[(RemoteRange, &ReceiveBuffer)]) -> Result<u64, Failed> {
        debug_assert!(messages.len() <= MOST_TOGETHER, "the rest would be left");
        let peer = self.peer()?;
        let mut remotes = [RemoteRange::default(); MOST_TOGETHER];
        let mut locals = [LocalSliceMut::new(ptr::null_mut(), 0); MOST_TOGETHER];
        let places = remotes.iter_mut().zip(&mut locals);
        for ((remote, local), (from, into)) in places.zip(messages) {
            let CopySlices::One([slice]) = CopySlices::writable(into, from.len) else {
                return Err(Failed::refused("a room in several slices"));
            };
            (*remote, *local) = (*from, slice);
        }
        let count = messages.len().min(MOST_TOGETHER);
        let (remotes, locals) = (&remotes[..count], &locals[..count]);
        // SAFETY: as in `read`.
        unsafe { Cma.read_at(peer, remotes, locals, 0, u64::MAX) }.map_err(Failed::from)
    }

    /// Writes up to `limit` bytes from `skip` on.
    ///
    /// # Errors
    /// What went wrong, and after how many bytes.
    ///
    /// # Safety
    /// The process has agreed to writes there, until it is told that they are over.
    pub unsafe fn write(
        &self,
        remote: RemoteRange,
        from: &SendBuffer,
        skip: u64,
        limit: u64,
    ) -> Result<u64, Failed> {
        let peer = self.peer()?;
        let local = CopySlices::readable(from, remote.len);
        // SAFETY: readable by the invariant of `SendBuffer`; the rest is the caller's promise.
        unsafe { Cma.write_at(peer, &[remote], local.as_slice(), skip, limit) }
            .map_err(Failed::from)
    }

    fn peer(&self) -> Result<&CmaPeer, Failed> {
        self.0.as_ref().map_err(|why| Failed::refused(why))
    }
}

/// The address of a send's bytes, for an offer; `None` if they lie in several slices.
pub fn address_of(slices: &[RawSlice]) -> Option<u64> {
    match slices {
        [one] => Some(one.start.expose_provenance() as u64),
        _ => None,
    }
}

/// The address of a receive's room; `None` if it lies in several slices.
pub fn address_of_room(slices: &[RawSliceMut]) -> Option<u64> {
    match slices {
        [one] => Some(one.start.expose_provenance() as u64),
        _ => None,
    }
}

/// The slices of a buffer up to a total, in the words of the engines. One slice, the usual case,
/// needs no memory.
pub(crate) enum CopySlices<L> {
    One([L; 1]),
    Many(Vec<L>),
}

impl CopySlices<LocalSlice> {
    /// The first `len` bytes of a send.
    pub(crate) fn readable(from: &SendBuffer, len: u64) -> Self {
        let slices = from.slices().iter().map(|slice| (slice.start, slice.len));
        Self::cut(slices, len, LocalSlice::new)
    }
}

impl CopySlices<LocalSliceMut> {
    /// Room for the first `len` bytes of a message.
    pub(crate) fn writable(into: &ReceiveBuffer, len: u64) -> Self {
        let slices = into.slices().iter().map(|slice| (slice.start, slice.len));
        Self::cut(slices, len, LocalSliceMut::new)
    }
}

impl<L> CopySlices<L> {
    /// Takes `total` bytes of the slices; the last one may be cut.
    fn cut<P>(
        slices: impl ExactSizeIterator<Item = (P, usize)>,
        mut total: u64,
        slice: impl Fn(P, usize) -> L,
    ) -> Self {
        let is_one = slices.len() == 1;
        let mut cut = slices.map(|(start, len)| {
            let len = total.min(len as u64);
            total -= len;
            (start, len as usize)
        });
        match (is_one, cut.next()) {
            (true, Some((start, len))) => Self::One([slice(start, len)]),
            (_, first) => {
                let there = first.into_iter().chain(cut).filter(|(_, len)| *len > 0);
                Self::Many(there.map(|(start, len)| slice(start, len)).collect())
            }
        }
    }

    pub(crate) fn as_slice(&self) -> &[L] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}
