//! Why cross-memory attach is refused, and what to do about it.

use std::fmt;

use crate::error::errno_name;

/// The kernel, or a check of ours, keeps this process out of a peer's memory.
///
/// Shown as "EPERM, kernel.yama.ptrace_scope=2: REMEDY".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What the kernel answered; `None` if it gave bytes, but not the expected ones.
    pub errno: Option<i32>,
    /// Why, as far as it can be found out.
    pub reason: RefusalReason,
}

/// The reason of a [`Refused`]. `Display` gives the cause in a few words, for a log line;
/// [`remedy`](Self::remedy) what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The peer is known by a pid that cannot be one: the kernel shows 0 for a process of a pid
    /// namespace that is not visible.
    InvalidPid {
        /// What was given.
        pid: i32,
    },
    /// No such process here: ended, or in another pid namespace.
    NotVisible {
        /// The peer's pid.
        pid: i32,
    },
    /// The pid belongs to a process that does not hold the peer's probe word.
    WrongProcess {
        /// The peer's pid, as it said.
        pid: i32,
    },
    /// Not the same user namespace.
    UserNamespace {
        /// Inode of this process's namespace, if readable.
        ours: Option<u64>,
        /// Inode of the peer's, if readable.
        theirs: Option<u64>,
    },
    /// This process's real uid is not the peer's real, effective and saved uid.
    User {
        /// This process's real uid.
        ours: u32,
        /// The peer's uid that differs.
        theirs: u32,
    },
    /// This process's real gid is not the peer's real, effective and saved gid.
    Group {
        /// This process's real gid.
        ours: u32,
        /// The peer's gid that differs.
        theirs: u32,
    },
    /// The peer is not dumpable: it changed its uid, was executed from a file it cannot read or
    /// with a file capability, or asked for it.
    NotDumpable {
        /// The peer's pid.
        pid: i32,
    },
    /// The peer holds capabilities that this process lacks, and this one lacks `CAP_SYS_PTRACE`.
    Capabilities {
        /// Those that the peer has more, as the bits of `CapPrm` in `/proc/PID/status`.
        missing: u64,
    },
    /// The Yama security module.
    Yama {
        /// Value of `kernel.yama.ptrace_scope`: 1, 2 or 3.
        scope: u8,
    },
    /// A seccomp filter of this process, usually a container's.
    Seccomp,
    /// The kernel was built without the system calls.
    NoKernelSupport,
    /// The peer's entry in /proc cannot be read, so that the rest stays unknown.
    Hidden {
        /// The peer's pid.
        pid: i32,
    },
    /// None of the above: another security module, by what the machine runs.
    SecurityModule {
        /// Active modules as the kernel lists them, comma separated; empty if unknown.
        modules: String,
    },
    /// Not a matter of permission; the errno says all that is known.
    Errno,
    /// The kernel module is not loaded: there is no `/dev/limic`.
    NoModule,
    /// `/dev/limic` is there, but this user may not open it.
    DevicePermission,
    /// The process, or the system, has no descriptor left for `/dev/limic`.
    NoDescriptor,
    /// The module speaks another version of the interface.
    ModuleVersion {
        /// The module's; 0 if it did not understand the question.
        theirs: u32,
        /// This crate's.
        ours: u32,
    },
    /// Nothing of this name, direction and length is exposed to this process.
    NotExposed,
    /// RLIMIT_MEMLOCK, or the module's limit of exposures, is reached.
    LockedMemory,
    /// The session was opened by another process, of which this one is a child.
    Forked,
    /// All ranks of the group were given out.
    GroupFull,
    /// No group is joined by this descriptor.
    NoGroup,
    /// The process has as many sessions as the module allows.
    TooManySessions,
    /// The module refused for another reason; the errno says all that is known.
    Module,
}

impl RefusalReason {
    /// What the user or the administrator can do about it, in one sentence.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::InvalidPid { .. } | Self::NotVisible { .. } | Self::WrongProcess { .. } => {
                "start the ranks in one pid namespace (containers: --pid=host, or \
                 --pid=container:NAME), if the peer is alive"
            }
            Self::UserNamespace { .. } => {
                "start the ranks in one user namespace (one container instance for all ranks of a \
                 node, or no --userns/--fakeroot)"
            }
            Self::User { .. } => {
                "run all ranks under one user, or give this program CAP_SYS_PTRACE"
            }
            Self::Group { .. } => {
                "run all ranks under one group and without set-group-id, or give this program \
                 CAP_SYS_PTRACE"
            }
            Self::NotDumpable { .. } => {
                "let the peer call prctl(PR_SET_DUMPABLE, 1), make its executable readable and \
                 start it without set-user-id and file capabilities"
            }
            Self::Capabilities { .. } => {
                "start all ranks with the same capabilities, or give this program CAP_SYS_PTRACE"
            }
            Self::Yama { scope: 1 } => {
                "let the peer call limic_copy::allow_peers (prctl PR_SET_PTRACER), or set sysctl \
                 kernel.yama.ptrace_scope=0"
            }
            Self::Yama { scope: 2 } => {
                "set sysctl kernel.yama.ptrace_scope to 0 or 1, or give this program \
                 CAP_SYS_PTRACE"
            }
            Self::Yama { .. } => {
                "set kernel.yama.ptrace_scope to 0 or 1 in /etc/sysctl.d and restart the machine: \
                 3 cannot be taken back while it runs"
            }
            Self::Seccomp => {
                "allow process_vm_readv and process_vm_writev in the container's seccomp profile \
                 (docker: --cap-add=SYS_PTRACE, or --security-opt seccomp=PROFILE)"
            }
            Self::NoKernelSupport => "use a kernel with CONFIG_CROSS_MEMORY_ATTACH=y",
            Self::Hidden { .. } => {
                "run all ranks under one user; to learn more, mount /proc without hidepid"
            }
            Self::SecurityModule { .. } => {
                "look for a denial in the audit log (dmesg, journalctl) and allow ptrace between \
                 the ranks in that module's policy"
            }
            Self::Errno => "see process_vm_readv(2)",
            Self::NoModule => {
                "build and load the kernel module (kernel/limic_rs), if this machine may have it"
            }
            Self::DevicePermission => {
                "become a member of the group that /dev/limic belongs to (its udev rule names it), and log in anew"
            }
            Self::NoDescriptor => "close some, or raise the limit of open files (ulimit -n)",
            Self::ModuleVersion { .. } => {
                "load the kernel module that belongs to this version of limic"
            }
            Self::NotExposed => "the peer has taken its buffer back; if it has not, report this",
            Self::LockedMemory => {
                "raise the limit of locked memory (ulimit -l, or LimitMEMLOCK= of the service)"
            }
            Self::Forked => "open the endpoint in the process that uses it",
            Self::GroupFull => "name another group (LIMIC_KERNEL_GROUP)",
            Self::NoGroup => {
                "give the descriptor of an open /dev/limic that is a member of a group of this user"
            }
            Self::TooManySessions => {
                "close endpoints that are not used any more, or let several threads use one"
            }
            Self::Module => "look into the kernel's log (dmesg)",
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPid { pid } => {
                write!(
                    f,
                    "the peer shows as pid {pid}, so its pid namespace is not visible here"
                )
            }
            Self::NotVisible { pid } => {
                write!(
                    f,
                    "no process {pid} here (it ended or is in another pid namespace)"
                )
            }
            Self::WrongProcess { pid } => {
                write!(
                    f,
                    "process {pid} here is not the peer (another pid namespace)"
                )
            }
            Self::UserNamespace {
                ours: Some(ours),
                theirs: Some(theirs),
            } => {
                write!(f, "user namespace {theirs} is not this process's {ours}")
            }
            Self::UserNamespace { .. } => {
                write!(f, "the peer seems to be in another user namespace")
            }
            Self::User { ours, theirs } => write!(f, "peer has uid {theirs}, this process {ours}"),
            Self::Group { ours, theirs } => {
                write!(f, "peer has gid {theirs}, this process {ours}")
            }
            Self::NotDumpable { pid } => write!(f, "process {pid} is not dumpable"),
            Self::Capabilities { missing } => {
                write!(
                    f,
                    "peer has capabilities {missing:#x} that this process lacks"
                )
            }
            Self::Yama { scope } => write!(f, "kernel.yama.ptrace_scope={scope}"),
            Self::Seccomp => write!(f, "a seccomp filter forbids process_vm_readv or _writev"),
            Self::NoKernelSupport => write!(f, "this kernel has no process_vm_readv"),
            Self::Hidden { pid } => write!(f, "/proc/{pid}/status cannot be read"),
            Self::SecurityModule { modules } if modules.is_empty() => {
                write!(f, "refused by a security module")
            }
            Self::SecurityModule { modules } => {
                write!(f, "refused by a security module ({modules})")
            }
            Self::Errno => write!(f, "process_vm_readv failed"),
            Self::NoModule => write!(f, "there is no /dev/limic"),
            Self::DevicePermission => write!(f, "/dev/limic may not be opened by this user"),
            Self::NoDescriptor => write!(f, "no descriptor is free for /dev/limic"),
            Self::ModuleVersion { theirs: 0, ours } => {
                write!(f, "/dev/limic does not speak version {ours}")
            }
            Self::ModuleVersion { theirs, ours } => {
                write!(f, "/dev/limic speaks version {theirs}, this program {ours}")
            }
            Self::NotExposed => write!(f, "nothing is exposed under this handle"),
            Self::LockedMemory => write!(f, "no more memory may be pinned"),
            Self::Forked => write!(f, "/dev/limic was opened by another process"),
            Self::GroupFull => write!(f, "all ranks of the group in /dev/limic were given out"),
            Self::NoGroup => write!(f, "no group is joined by this descriptor"),
            Self::TooManySessions => write!(
                f,
                "this process has as many sessions with /dev/limic as a process may have (64)"
            ),
            Self::Module => write!(f, "/dev/limic refused"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(errno) = self.errno {
            write!(f, "{}, ", errno_name(errno))?;
        }
        write!(f, "{}: {}", self.reason, self.reason.remedy())
    }
}

impl std::error::Error for Refused {}
