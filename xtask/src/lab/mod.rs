//! A real kernel in a virtual machine: built here, booted by QEMU, with what a test needs inside.
//!
//! [`archive`] fetches Debian's kernel source from the [`mirror`], [`kernel`] configures and builds it, [`module`] builds
//! limic's own module against it. [`image`] packs an initramfs, [`guest`] boots it and reads what
//! it says, [`console`] looks for the kernel's complaints. [`run`], [`test`] and [`shell`] are the
//! commands. `docs/lab.md` is the page for users.

mod archive;
mod cache;
mod console;
mod cpio;
mod guest;
mod image;
mod kernel;
mod libraries;
mod machine;
mod marker;
mod mirror;
mod module;
mod needs;
mod programs;
mod report;
mod run;
mod shell;
mod test;

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::tally::Tally;

/// A kernel with Rust and Soft-RoCE in a virtual machine.
#[derive(Debug, Subcommand)]
pub(crate) enum LabTask {
    /// Fetch and build the kernel; quick when it is cached. An interrupted build goes on.
    Build {
        #[command(flatten)]
        flavour: FlavourArguments,
        /// Look for a newer kernel of the series in the archive even if one is cached.
        #[arg(long)]
        newest: bool,
    },
    /// Boot a guest and run a command in it; its exit code is passed on.
    Run(run::RunArguments),
    /// Run every guest test (package `limic-lab`), or those whose name holds FILTER.
    Test(test::TestArguments),
    /// Boot a guest with a console.
    Shell(machine::Machine),
}

/// Which of the two kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Quick; what CI uses.
    Fast,
    /// lockdep, kmemleak, DEBUG_VM, fault injection, SLUB debugging and more; several times slower.
    Debug,
}

impl Flavour {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Debug => "debug",
        }
    }
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FlavourArguments {
    /// The kernel with lockdep, kmemleak, DEBUG_VM, fault injection and SLUB debugging.
    #[arg(long)]
    debug_image: bool,
}

impl FlavourArguments {
    pub(crate) fn flavour(self) -> Flavour {
        if self.debug_image {
            Flavour::Debug
        } else {
            Flavour::Fast
        }
    }
}

pub(crate) fn run(task: &LabTask, tally: &mut Tally) -> Result<(), Failure> {
    match task {
        LabTask::Build { flavour, newest } => {
            kernel::build(flavour.flavour(), *newest).map(|kernel| kernel.describe())
        }
        LabTask::Run(arguments) => run::run(arguments),
        LabTask::Test(arguments) => {
            let result = test::run(arguments, tally);
            tally.report(usize::from(result.is_err()));
            result
        }
        LabTask::Shell(machine) => shell::run(machine),
    }
}

/// The CI step: all guest tests on the fast image, if `LIMIC_CI_LAB` asks for them. Else, and without a kernel
/// and the means to build one, it is skipped, and says so.
pub(crate) fn ci(tally: &mut Tally) -> Result<(), Failure> {
    if std::env::var_os("LIMIC_CI_LAB").is_none() {
        tally.skip_check(
            "the virtual machine: not asked for (LIMIC_CI_LAB=1 cargo xtask ci, or cargo xtask lab test)",
        );
        return Ok(());
    }
    match kernel::build(Flavour::Fast, false) {
        Ok(_) => test::run(&test::TestArguments::default(), tally),
        Err(Failure::Missing(why)) => {
            tally.skip_check(&format!("the virtual machine: {why}"));
            Ok(())
        }
        Err(other) => Err(other),
    }
}
