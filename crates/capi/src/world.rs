//! Worlds: endpoints with a job around them.

use core::ffi::{CStr, c_char, c_int};
use std::ffi::CString;

use limic::{Barrier, Endpoint, Launcher, Tag, World};

use crate::arguments::output;
use crate::by_turns::ByTurns;
use crate::endpoint_state::{EndpointState, Kind};
use crate::entry::{enter, may_abort};
use crate::errors::Failure;
use crate::errors::limic_error::LIMIC_ERR_NOT_WORLD;
use crate::ffi_guard::{broken, guarded, inside};
use crate::handles::limic_endpoint;
use crate::options::{Opened, Options, limic_options};
use crate::{launchers, table};

/// Joins the job that this process was started in, by `limic run`, Hydra's `mpiexec` (PMI-1),
/// `prterun` or `srun --mpi=pmix` (PMIx); a process that nobody started is a job of one rank. All
/// ranks of the job call it. The peers 0 to size - 1 are the ranks.
///
/// Arguments as for `limic_endpoint_open`. Errors: as there, and `LIMIC_ERR_STARTUP` (which
/// launcher, which step, what to do).
///
/// # Safety
/// As `limic_endpoint_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_world_open(
    options: *const limic_options,
    endpoint: *mut limic_endpoint,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let endpoint = unsafe { output(endpoint, "endpoint") }?;
        // SAFETY: the caller's promise.
        let options = unsafe { Options::read(options) }?;
        let kind = match options.open()? {
            Opened::Hybrid(endpoint) => Kind::HybridWorld(World::with(endpoint)?),
            Opened::Shm(endpoint) => Kind::ShmWorld(World::with(endpoint)?),
            Opened::Kernel(endpoint) => Kind::KernelWorld(World::with(endpoint)?),
        };
        let held = EndpointState::new(kind);
        let launcher = job(&held)?.connection();
        let opened = table::insert(held, options.threads)?;
        launchers::insert(opened, launcher);
        endpoint.write(opened);
        Ok(())
    })
}

/// What is asked of a world, whatever its endpoint is.
trait Job {
    fn rank(&self) -> u32;
    fn size(&self) -> u32;
    fn launcher(&self) -> &'static str;
    fn connection(&self) -> Launcher;
    fn barrier(&self) -> limic::Result<()>;
    fn own_barrier(&self) -> (&Barrier, Tag);
}

impl<E: Endpoint> Job for World<E> {
    fn rank(&self) -> u32 {
        World::rank(self)
    }
    fn size(&self) -> u32 {
        World::size(self)
    }
    fn launcher(&self) -> &'static str {
        World::launcher(self)
    }
    fn connection(&self) -> Launcher {
        World::connection(self)
    }
    fn barrier(&self) -> limic::Result<()> {
        World::barrier(self)
    }
    fn own_barrier(&self) -> (&Barrier, Tag) {
        World::own_barrier(self)
    }
}

fn job(held: &EndpointState) -> Result<&dyn Job, Failure> {
    match &held.kind {
        Kind::HybridWorld(world) => Ok(world),
        Kind::ShmWorld(world) => Ok(world),
        Kind::KernelWorld(world) => Ok(world),
        Kind::Hybrid(_) | Kind::Shm(_) | Kind::Kernel(_) => Err(not_a_world()),
    }
}

#[cold]
fn not_a_world() -> Failure {
    Failure::new(
        LIMIC_ERR_NOT_WORLD,
        "the endpoint was opened by limic_endpoint_open and has no job around it",
    )
}

/// This process's number in the job, 0 to size - 1.
///
/// # Safety
/// `rank` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_world_rank(endpoint: limic_endpoint, rank: *mut u32) -> c_int {
    inside(endpoint, |held| {
        // SAFETY: the caller's promise.
        unsafe { output(rank, "rank") }?.write(job(held)?.rank());
        Ok(())
    })
}

/// How many processes the job has.
///
/// # Safety
/// `size` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_world_size(endpoint: limic_endpoint, size: *mut u32) -> c_int {
    inside(endpoint, |held| {
        // SAFETY: the caller's promise.
        unsafe { output(size, "size") }?.write(job(held)?.size());
        Ok(())
    })
}

/// How the job was started: "pmi1", "pmix" or "single". The memory is the library's and stays
/// valid.
///
/// # Safety
/// `launcher` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_world_launcher(
    endpoint: limic_endpoint,
    launcher: *mut *const c_char,
) -> c_int {
    inside(endpoint, |held| {
        // SAFETY: the caller's promise.
        let launcher = unsafe { output(launcher, "launcher") }?;
        let name = match job(held)?.launcher() {
            "pmi1" => c"pmi1",
            "pmix" => c"pmix",
            "single" => c"single",
            other => {
                // A launcher of a later version: one small string for the life of the process.
                Box::leak(CString::new(other).unwrap_or_default().into_boxed_c_str())
            }
        };
        launcher.write(name.as_ptr());
        Ok(())
    })
}

/// Returns when all ranks have called it. With `LIMIC_THREADS_MULTIPLE` each thread's call counts
/// as one of its rank.
///
/// Errors: `LIMIC_ERR_PEER_FAILED` if a rank is gone, at every other one, with its name in
/// `limic_last_error`; misuse.
#[unsafe(no_mangle)]
pub extern "C" fn limic_world_barrier(endpoint: limic_endpoint) -> c_int {
    inside(endpoint, |held| {
        if !held.is_shared() {
            return Ok(job(held)?.barrier()?);
        }
        let (barrier, tag) = job(held)?.own_barrier();
        // The world is the other threads' while this one waits.
        let barrier = barrier.clone();
        barrier.wait_by(ByTurns(held), tag)
    })
}

/// Leaves the job in good order and closes the endpoint: waits until all ranks do, so that nobody
/// misses a message. The handle is void afterwards, also after an error of the transport.
///
/// Errors: `LIMIC_ERR_PEER_FAILED` if a rank died, `LIMIC_ERR_STARTUP`, `LIMIC_ERR_INTERNAL` for an
/// endpoint that failed; `LIMIC_ERR_REGION` as `limic_endpoint_close`; and, with the handle still
/// valid, misuse.
#[unsafe(no_mangle)]
pub extern "C" fn limic_world_finalize(endpoint: limic_endpoint) -> c_int {
    let looked = guarded(|| job(&*enter(endpoint)?).map(|_| ()));
    if looked != 0 {
        return looked;
    }
    guarded(|| {
        let held = table::remove(endpoint)?;
        if held.broken {
            // It takes part in nothing any more, and the other ranks must not wait for it.
            held.into_kind(drop)?;
            return Err(broken());
        }
        held.into_kind(|kind| match kind {
            Kind::HybridWorld(world) => world.finalize(),
            Kind::ShmWorld(world) => world.finalize(),
            Kind::KernelWorld(world) => world.finalize(),
            // Looked at above, and the handle means the same endpoint.
            Kind::Hybrid(_) | Kind::Shm(_) | Kind::Kernel(_) => Ok(()),
        })??;
        Ok(())
    })
}

/// Ends the whole job: every rank is killed, and the launcher returns `code`. Does not return,
/// unless the handle is no world, or another thread owns it (`LIMIC_ERR_THREAD`). Waits for no
/// peer, and with `LIMIC_THREADS_MULTIPLE` for no other thread. An endpoint that failed
/// (`LIMIC_ERR_INTERNAL`) does it too.
///
/// - `message`: what the launcher is to print; may be NULL.
///
/// # Safety
/// `message` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_world_abort(
    endpoint: limic_endpoint,
    code: c_int,
    message: *const c_char,
) -> c_int {
    guarded(|| {
        may_abort(endpoint)?;
        let launcher = launchers::find(endpoint).ok_or_else(not_a_world)?;
        let text = if message.is_null() {
            String::new()
        } else {
            // SAFETY: a string, by the caller's promise.
            let text = unsafe { CStr::from_ptr(message) };
            text.to_string_lossy().into_owned()
        };
        launcher.abort(code, &text)
    })
}
