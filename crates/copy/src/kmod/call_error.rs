//! Why the module refused a call about a message.

/// Why a call was refused. Nothing was posted then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The other side has left its group.
    #[error("that member has left the group (EPIPE)")]
    Gone,
    /// Nobody has had this rank.
    #[error("nobody has had that rank of the group (ESRCH)")]
    Absent,
    /// The receiver's unexpected queue is full.
    #[error("the receiver holds as many unexpected messages as it takes (ENOBUFS)")]
    Full,
    /// RLIMIT_MEMLOCK.
    #[error(
        "RLIMIT_MEMLOCK does not allow to pin more memory (EAGAIN): raise it, with `ulimit -l` or in /etc/security/limits.conf"
    )]
    LockedMemory,
    /// Memory that is not there, or cannot be pinned.
    #[error(
        "EFAULT: the memory is not mapped, not writable, or a shared mapping of a file, which cannot be pinned"
    )]
    BadAddress,
    /// No such message was taken.
    #[error("no such message was taken by a probe (ENOENT)")]
    NoMessage,
    /// It is too late to cancel.
    #[error("it has met the other side already (EALREADY)")]
    TooLate,
    /// The session is another process's.
    #[error("the session was opened by another process, of which this one is a child (ESTALE)")]
    Forked,
    /// Anything else.
    #[error("/dev/limic: {}", std::io::Error::from_raw_os_error(*.0))]
    Other(i32),
}

#[cold]
pub(super) fn refused(errno: i32) -> CallError {
    match errno {
        libc::EPIPE => CallError::Gone,
        libc::ESRCH => CallError::Absent,
        libc::ENOBUFS => CallError::Full,
        libc::EAGAIN => CallError::LockedMemory,
        libc::EFAULT => CallError::BadAddress,
        libc::ENOENT => CallError::NoMessage,
        libc::EALREADY => CallError::TooLate,
        libc::ESTALE => CallError::Forked,
        errno => CallError::Other(errno),
    }
}
