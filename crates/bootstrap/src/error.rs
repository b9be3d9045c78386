//! What can go wrong during job start-up. Each text names the launcher's protocol, the step, and
//! what to do.

use std::io;

/// Gives errors their `Display` as `Debug`, so that a `main` which returns one prints words.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_display {
    ($($error:ty),+) => {$(
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    )+};
}

debug_as_display!(BootstrapError);

/// An error between this process and the launcher of its job.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// An environment variable is missing or holds something unexpected.
    #[error(
        "{launcher} start-up: the environment variable {variable} is {found}, expected {expected}; start the program \
         through a launcher (limic run, mpiexec, prterun, srun), or set LIMIC_BOOTSTRAP=single to run it alone"
    )]
    Environment {
        /// `PMI-1`, `PMIx` or `limic`.
        launcher: &'static str,
        /// The variable's name.
        variable: &'static str,
        /// Its value, or `not set`.
        found: String,
        /// What it should hold.
        expected: &'static str,
    },

    /// A system call on the connection to the launcher failed.
    #[error("{launcher} start-up, {step}: {source}; {advice}")]
    Io {
        /// `PMI-1` or `PMIx`.
        launcher: &'static str,
        /// What was being done.
        step: &'static str,
        /// The operating system's error.
        source: io::Error,
        /// What the user can do.
        advice: &'static str,
    },

    /// The launcher closed the connection: it ended, or it dropped this rank.
    #[error(
        "{launcher} start-up, {step}: the launcher closed the connection, so it has ended or was killed; look at its \
         own output and start the job again"
    )]
    LauncherGone {
        /// `PMI-1` or `PMIx`.
        launcher: &'static str,
        /// What was being done.
        step: &'static str,
    },

    /// No answer within the time limit.
    #[error(
        "{launcher} start-up, {step}: no answer within {seconds} s; a rank may be stuck before this step; \
         LIMIC_BOOTSTRAP_TIMEOUT (seconds, 0 for no limit) allows more time"
    )]
    Timeout {
        /// `PMI-1` or `PMIx`.
        launcher: &'static str,
        /// What was being done.
        step: &'static str,
        /// The limit, in seconds.
        seconds: u64,
    },

    /// The launcher answered with an error; its own text is passed on.
    #[error(
        "{launcher} start-up, {step}: the launcher answered with an error: {text}; if a rank ended early, its output \
         says why"
    )]
    Refused {
        /// `PMI-1` or `PMIx`.
        launcher: &'static str,
        /// What was being done.
        step: &'static str,
        /// The launcher's or its library's text.
        text: String,
    },

    /// The launcher's answer makes no sense.
    #[error(
        "{launcher} start-up, {step}: {detail}; the launcher speaks another protocol or version; limic run, MPICH's \
         mpiexec and prterun are known to work"
    )]
    Protocol {
        /// `PMI-1` or `PMIx`.
        launcher: &'static str,
        /// What was being done.
        step: &'static str,
        /// What was received and what was expected.
        detail: String,
    },

    /// A second connection was asked for in one process; launchers allow one.
    #[error(
        "{launcher} start-up: this process is already connected to its launcher, and a launcher allows one connection \
         per process; share the first one"
    )]
    AlreadyConnected {
        /// `PMI-1`.
        launcher: &'static str,
    },

    /// A call after `finalize`.
    #[error("{launcher} start-up, {step}: called after finalize; finalize last")]
    Finalized {
        /// `PMI-1` or `PMIx`.
        launcher: &'static str,
        /// What was asked for.
        step: &'static str,
    },

    /// The PMIx library could not be loaded.
    #[error(
        "PMIx start-up: PMIX_NAMESPACE is set, so a PMIx launcher started this program, but libpmix could not be \
         loaded. Tried: {tried}. Add the folder that holds the launcher's libpmix.so.2 to LD_LIBRARY_PATH, or set \
         LIMIC_PMIX_LIBRARY to the file (LIMIC_BOOTSTRAP=single runs each process alone)"
    )]
    LibraryNotLoaded {
        /// Each name with the loader's reason.
        tried: String,
    },

    /// The PMIx library lacks a function.
    #[error("PMIx start-up: {library} has no function {function}; PMIx 3 or newer is needed")]
    FunctionMissing {
        /// The library that was loaded.
        library: String,
        /// The function's name.
        function: &'static str,
    },

    /// limic was built without the feature that this launcher needs.
    #[error(
        "PMIx start-up was chosen ({reason}), but this program was built without limic's feature `pmix`; build it \
         with that feature, or start it with limic run or MPICH's mpiexec"
    )]
    FeatureMissing {
        /// The variable that led here.
        reason: &'static str,
    },

    /// A blob longer than [`MAX_BLOB`](super::MAX_BLOB).
    #[error("start-up, all_gather: a blob of {length} bytes; at most {max} are allowed")]
    BlobTooLong {
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        max: usize,
    },
}
