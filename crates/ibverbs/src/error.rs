//! What can go wrong with verbs.

use rustix::io::Errno;

/// Why a verbs call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// libibverbs is not installed.
    #[error(
        "libibverbs could not be loaded ({0}): install it (Debian and Ubuntu: ibverbs-providers)"
    )]
    NoLibrary(String),
    /// The library is there and finds no device.
    #[error(
        "libibverbs finds no device ({0}): is there an InfiniBand or RoCE adapter with its driver, or a soft one \
         (rdma link add rxe0 type rxe netdev NAME), and the provider's library?"
    )]
    NoDevice(String),
    /// A device of this name is not there.
    #[error("there is no device {wanted}; this machine has: {present}")]
    UnknownDevice {
        /// The name that was asked for.
        wanted: String,
        /// The names that there are.
        present: String,
    },
    /// No port that can be used.
    #[error("{device} has no active port with a usable address: {why}")]
    NoPort {
        /// The device.
        device: String,
        /// What is the matter with its ports.
        why: String,
    },
    /// A port does not do what a setting asks for.
    #[error("port {port} of {device} {why}")]
    Setting {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// What it does not, the setting, and what there is.
        why: String,
    },
    /// A verbs call failed.
    #[error("{call} failed: {errno}{}", hint(*.errno))]
    Call {
        /// The call.
        call: &'static str,
        /// Its errno.
        errno: Errno,
    },
    /// The adapter gives less than what was asked for.
    #[error("{device} grants at most {most} {what}, {wanted} were asked for")]
    Limit {
        /// The device.
        device: String,
        /// Of what.
        what: &'static str,
        /// What was asked for.
        wanted: u64,
        /// What there is.
        most: u64,
    },
    /// The operation does not fit the object's state.
    #[error("a queue pair in state {state} cannot {wanted}")]
    State {
        /// The state.
        state: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
}

fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::NOMEM => " (too little memory, or the limit on locked memory: ulimit -l)",
        Errno::ACCESS | Errno::PERM => " (permission on /dev/infiniband/uverbs*)",
        _ => "",
    }
}

impl VerbsError {
    /// From a call that returned a null pointer and set errno.
    pub(crate) fn last(call: &'static str) -> Self {
        let errno = std::io::Error::last_os_error();
        Self::Call {
            call,
            errno: Errno::from_io_error(&errno).unwrap_or(Errno::IO),
        }
    }

    /// From a call that returns an errno, positive or negative.
    pub(crate) fn check(call: &'static str, returned: i32) -> Result<(), Self> {
        match returned {
            0 => Ok(()),
            // Some providers return -1 and set errno, as the old calls did.
            -1 => Err(Self::last(call)),
            number => Err(Self::Call {
                call,
                errno: Errno::from_raw_os_error(number.saturating_abs()),
            }),
        }
    }
}

/// Logs that an object could not be destroyed. It is leaked then, with its memory.
pub(crate) fn leaked(what: &'static str, returned: i32) {
    tracing::error!("{what} failed with errno {returned}; the object and its memory are leaked");
}
