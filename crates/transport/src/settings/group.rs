//! Settings that have to do with one thing.

use core::fmt;

/// What settings have to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Group {
    /// Files that hold settings.
    Files,
    /// Which path a message takes.
    Paths,
    /// Shared memory.
    Memory,
    /// How long an endpoint waits, and in which way.
    Waiting,
    /// What an endpoint says of itself.
    Observation,
    /// The kernel module.
    KernelModule,
    /// Peers on other machines.
    Networks,
    /// Those that are reached over verbs.
    Verbs,
}

impl Group {
    /// Every group, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Files,
        Self::Paths,
        Self::Memory,
        Self::Waiting,
        Self::Observation,
        Self::KernelModule,
        Self::Networks,
        Self::Verbs,
    ];

    /// When the settings of the group matter, in a sentence or two.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Files => {
                "Read before everything else. A profile that cannot be used is left aside with a \
                 warning; a configuration that cannot be used is an error."
            }
            Self::Paths => {
                "They matter for messages between processes of one machine. What is set here wins \
                 over the profile and over measurements, and `limic info --why` shows the effect."
            }
            Self::Memory => {
                "They decide how much shared memory an endpoint makes, so they matter in jobs of \
                 many ranks, and where /dev/shm or a memory limit is tight."
            }
            Self::Waiting => {
                "They matter where ranks share CPUs, and when a job ends while messages are on \
                 their way."
            }
            Self::Observation => "It costs nothing until the endpoint closes.",
            Self::KernelModule => {
                "It matters to endpoints of the kind `KernelEndpoint`, where the module is loaded."
            }
            Self::Networks => {
                "They matter in jobs on several machines. Messages within one machine go through \
                 shared memory."
            }
            Self::Verbs => {
                "They matter in builds with the feature `ibverbs`, where an adapter is there."
            }
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Files => "Files",
            Self::Paths => "Paths",
            Self::Memory => "Memory",
            Self::Waiting => "Waiting",
            Self::Observation => "Observation",
            Self::KernelModule => "Kernel module",
            Self::Networks => "Other machines",
            Self::Verbs => "Verbs",
        })
    }
}

impl serde::Serialize for Group {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
