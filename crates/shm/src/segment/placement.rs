//! NUMA node and huge pages: asked for, and what came of it.

use std::fmt;
use std::fs::read_to_string;

use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use super::mapping::{HUGE_PAGE, Mapping};

/// Where shared memory should lie. Wishes: none of them can fail the creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placement {
    /// The NUMA node to prefer, as in `/sys/devices/system/node`: that of the
    /// core which reads the segment.
    pub numa_node: Option<u32>,
    /// Transparent huge pages (2 MiB), where the system grants them.
    pub huge_pages: bool,
}

/// What came of one wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// Nobody asked.
    NotAsked,
    /// The kernel took the wish. For huge pages this is no promise: it uses
    /// them as far as it finds free ones.
    Granted,
    /// Not granted, with the reason and the remedy.
    Refused(String),
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("not asked for"),
            Self::Granted => f.write_str("granted"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
        }
    }
}

/// What came of a [`Placement`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Of the NUMA node.
    pub numa_node: Grant,
    /// Of huge pages.
    pub huge_pages: Grant,
    /// Whether all pages are in the page table already, so that no first access
    /// traps (Linux 5.14).
    pub populated: Grant,
}

impl Placement {
    /// Whether a mapping of `bytes` should begin on a border of huge pages.
    pub(super) fn aligned(self, bytes: usize) -> bool {
        self.huge_pages && bytes >= HUGE_PAGE
    }

    /// Tells the kernel the wishes for a fresh mapping, before its pages exist:
    /// a page stays where and what it was born.
    pub(super) fn apply(self, mapping: &Mapping) -> Granted {
        let numa_node = match self.numa_node {
            None => Grant::NotAsked,
            Some(node) => prefer_node(mapping, node),
        };
        let huge_pages = if self.huge_pages {
            ask_huge(mapping)
        } else {
            Grant::NotAsked
        };
        Granted {
            numa_node,
            huge_pages,
            populated: Grant::NotAsked,
        }
    }
}

/// Fills the page table, which also allocates pages that do not exist.
pub(super) fn populate(mapping: &Mapping) -> Grant {
    match advise(mapping, Advice::LinuxPopulateWrite) {
        Ok(()) => Grant::Granted,
        Err(Errno::INVAL) => Grant::Refused("needs Linux 5.14".into()),
        Err(errno) => Grant::Refused(format!("MADV_POPULATE_WRITE failed: {errno}")),
    }
}

fn advise(mapping: &Mapping, advice: Advice) -> Result<(), Errno> {
    // SAFETY: the range is the mapping, and neither piece of advice used here
    // (huge pages, populate) changes what is in its bytes.
    unsafe { madvise(mapping.base().as_ptr(), mapping.len(), advice) }
}

const SHMEM_ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

fn ask_huge(mapping: &Mapping) -> Grant {
    if mapping.len() < HUGE_PAGE {
        return Grant::Refused(format!("smaller than a huge page ({HUGE_PAGE} bytes)"));
    }
    match read_to_string(SHMEM_ENABLED) {
        Err(error) => return Grant::Refused(format!("{SHMEM_ENABLED} cannot be read: {error}")),
        // "always within_size [advise] never deny force"
        Ok(modes)
            if ["[never]", "[deny]"]
                .iter()
                .any(|mode| modes.contains(mode)) =>
        {
            return Grant::Refused(format!(
                "{SHMEM_ENABLED} is {}: as root, write advise to it",
                if modes.contains("[deny]") {
                    "deny"
                } else {
                    "never"
                }
            ));
        }
        Ok(_) => {}
    }
    match advise(mapping, Advice::LinuxHugepage) {
        Ok(()) => Grant::Granted,
        Err(errno) => Grant::Refused(format!("MADV_HUGEPAGE failed: {errno}")),
    }
}

/// Highest node number that is asked for; kernels are built for at most 1024.
const NODES: u32 = 1024;

fn prefer_node(mapping: &Mapping, node: u32) -> Grant {
    if node >= NODES {
        return Grant::Refused(format!(
            "node {node} is out of range: nodes are below {NODES}"
        ));
    }
    const BITS: u32 = libc::c_ulong::BITS;
    let mut mask: [libc::c_ulong; (NODES / BITS) as usize] = [0; (NODES / BITS) as usize];
    mask[(node / BITS) as usize] = 1 << (node % BITS);
    // SAFETY: mbind reads `mask`, of which NODES bits exist (the kernel takes the
    // number as one more than it reads); a policy changes no byte of the mapping.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            mapping.base().as_ptr(),
            mapping.len() as libc::c_ulong,
            libc::c_long::from(libc::MPOL_PREFERRED),
            mask.as_ptr(),
            libc::c_ulong::from(NODES),
            0 as libc::c_ulong,
        )
    };
    if answer == 0 {
        return Grant::Granted;
    }
    let error = std::io::Error::last_os_error();
    Grant::Refused(match error.raw_os_error() {
        Some(libc::EINVAL) => format!(
            "this machine has no memory on NUMA node {node} (or the process may not use it)"
        ),
        Some(libc::ENOSYS) => "this kernel has no NUMA support".into(),
        Some(libc::EPERM) => "mbind is not permitted here (seccomp filter of the container)".into(),
        _ => format!("mbind failed: {error}"),
    })
}
