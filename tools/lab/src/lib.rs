//! A real kernel in a virtual machine: built here, booted by QEMU, with what a test needs inside.
//!
//! - [`debian`] fetches Debian's kernel source from the [`mirror`]. [`kernel`] configures and
//!   builds it with a [`compiler`], and [`module`] builds limic's own module against it.
//! - [`image`] packs an [`initramfs`]. [`guest`] boots it by QEMU, in the words of [`machine`], and
//!   reads its output. [`kernel_log`] looks for complaints of the kernel.
//! - [`run`](mod@run), [`test`](mod@test) and [`shell`] are the commands. For a test,
//!   [`programs`] builds the test programs, [`session`] runs the tests of one program, [`schedule`]
//!   runs programs side by side, and [`report`] shows the results.
//!
//! `docs/lab.md` is the page for users. `cargo xtask lab` starts this program, so that nobody else
//! waits for it to be compiled.

mod compiler;
mod debian;
mod folder;
mod guest;
mod image;
mod initramfs;
mod kernel;
mod kernel_log;
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
use limic_runner::{Failure, Summary};

pub use machine::Machine;
pub use run::RunArguments;
pub use test::TestArguments;

/// The commands of the lab.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Fetch and build the kernel; quick when it is cached. An interrupted build goes on.
    Build {
        /// Which kernel.
        #[command(flatten)]
        flavour: FlavourArguments,
        /// Look for a newer kernel of the series in the archive even if one is cached.
        #[arg(long)]
        newest: bool,
    },
    /// Boot a guest and run a command in it; its exit code is passed on.
    Run(RunArguments),
    /// Run every guest test (packages `limic-lab-tests` and `limic-module-tests`), or those whose
    /// name holds FILTER.
    Test(TestArguments),
    /// Boot a guest with a console.
    Shell(Machine),
    /// What CI runs: by LIMIC_CI_LAB a short part of the tests, all (1) or none (0).
    #[command(hide = true)]
    Ci,
}

/// Which of the three kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flavour {
    /// Quick; what CI uses.
    Fast,
    /// lockdep, kmemleak, DEBUG_VM, fault injection, SLUB debugging and more; several times slower.
    Debug,
    /// All of `Debug`, and KASAN, in Rust code too, for which clang has to build the kernel; slower
    /// still.
    Kasan,
}

impl Flavour {
    fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Debug => "debug",
            Self::Kasan => "kasan",
        }
    }

    /// Its configuration, on top of the kernel's tinyconfig; later files win.
    fn fragments(self) -> &'static [&'static str] {
        match self {
            Self::Fast => &["lab/fast.config", "lab/times.config"],
            Self::Debug => &["lab/fast.config", "lab/debug.config"],
            Self::Kasan => &["lab/fast.config", "lab/debug.config", "lab/kasan.config"],
        }
    }
}

/// Options that choose one of the three kernels.
#[derive(Debug, Default, Clone, Copy, Args)]
pub struct FlavourArguments {
    /// The kernel with lockdep, kmemleak, DEBUG_VM, fault injection and SLUB debugging.
    #[arg(long)]
    debug_image: bool,
    /// The same with KASAN, which finds accesses outside of an object and behind its end; built by
    /// clang.
    #[arg(long, conflicts_with = "debug_image")]
    kasan_image: bool,
}

impl FlavourArguments {
    fn flavour(self) -> Flavour {
        match (self.debug_image, self.kasan_image) {
            (_, true) => Flavour::Kasan,
            (true, false) => Flavour::Debug,
            (false, false) => Flavour::Fast,
        }
    }
}

/// Runs a command.
///
/// # Errors
/// If the kernel cannot be built or booted, or a test fails.
pub fn run(task: &Task) -> Result<(), Failure> {
    match task {
        Task::Build { flavour, newest } => {
            kernel::build(flavour.flavour(), *newest).map(|kernel| kernel.describe())
        }
        Task::Run(arguments) => run::run(arguments),
        Task::Test(arguments) => Summary::of(|summary| test::run(arguments, summary)),
        Task::Shell(machine) => shell::run(machine),
        Task::Ci => Summary::of(ci),
    }
}

/// The check of CI. Without a kernel and the means to build one it is skipped, and says so.
fn ci(summary: &mut Summary) -> Result<(), Failure> {
    let arguments = match std::env::var("LIMIC_CI_LAB").as_deref() {
        Err(_) | Ok("") => TestArguments::short(),
        Ok("1") => TestArguments::default(),
        Ok("0") => {
            summary.skip_check("the virtual machine: LIMIC_CI_LAB=0 says so");
            return Ok(());
        }
        Ok(other) => {
            return Err(Failure::Wrong(format!(
                "LIMIC_CI_LAB={other}: it is 1 for all guest tests, 0 for none; without it, CI \
                 runs a short part of them"
            )));
        }
    };
    match kernel::build(Flavour::Fast, false).and_then(|_| needs::machine(true)) {
        Ok(()) => test::run(&arguments, summary),
        Err(Failure::Missing(why)) => {
            summary.skip_check(&format!("the virtual machine: {why}"));
            Ok(())
        }
        Err(other) => Err(other),
    }
}
