//! Single copy between this endpoint and one peer: what can be read or written without the other
//! side.

use limic_copy::{Exposed, Failed, KmodBackend, KmodBackendPair, RemoteProcess, RemoteRange};
use limic_policy::Path;
use limic_shm::bytes::{ReceiveBuffer, SendBuffer};

/// The backends of a pair.
pub(crate) struct SingleCopy {
    /// Cross-memory attach.
    cma: RemoteProcess,
    /// The kernel module.
    kmod: KmodBackendPair,
    /// The peer is in this process.
    same_process: bool,
}

impl SingleCopy {
    pub(crate) fn new(cma: RemoteProcess, kmod: KmodBackendPair, same_process: bool) -> Self {
        Self {
            cma,
            kmod,
            same_process,
        }
    }

    /// Whether the peer is in this process, and its sends are entered in the table of the process.
    pub(crate) fn is_same_process(&self) -> bool {
        self.same_process
    }

    /// Reads up to `most` bytes from byte `at` on, by the backend of `path`.
    pub(crate) fn read(
        &self,
        path: Path,
        remote: RemoteRange,
        into: &ReceiveBuffer,
        at: u64,
        most: u64,
    ) -> Result<u64, Failed> {
        if path == Path::Kmod {
            self.kmod.read(remote.key, into, remote.len, at, most)
        } else {
            self.cma
                .read(RemoteRange { key: 0, ..remote }, into, at, most)
        }
    }

    /// Reads some messages whole by cross-memory attach, each into a room of one slice.
    pub(crate) fn read_together(
        &self,
        messages: &[(RemoteRange, &ReceiveBuffer)],
    ) -> Result<u64, Failed> {
        self.cma.read_together(messages)
    }

    /// Writes up to `most` bytes from byte `at` on.
    ///
    /// # Safety
    /// As [`RemoteProcess::write`].
    pub(crate) unsafe fn write(
        &self,
        remote: RemoteRange,
        from: &SendBuffer,
        at: u64,
        most: u64,
    ) -> Result<u64, Failed> {
        // SAFETY: the caller's promise.
        unsafe { self.cma.write(remote, from, at, most) }
    }

    /// Lets the peer read a send through the kernel module, if it is likely to.
    pub(crate) fn expose(&mut self, kmod: &mut KmodBackend, data: &SendBuffer) -> Option<Exposed> {
        self.kmod.offer(kmod, data)
    }

    /// Notes whether the kernel module moved the last long message to the peer.
    pub(crate) fn note_kmod(&mut self, moved: bool) {
        self.kmod.note(moved);
    }

    /// Never uses the backend of `path` again. Gives the paths that need it.
    pub(crate) fn demote(&mut self, path: Path, why: &str) -> &'static [Path] {
        if path == Path::Kmod {
            self.kmod.demote(why);
            &[Path::Kmod]
        } else {
            self.cma.demote(why);
            &[Path::Cma, Path::SplitCopy]
        }
    }
}
