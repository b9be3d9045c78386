//! What /proc says about processes and security settings. For the cold path: it allocates.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// `CAP_SYS_PTRACE` among the capability bits.
pub(crate) const CAP_SYS_PTRACE: u64 = 1 << 19;

/// The parts of `/proc/PID/status` that decide about ptrace access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    /// Real, effective and saved uid, as this process's user namespace shows them.
    pub(crate) uids: [u32; 3],
    /// Real, effective and saved gid.
    pub(crate) gids: [u32; 3],
    /// Permitted capabilities.
    pub(crate) permitted: u64,
    /// Effective capabilities.
    pub(crate) effective: u64,
    /// 0: no seccomp, 1: strict, 2: filter.
    pub(crate) seccomp: u8,
    /// Whether the process has ended and waits for its parent.
    pub(crate) ended: bool,
}

impl Status {
    /// This thread's.
    pub(crate) fn of_self() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/status").ok()?)
    }

    /// Of process `pid`.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    /// Reads the file's text; `None` if the ids are not in it.
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::trim)
        };
        let ids = |name: &str| {
            let mut ids = field(name)?
                .split_whitespace()
                .map_while(|id| id.parse().ok());
            Some([ids.next()?, ids.next()?, ids.next()?])
        };
        let bits = |name: &str| {
            field(name)
                .and_then(|bits| u64::from_str_radix(bits, 16).ok())
                .unwrap_or(0)
        };
        Some(Self {
            uids: ids("Uid")?,
            gids: ids("Gid")?,
            permitted: bits("CapPrm"),
            effective: bits("CapEff"),
            seccomp: field("Seccomp")
                .and_then(|mode| mode.parse().ok())
                .unwrap_or(0),
            ended: field("State").is_some_and(|state| state.starts_with(['Z', 'X'])),
        })
    }
}

/// `kernel.yama.ptrace_scope`; `None` if the kernel has no Yama.
pub(crate) fn yama_scope() -> Option<u8> {
    fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Inode of a process's user namespace; `None` if it may not be looked at.
pub(crate) fn user_namespace(process: &str) -> Option<u64> {
    Some(fs::metadata(format!("/proc/{process}/ns/user")).ok()?.ino())
}

/// The uid map of a process, which everybody may read; differs between most user namespaces.
pub(crate) fn uid_map(process: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{process}/uid_map")).ok()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Owner of a process's files in /proc: its effective uid, or root if it is not dumpable.
pub(crate) fn owner(pid: i32) -> Option<u32> {
    // The directory /proc/PID itself belongs to the effective uid in any case.
    Some(fs::metadata(format!("/proc/{pid}/status")).ok()?.uid())
}

/// Names of the active security modules, comma separated; empty if the kernel does not tell.
pub(crate) fn security_modules() -> String {
    fs::read_to_string("/sys/kernel/security/lsm")
        .map(|list| list.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_file_is_read() {
        let text = "Name:\tx\nState:\tZ (zombie)\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n\
                    CapPrm:\t0000000000080000\nCapEff:\t0000000000000001\nSeccomp:\t2\n";
        let status = Status {
            uids: [1, 2, 3],
            gids: [5, 6, 7],
            permitted: CAP_SYS_PTRACE,
            effective: 1,
            seccomp: 2,
            ended: true,
        };
        assert_eq!(Status::parse(text), Some(status));
        assert_eq!(Status::parse("Uid:\t1\n"), None);
        assert_eq!(Status::parse(""), None);
    }

    #[test]
    fn this_process_shows_itself() {
        let status = Status::of_self().unwrap();
        assert_eq!(status.uids[0], rustix::process::getuid().as_raw());
        assert!(!status.ended);
        assert!(user_namespace("self").is_some());
    }
}
