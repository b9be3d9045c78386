//! limic's errors as libfabric's numbers.

use core::ffi::CStr;

use limic_shm::process::ValueHere;

use limic::{Error, PeerFailure};

use crate::log;
use limic_ofi_abi::errno::*;

/// The number that stands for an error.
pub(crate) fn errno_of(error: &Error) -> i32 {
    match error {
        Error::Truncated { .. } => FI_ETRUNC,
        Error::Cancelled => FI_ECANCELED,
        Error::PeerFailed { why, .. } => match why {
            PeerFailure::Died | PeerFailure::Reported { .. } => FI_ECONNRESET,
            PeerFailure::Closed | PeerFailure::Forked => FI_ECONNABORTED,
            PeerFailure::Unreachable | PeerFailure::Refused(_) | PeerFailure::NotMet(_) => {
                FI_ECONNREFUSED
            }
            PeerFailure::OtherNode => FI_EHOSTUNREACH,
            _ => FI_EIO,
        },
        Error::UnknownPeer { .. } | Error::BadAddress(_) => FI_EINVAL,
        Error::UnknownRegion { .. } => FI_EKEYREJECTED,
        Error::RegionInUse { .. } => FI_EBUSY,
        Error::KeyInUse { .. } => FI_ENOKEY,
        Error::OutOfRegion { .. } => FI_EACCES,
        Error::NoPath { .. } | Error::NoCommonNetwork(_) => FI_EHOSTUNREACH,
        Error::NoMemory(_) | Error::Segment(_) => FI_ENOMEM,
        Error::System { source, .. } => source.0,
        Error::Settings(_) => FI_EINVAL,
        _ => FI_EOTHER,
    }
}

/// The same, with a line in the log that says more than the number can.
#[cold]
pub(crate) fn logged_errno(error: &Error) -> i32 {
    log::warn(error);
    errno_of(error)
}

/// The variable that says what becomes of messages to an endpoint that was closed.
const CLOSED: &str = "LIMIC_FI_CLOSED";

/// Whether a message that failed so is dropped: its peer has closed its endpoint in good order, and
/// wants nothing more. Where `CLOSED` is `error`, that is an error like others.
pub(crate) fn is_dropped(error: &Error) -> bool {
    static TELLS: ValueHere<bool> = ValueHere::new();
    let Error::PeerFailed { why, .. } = error else {
        return false;
    };
    let tells = || std::env::var(CLOSED).is_ok_and(|value| value == "error");
    matches!(why, PeerFailure::Closed) && !TELLS.get_or_make(tells)
}

/// What a provider's error number means; it is libfabric's own number.
pub(crate) fn text_of(errno: i32) -> &'static CStr {
    match errno {
        FI_ETRUNC => c"the message is longer than the buffer",
        FI_ECANCELED => c"the operation was cancelled",
        FI_ECONNRESET => c"the peer's process ended without closing its endpoint",
        FI_ECONNABORTED => c"the peer closed its endpoint",
        FI_ECONNREFUSED => c"nobody listens at the peer's address, or it refused the connection",
        FI_EHOSTUNREACH => c"the peer is on another node, and no path leads there",
        FI_EIO => c"the peer sent bytes that make no sense",
        FI_EKEYREJECTED => c"the peer exposes no memory under this key for such an access",
        FI_EACCES => c"the access reaches outside of the peer's memory region",
        FI_ENOMSG => c"no message that fits has arrived",
        FI_ENOMEM => c"out of memory",
        FI_EOPNOTSUPP => c"the peer cannot do this operation on this type",
        _ => c"see libfabric's error number",
    }
}
