//! Settings that have to do with one thing.

use limic_policy::named;

named! {
    /// What settings have to do with.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Group {
        /// Files that hold settings.
        Files = "Files",
        /// Which path a message takes.
        Paths = "Paths",
        /// Shared memory.
        Memory = "Memory",
        /// How long an endpoint waits, and in which way.
        Waiting = "Waiting",
        /// What an endpoint says of itself.
        Observation = "Observation",
        /// The kernel module.
        KernelModule = "Kernel module",
        /// Peers on other machines.
        Networks = "Other machines",
        /// Those that are reached over verbs.
        Verbs = "Verbs",
    }
}

impl Group {
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
                "They matter in builds with the feature `ibverbs`, where an adapter is there. \
                 `LIMIC_VERBS_CONNECT` matters over TCP and libfabric too."
            }
        }
    }
}
