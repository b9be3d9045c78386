//! A real kernel in a virtual machine: built here, booted by QEMU, with what a test needs inside.
//!
//! [`archive`] fetches Debian's kernel source from the [`mirror`], [`kernel`] configures and builds it with a [`compiler`], [`module`] builds
//! limic's own module against it. [`image`] packs an initramfs, [`guest`] boots it and reads what
//! it says, [`console`] looks for the kernel's complaints. [`run`], [`test`] and [`shell`] are the
//! commands. `docs/lab.md` is the page for users.

mod archive;
mod cache;
mod compiler;
mod console;
mod cpio;
mod folder;
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
mod schedule;
mod session;
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

/// Which of the three kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Quick; what CI uses.
    Fast,
    /// lockdep, kmemleak, DEBUG_VM, fault injection, SLUB debugging and more; several times slower.
    Debug,
    /// All of `Debug`, and KASAN, in Rust code too, for which the kernel has to be built by clang; slower still.
    Kasan,
}

impl Flavour {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Debug => "debug",
            Self::Kasan => "kasan",
        }
    }

    /// Its configuration, on top of the kernel's tinyconfig; later ones win.
    fn fragments(self) -> &'static [&'static str] {
        match self {
            Self::Fast => &["lab/fast.config", "lab/times.config"],
            Self::Debug => &["lab/fast.config", "lab/debug.config"],
            Self::Kasan => &["lab/fast.config", "lab/debug.config", "lab/kasan.config"],
        }
    }
}

#[derive(Debug, Default, Clone, Copy, Args)]
pub(crate) struct FlavourArguments {
    /// The kernel with lockdep, kmemleak, DEBUG_VM, fault injection and SLUB debugging.
    #[arg(long)]
    debug_image: bool,
    /// The same with KASAN, which finds accesses outside of an object and behind its end; built by clang.
    #[arg(long, conflicts_with = "debug_image")]
    kasan_image: bool,
}

impl FlavourArguments {
    pub(crate) fn flavour(self) -> Flavour {
        match (self.debug_image, self.kasan_image) {
            (_, true) => Flavour::Kasan,
            (true, false) => Flavour::Debug,
            (false, false) => Flavour::Fast,
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

/// The CI step: a short part of the guest tests on the fast image; all of them with `LIMIC_CI_LAB=1`, none with
/// `LIMIC_CI_LAB=0`. Without a kernel and the means to build one it is skipped, and says so.
pub(crate) fn ci(tally: &mut Tally) -> Result<(), Failure> {
    let arguments = match std::env::var("LIMIC_CI_LAB").as_deref() {
        Err(_) | Ok("") => test::TestArguments::short(),
        Ok("1") => test::TestArguments::default(),
        Ok("0") => {
            tally.skip_check("the virtual machine: LIMIC_CI_LAB=0 says so");
            return Ok(());
        }
        Ok(other) => {
            return Err(Failure::Wrong(format!(
                "LIMIC_CI_LAB={other}: it is 1 for all guest tests, 0 for none; without it, CI runs a short part of them"
            )));
        }
    };
    match kernel::build(Flavour::Fast, false).and_then(|_| needs::machine(true)) {
        Ok(()) => test::run(&arguments, tally),
        Err(Failure::Missing(why)) => {
            tally.skip_check(&format!("the virtual machine: {why}"));
            Ok(())
        }
        Err(other) => Err(other),
    }
}
