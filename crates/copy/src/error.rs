//! How a copy fails.

use nix::errno::Errno;

use crate::Refused;

/// Why a copy did not happen, or not wholly.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The kernel does not let this process touch the peer's memory (EPERM, ENOSYS).
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The peer's process is gone, or its pid is not one that this process can see (ESRCH). Or it
    /// has no [`ProbeWord`](crate::ProbeWord) any more: it runs another program, or the owner of
    /// the word is gone.
    #[error("the peer has ended or closed, runs another program, or cannot be seen from here")]
    PeerGone,
    /// Remote memory, or local memory, is not mapped or lacks the permission (EFAULT).
    #[error(
        "memory of the peer or of this process is not mapped, or not with the needed permission \
         (EFAULT), after {copied} bytes of this call"
    )]
    BadAddress {
        /// Bytes of this call, counted from `skip`, that did get through.
        copied: u64,
    },
    /// Something else, by its errno (ENOMEM for instance).
    #[error("the copy failed with {}", errno_name(*.0))]
    Other(i32),
    /// The two lists of a call have different total lengths, or one longer than 2^64 bytes (then
    /// given as `u64::MAX`).
    #[error("the remote list has {remote} bytes and the local list {local}: they must be equal")]
    LengthMismatch {
        /// Total of the remote list in bytes.
        remote: u64,
        /// Total of the local list in bytes.
        local: u64,
    },
    /// `skip` lies behind the end of the lists.
    #[error("asked to start at byte {skip} of a message of {total} bytes")]
    SkipTooLong {
        /// What was asked for, in bytes.
        skip: u64,
        /// Total of the lists in bytes.
        total: u64,
    },
    /// The list that `expose` should fill has too few entries.
    #[error("the list for exposed ranges has {have} entries and needs {need}")]
    ListTooShort {
        /// Entries that there are.
        have: usize,
        /// Entries that are needed.
        need: usize,
    },
}

impl CopyError {
    /// Bytes of the call, counted from `skip`, that certainly got through: another path can go on
    /// from there.
    #[must_use]
    pub fn copied(&self) -> u64 {
        if let Self::BadAddress { copied } = self {
            *copied
        } else {
            0
        }
    }

    /// The kernel's error number, if the kernel gave one, or ESRCH where the peer is gone.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused(refused) => refused.errno,
            Self::PeerGone => Some(libc::ESRCH),
            Self::BadAddress { .. } => Some(libc::EFAULT),
            Self::Other(errno) => Some(*errno),
            Self::LengthMismatch { .. } | Self::SkipTooLong { .. } | Self::ListTooShort { .. } => {
                None
            }
        }
    }
}

/// "EPERM" for 1, "errno 999" for a number without a name.
pub(crate) fn errno_name(errno: i32) -> String {
    match Errno::from_raw(errno) {
        Errno::UnknownErrno => format!("errno {errno}"),
        known => format!("{known:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_their_numbers() {
        assert_eq!(
            CopyError::Other(libc::ENOMEM).to_string(),
            "the copy failed with ENOMEM"
        );
        assert_eq!(errno_name(9999), "errno 9999");
        assert_eq!(CopyError::BadAddress { copied: 7 }.copied(), 7);
        assert_eq!(CopyError::PeerGone.errno(), Some(libc::ESRCH));
    }
}
