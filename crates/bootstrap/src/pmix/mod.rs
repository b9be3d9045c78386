//! Start-up under a PMIx launcher (`prterun`, Open MPI's `mpirun`, `srun --mpi=pmix`).
//!
//! libpmix is loaded at run time, so nothing needs it to build or to run elsewhere. It keeps one
//! thread of its own for its connection from init to finalize; limic starts none.

mod abi;
#[expect(unsafe_code, reason = "calls the functions of a C library")]
mod library;

use std::time::Duration;

use super::{Bootstrap, BootstrapError, MAX_BLOB, check_blob};
use abi::{Proc, Status};
use library::{Got, c_text};

const LAUNCHER: &str = "PMIx";

/// A rank's connection to a PMIx server.
#[derive(Debug)]
pub struct Pmix {
    library: library::Pmix,
    /// The job's name as the library wants it: closed by NUL.
    nspace: [u8; 256],
    job_id: String,
    rank: u32,
    size: u32,
    /// Number of the next exchange: the keys of one are never used again.
    serial: u64,
    /// Time limit of each wait, in seconds; 0 is none, in PMIx as here.
    seconds: i32,
    finalized: bool,
}

impl Pmix {
    /// Loads libpmix and connects to the server that the environment names. `limit` bounds each
    /// wait, as far as the server knows time limits.
    ///
    /// # Errors
    /// [`BootstrapError::LibraryNotLoaded`], or what the library reports.
    pub fn connect(limit: Option<Duration>) -> Result<Self, BootstrapError> {
        let library = library::Pmix::load()?;
        let me = library.init().map_err(|status| BootstrapError::Refused {
            launcher: LAUNCHER,
            step: "PMIx_Init",
            text: format!("{} (says {})", library.describe(status), library.name()),
        })?;
        let name = me
            .nspace
            .split(|&byte| byte == 0)
            .next()
            .unwrap_or_default();
        let mut pmix = Self {
            job_id: String::from_utf8_lossy(name).into_owned(),
            nspace: me.nspace,
            rank: me.rank,
            size: 0,
            serial: 0,
            seconds: limit.map_or(0, |limit| {
                i32::try_from(limit.as_secs()).unwrap_or(i32::MAX)
            }),
            finalized: false,
            library,
        };
        let step = "PMIx_Get of the job's size";
        pmix.size = match pmix.get(step, abi::RANK_WILDCARD, abi::JOB_SIZE)? {
            Got::Number(size) if size > pmix.rank => size,
            other => {
                return Err(protocol(
                    step,
                    format!("rank {} in a job of {other:?}", pmix.rank),
                ));
            }
        };
        tracing::debug!(
            rank = pmix.rank,
            size = pmix.size,
            job = pmix.job_id,
            library = pmix.library.version(),
            "connected to the PMIx server"
        );
        Ok(pmix)
    }

    fn get(
        &self,
        step: &'static str,
        rank: u32,
        key: &std::ffi::CStr,
    ) -> Result<Got, BootstrapError> {
        let of = Proc {
            nspace: self.nspace,
            rank,
        };
        let got = self.library.get(&of, key, self.seconds);
        got.map_err(|status| self.error(step, status))
    }

    fn error(&self, step: &'static str, status: Status) -> BootstrapError {
        match status {
            abi::ERR_TIMEOUT => BootstrapError::Timeout {
                launcher: LAUNCHER,
                step,
                seconds: self.seconds.unsigned_abs().into(),
            },
            abi::ERR_UNREACH | abi::ERR_LOST_CONNECTION => BootstrapError::LauncherGone {
                launcher: LAUNCHER,
                step,
            },
            status => BootstrapError::Refused {
                launcher: LAUNCHER,
                step,
                text: self.library.describe(status),
            },
        }
    }

    fn check(&self, step: &'static str) -> Result<(), BootstrapError> {
        if self.finalized {
            return Err(BootstrapError::Finalized {
                launcher: LAUNCHER,
                step,
            });
        }
        Ok(())
    }

    fn fence(&self, step: &'static str, collect: bool) -> Result<(), BootstrapError> {
        let result = self.library.fence(collect, self.seconds);
        result.map_err(|status| self.error(step, status))
    }
}

impl Bootstrap for Pmix {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn kind(&self) -> &'static str {
        "pmix"
    }

    fn job_id(&self) -> &str {
        &self.job_id
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, BootstrapError> {
        self.check("all_gather")?;
        check_blob(mine)?;
        let key = c_text(&format!("limic-{}", self.serial));
        // Some versions refuse a byte object of length 0: one byte in front keeps every blob
        // non-empty.
        let framed = [b"+", mine].concat();
        let stored = self.library.put(&key, &framed);
        stored.map_err(|status| self.error("PMIx_Put", status))?;
        self.fence("PMIx_Fence", true)?;
        self.serial += 1;
        let ranks = 0..self.size;
        let all = ranks.map(|rank| match self.get("PMIx_Get", rank, &key)? {
            Got::Bytes(mut bytes)
                if bytes.first() == Some(&b'+') && bytes.len() <= MAX_BLOB + 1 =>
            {
                bytes.remove(0);
                Ok(bytes)
            }
            _ => Err(protocol(
                "PMIx_Get",
                format!("rank {rank} stored something that is not a blob"),
            )),
        });
        all.collect()
    }

    fn barrier(&mut self) -> Result<(), BootstrapError> {
        self.check("barrier")?;
        self.fence("PMIx_Fence", false)
    }

    fn abort(&mut self, code: i32, message: &str) {
        if let Err(status) = self.library.abort(code, &c_text(message)) {
            let error = self.error("PMIx_Abort", status);
            tracing::warn!(%error, "the launcher could not be asked to end the job");
        }
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        if !self.finalized {
            let result = self.library.finalize();
            result.map_err(|status| self.error("PMIx_Finalize", status))?;
            self.finalized = true;
        }
        Ok(())
    }
}

fn protocol(step: &'static str, detail: String) -> BootstrapError {
    BootstrapError::Protocol {
        launcher: LAUNCHER,
        step,
        detail,
    }
}
