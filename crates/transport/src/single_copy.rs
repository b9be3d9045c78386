//! Single copy by cross-memory attach, or the reason why there is none.

use limic_copy::{
    Cma, CmaPeer, CopyEngine, CopyError, LocalSlice, LocalSliceMut, ProbeWord, RemoteRange,
};

use crate::buffer::{ReceiveBuffer, SendBuffer};
use crate::copy_slices::CopySlices;
use crate::raw::{RawSlice, RawSliceMut};

/// Bytes in another process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteBytes {
    pub(crate) address: u64,
    pub(crate) key: u64,
    pub(crate) len: u64,
}

/// A copy that did not work.
#[derive(Debug)]
pub(crate) struct Failed {
    /// Bytes that certainly got through.
    pub(crate) copied: u64,
    /// The line for the log: cause and errno.
    pub(crate) why: String,
}

/// What a peer needs to try single copy on this process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProbeData {
    pub(crate) pid: i32,
    pub(crate) address: u64,
    pub(crate) value: u64,
}

/// This process's side: the word that peers read to make sure whom they reach.
#[derive(Debug)]
pub(crate) struct Probe(ProbeWord);

impl Probe {
    pub(crate) fn new(random: u64) -> Self {
        // Yama's middle setting asks that a process name its tracers.
        let _ = limic_copy::allow_peers();
        Self(ProbeWord::new(random))
    }

    pub(crate) fn data(&self) -> ProbeData {
        ProbeData {
            pid: limic_shm::world::process_id() as i32,
            address: self.0.address(),
            value: self.0.value(),
        }
    }
}

/// A peer's process, if single copy reaches it.
#[derive(Debug)]
pub(crate) struct RemoteProcess(Result<CmaPeer, String>);

impl RemoteProcess {
    /// Tries it, with one read of eight bytes.
    pub(crate) fn probe(data: ProbeData) -> Self {
        Self(Cma::probe(data.pid, data.address, data.value).map_err(|refused| refused.to_string()))
    }

    pub(crate) fn none(why: &str) -> Self {
        Self(Err(why.to_owned()))
    }

    /// Why it cannot be used.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    /// Never use it again.
    pub(crate) fn demote(&mut self, why: &str) {
        self.0 = Err(why.to_owned());
    }

    /// Reads up to `limit` bytes from `skip` on.
    pub(crate) fn read(
        &self,
        remote: RemoteBytes,
        into: &ReceiveBuffer,
        skip: u64,
        limit: u64,
    ) -> Result<u64, Failed> {
        let peer = self.peer()?;
        let local = CopySlices::cut(
            into.slices(),
            remote.len,
            |s| s.len,
            |s, len| LocalSliceMut::new(s.start, len),
        );
        let remote = [range(remote)];
        // SAFETY: the room is writable by the invariant of `ReceiveBuffer`, and the transport does
        // nothing else with it during the call.
        unsafe { Cma.read_at(peer, &remote, local.as_slice(), skip, limit) }
            .map_err(|error| failed(&error))
    }

    /// Writes up to `limit` bytes from `skip` on.
    pub(crate) fn write(
        &self,
        remote: RemoteBytes,
        from: &SendBuffer,
        skip: u64,
        limit: u64,
    ) -> Result<u64, Failed> {
        let peer = self.peer()?;
        let local = CopySlices::cut(
            from.slices(),
            remote.len,
            |s| s.len,
            |s, len| LocalSlice::new(s.start, len),
        );
        let remote = [range(remote)];
        // SAFETY: readable by the invariant of `SendBuffer`; the peer asked for the write in a
        // message (split-copy), or exposed the region and waits for accesses before it takes the
        // memory back (one-sided).
        unsafe { Cma.write_at(peer, &remote, local.as_slice(), skip, limit) }
            .map_err(|error| failed(&error))
    }

    fn peer(&self) -> Result<&CmaPeer, Failed> {
        self.0.as_ref().map_err(|why| Failed {
            copied: 0,
            why: why.clone(),
        })
    }
}

fn range(bytes: RemoteBytes) -> RemoteRange {
    RemoteRange {
        key: bytes.key,
        address: bytes.address,
        len: bytes.len,
    }
}

fn failed(error: &CopyError) -> Failed {
    Failed {
        copied: error.copied(),
        why: error.to_string(),
    }
}

/// The address of a send's bytes, for an offer; `None` if they lie in several slices.
pub(crate) fn address_of(slices: &[RawSlice]) -> Option<u64> {
    match slices {
        [one] => Some(one.start.expose_provenance() as u64),
        _ => None,
    }
}

/// The address of a receive's room; `None` if it lies in several slices.
pub(crate) fn address_of_room(slices: &[RawSliceMut]) -> Option<u64> {
    match slices {
        [one] => Some(one.start.expose_provenance() as u64),
        _ => None,
    }
}
