//! What one `limic_open` gave: prepare registers a buffer, and a copy is one call of the kernel
//! module's or, where that does not reach, one `process_vm_readv` or `process_vm_writev`.
//!
//! Each buffer is in the table, also one that the module has: under the module's handle. So a copy
//! falls back to cross-memory attach when the module has let the buffer go, or the copying process
//! cannot use it.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use limic_copy::{Cma, CmaPeer, CopyEngine, CopyError, LocalSlice, LocalSliceMut, RemoteRange};

use crate::descriptor::{Part, Registered};
use crate::module::Module;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::registry::Found;
use crate::table::Tables;

/// This process's side of a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Local {
    /// Out of the prepared buffer, to here.
    Into(LocalSliceMut),
    /// From here, into the prepared buffer.
    From(LocalSlice),
}

/// What one `limic_open` gave.
pub(crate) struct Session {
    path: Path,
    /// `None`: not wanted, or it refused.
    module: Option<Module>,
    tables: Mutex<Tables>,
    /// Tables of other processes, by process and descriptor.
    found: Mutex<HashMap<(i32, i32), Arc<Found>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    pub(crate) fn open() -> Result<Self, Refusal> {
        let path = Path::from_environment()?;
        if path != Path::Kmod {
            // Yama's middle setting asks that a process name its tracers. What came of it shows at
            // the first copy.
            let _ = limic_copy::allow_peers();
        }
        let tables = Tables::new()?;
        let module = match path {
            Path::Cma => None,
            Path::Kmod => Some(Module::open()?),
            Path::Auto => Module::open()
                .inspect_err(|why| why.note("cross-memory attach instead"))
                .ok(),
        };
        Ok(Self {
            path,
            module,
            tables: Mutex::new(tables),
            found: Mutex::new(HashMap::new()),
        })
    }

    pub(crate) fn fd(&self) -> RawFd {
        locked(&self.tables).fd()
    }

    pub(crate) fn prepare(&self, part: Part) -> Result<Registered, Refusal> {
        if let Some(module) = &self.module {
            let register = |handle| locked(&self.tables).prepare_as(part, handle);
            match module.prepare(part, register) {
                Err(why) if self.path == Path::Auto => why.note("cross-memory attach instead"),
                result => return result,
            }
        }
        locked(&self.tables).prepare(part)
    }

    /// What this process itself registered, and how its memory is reached.
    pub(crate) fn look_up_here(&self, registered: Registered) -> Option<(Part, (u64, u64))> {
        let tables = locked(&self.tables);
        Some((tables.look_up(registered)?, tables.probe()))
    }

    /// The table that a descriptor names; kept from call to call.
    fn find(&self, registered: Registered) -> Result<Arc<Found>, Refusal> {
        let name = (registered.pid, registered.fd);
        if let Some(found) = locked(&self.found).get(&name) {
            return Ok(Arc::clone(found));
        }
        // Opened without the lock: it takes a few system calls. Two threads may do it at once; the
        // last one stays.
        let found = Arc::new(Found::open(registered)?);
        locked(&self.found).insert(name, Arc::clone(&found));
        Ok(found)
    }

    fn registration(&self, registered: Registered) -> Result<(Part, CmaPeer), Refusal> {
        let found = self.find(registered)?;
        match found.look_up(registered) {
            Ok(part) => Ok((part, found.peer.clone())),
            Err(_) => {
                // The process may have ended and its number gone to another one, or it has closed
                // LiMIC2 and opened it anew.
                locked(&self.found).remove(&(registered.pid, registered.fd));
                let found = self.find(registered)?;
                Ok((found.look_up(registered)?, found.peer.clone()))
            }
        }
    }

    /// Copies `part`, which must lie within the registered buffer.
    ///
    /// # Safety
    /// `local` has as many bytes as `part` and is valid for the copy, during the call.
    pub(crate) unsafe fn copy(
        &self,
        registered: Registered,
        part: Part,
        local: Local,
    ) -> Result<(), Refusal> {
        if let Some(module) = &self.module {
            // SAFETY: the caller's promise.
            if unsafe { module.copy(registered, part, local) }? {
                return Ok(());
            }
            if self.path == Path::Kmod {
                return Err(Refusal::stale(
                    "the buffer is not prepared any more, or was not prepared through the kernel module (LIMIC2_PATH=kmod takes no \
                     other way), or the handle was changed on the way",
                ));
            }
        }
        let (whole, peer) = if registered.pid == std::process::id().cast_signed() {
            let (whole, (address, value)) = crate::sessions::look_up_here(registered)?;
            let peer = Cma::probe(registered.pid, address, value)
                .map_err(|refused| Refusal::new(libc::EPERM, refused.to_string()))?;
            (whole, peer)
        } else {
            self.registration(registered)?
        };
        whole.holds(part, registered.pid)?;
        let remote = [RemoteRange {
            key: 0,
            address: part.start as u64,
            len: part.len as u64,
        }];
        let copied = match local {
            // SAFETY: valid for writes by the caller's promise.
            Local::Into(into) => unsafe { Cma.read(&peer, &remote, &[into]) },
            // SAFETY: valid for reads by the caller's promise. The owner prepared the buffer for
            // writes too: LiMIC2 knows no other way.
            Local::From(from) => unsafe { Cma.write(&peer, &remote, &[from]) },
        };
        copied.map(|_| ()).map_err(|error| refused(&error))
    }
}

pub(crate) fn refused(error: &CopyError) -> Refusal {
    let errno = match error {
        CopyError::PeerGone => libc::ESRCH,
        CopyError::BadAddress { .. } => libc::EFAULT,
        other => other.errno().unwrap_or(libc::EPERM),
    };
    Refusal::new(errno, error.to_string())
}
