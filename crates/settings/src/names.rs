//! Names of variables: those of files, those that are no settings, and the known one that was
//! meant.

/// A variable that names a file.
#[derive(Debug)]
pub(crate) struct FileVariable {
    pub(crate) variable: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) accepted: &'static str,
}

pub(crate) const CONFIG: FileVariable = FileVariable {
    variable: "LIMIC_CONFIG",
    meaning: "TOML file with settings; it wins over the profile",
    accepted: "the path of a file",
};
pub(crate) const PROFILE: FileVariable = FileVariable {
    variable: "LIMIC_PROFILE",
    meaning: "TOML file with what limic tune measured on this host; if this is not set, \
              limic/HOST.toml in $XDG_CONFIG_HOME or ~/.config, if it exists",
    accepted: "the path of a file, or off",
};

/// A variable that limic reads, or that a part of limic sets, and that is no setting of an
/// endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherVariable {
    /// Its name.
    pub name: &'static str,
    /// What reads it.
    pub read_by: &'static str,
    /// What it does, with its unit.
    pub meaning: &'static str,
    /// What it accepts.
    pub accepted: &'static str,
    /// What holds if it is not set.
    pub default: &'static str,
}

/// The variables that are no settings of an endpoint.
pub const OTHER_VARIABLES: [OtherVariable; 14] = [
    OtherVariable {
        name: "LIMIC_LOG",
        read_by: "every program",
        meaning: "what goes to standard error. A program says there what its user should know, \
                  as of misspelt variables, unless this is off or error, or the program takes \
                  warnings through the crate tracing. The command limic says as much as is \
                  asked for",
        accepted: "off, error, warn, info, debug, trace, or a filter as of tracing-subscriber",
        default: "warn",
    },
    OtherVariable {
        name: "LIMIC_BOOTSTRAP",
        read_by: "World::init",
        meaning: "how a job starts",
        accepted: "pmi1, pmix or single",
        default: "as the launcher's variables say",
    },
    OtherVariable {
        name: "LIMIC_BOOTSTRAP_TIMEOUT",
        read_by: "World::init",
        meaning: "longest time in seconds that each wait for the launcher takes",
        accepted: "whole seconds, 0 for no limit",
        default: "300",
    },
    OtherVariable {
        name: "LIMIC_PMIX_LIBRARY",
        read_by: "World::init",
        meaning: "the file of libpmix, under PMIx launchers",
        accepted: "the path of a shared library",
        default: "where the system's loader finds it",
    },
    OtherVariable {
        name: "LIMIC_RANK",
        read_by: "endpoints",
        meaning: "this process's rank, as counters show it",
        accepted: "a number",
        default: "what PMI or PMIx say",
    },
    OtherVariable {
        name: "LIMIC_LOCAL_RANK",
        read_by: "programs that limic run starts",
        meaning: "the rank among those of this machine",
        accepted: "set by limic run",
        default: "none",
    },
    OtherVariable {
        name: "LIMIC_LOCAL_SIZE",
        read_by: "endpoints",
        meaning: "how many ranks this machine has, so that waiting ranks give way where there are \
                  more than CPUs",
        accepted: "set by limic run",
        default: "what MPI launchers say",
    },
    OtherVariable {
        name: "LIMIC_JOB",
        read_by: "limic run",
        meaning: "the name of the job, by which its processes are found if the launcher is killed",
        accepted: "set by limic run",
        default: "none",
    },
    OtherVariable {
        name: "LIMIC_SYSFS",
        read_by: "the topology",
        meaning: "a folder that is read in place of /sys/devices/system: another machine's, for \
                  tests and reports of faults",
        accepted: "the path of a folder",
        default: "/sys/devices/system",
    },
    OtherVariable {
        name: "LIMIC_FI_CLOSED",
        read_by: "the libfabric provider",
        meaning: "what becomes of messages to an endpoint that was closed: they are dropped, as \
                  MPIs expect at their end, or they are errors",
        accepted: "drop or error",
        default: "drop",
    },
    OtherVariable {
        name: "LIMIC_FI_STATS",
        read_by: "the libfabric provider",
        meaning: "whether each endpoint prints a line of counters when it closes",
        accepted: "0, or anything else for yes",
        default: "0",
    },
    OtherVariable {
        name: "LIMIC_HEAP_FROM",
        read_by: "liblimic-heap.so",
        meaning: "bytes from which on a block of a program's malloc is peer-readable memory",
        accepted: "4K and more (a number with an optional K, M or G), or 0 for none",
        default: "16K",
    },
    OtherVariable {
        name: "LIMIC2_PATH",
        read_by: "liblimic2",
        meaning: "how copies are made: by the kernel module, by cross-memory attach, or by what \
                  is there",
        accepted: "auto, kmod or cma",
        default: "auto",
    },
    OtherVariable {
        name: "LIMIC2_GROUP",
        read_by: "liblimic2",
        meaning: "group of the kernel module that processes share",
        accepted: "any word",
        default: "one for all processes of a user",
    },
];

/// Names that others give to a folder where limic lies: environment modules and package managers.
const PLACES: [&str; 6] = [
    "LIMIC_ROOT",
    "LIMIC_DIR",
    "LIMIC_HOME",
    "LIMIC_PREFIX",
    "LIMIC_LIB",
    "LIMIC_INC",
];

/// Beginnings of names that limic's own tests and checks read.
const TESTS: [&str; 5] = [
    "LIMIC_TEST_",
    "LIMIC_LAB_",
    "LIMIC_CI_",
    "LIMIC_BENCH_",
    "LIMIC_FUZZ_",
];

/// Whether a variable is no setting and all the same no mistake.
pub(crate) fn is_known(name: &str) -> bool {
    OTHER_VARIABLES.iter().any(|other| other.name == name)
        || PLACES.contains(&name)
        || TESTS.iter().any(|beginning| name.starts_with(beginning))
}

/// The name among `known` that takes the fewest edits to come from `name`.
pub(crate) fn nearest(name: &str, known: impl IntoIterator<Item = &'static str>) -> &'static str {
    known
        .into_iter()
        .min_by_key(|other| distance(name, other))
        .unwrap_or("")
}

/// Whether a user who wrote `name` may have meant `known`: half of it is right, or it was cut.
pub(crate) fn is_like(name: &str, known: &str) -> bool {
    let own = name.len().saturating_sub("LIMIC_".len());
    known.starts_with(name) || 2 * distance(name, known) <= own
}

/// Levenshtein's distance between two names.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Key;

    #[test]
    fn the_nearest_name_is_found() {
        let names = || Key::ALL.map(|key| key.entry().variable);
        assert_eq!(nearest("LIMIC_EAGR_MAX", names()), "LIMIC_EAGER_MAX");
        assert_eq!(nearest("LIMIC_SPIN", names()), "LIMIC_SPIN_US");
        assert_eq!((distance("kitten", "sitting"), distance("", "abc")), (3, 3));
    }
}
