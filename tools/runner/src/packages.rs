//! Packages of the distribution and parts of the Rust toolchain: whether they are there, and how
//! they are installed on Debian and Ubuntu.

use std::path::PathBuf;

use rustix::process::geteuid;

use crate::{Failure, Job, console};

/// Something that a step needs: how it is recognised, and where it comes from.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// The package of Debian and Ubuntu, or the component of the toolchain.
    pub package: &'static str,
    /// Whether it is there.
    pub present: fn() -> bool,
}

/// The path of a program, also of those that are only on root's search path.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(system);
    folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()))
}

/// Whether a program runs and says its version.
#[must_use]
pub fn runs(program: &str) -> bool {
    Job::new(program, 1).arg("--version").succeeds()
}

/// Whether pkg-config knows a library: `hwloc`, `hwloc >= 2.1`.
#[must_use]
pub fn has_library(what: &str) -> bool {
    Job::new("pkg-config", 1)
        .args(["--exists", what])
        .succeeds()
}

/// The packages that are missing.
#[must_use]
pub fn missing(needs: &[Need]) -> Vec<&'static str> {
    let absent = needs.iter().filter(|need| !(need.present)());
    absent.map(|need| need.package).collect()
}

/// Installs the packages that are missing. `whose` says whose needs they are.
///
/// # Errors
/// If they cannot be installed; the text says how to install them by hand.
pub fn install(whose: &str, needs: &[Need]) -> Result<(), Failure> {
    install_or(whose, needs, "what your system calls these")
}

/// As [`install`]. `elsewhere` says what to install on other systems.
pub(crate) fn install_or(whose: &str, needs: &[Need], elsewhere: &str) -> Result<(), Failure> {
    let packages = missing(needs);
    if packages.is_empty() {
        return Ok(());
    }
    console::step(&format_args!("{whose}: {} missing", packages.join(", ")));
    install_packages(&packages, elsewhere)?;
    match missing(needs) {
        still if still.is_empty() => Ok(()),
        still => Err(Failure::Missing(format!(
            "{} was installed but is not found",
            still.join(", ")
        ))),
    }
}

/// Installs packages of Debian and Ubuntu. `elsewhere` says what other systems call them.
///
/// # Errors
/// If they cannot be installed; the text says how to install them by hand.
pub fn install_packages(packages: &[&str], elsewhere: &str) -> Result<(), Failure> {
    let list = packages.join(" ");
    let by_hand = |why: &str| {
        Failure::Missing(format!(
            "these packages are missing: {list}\n{why}; install them and start again:\n\n    \
             sudo apt-get update && sudo apt-get install -y {list}\n\n\
             Elsewhere than on Debian and Ubuntu: {elsewhere}."
        ))
    };
    if !runs("apt-get") {
        return Err(by_hand("There is no apt-get here"));
    }
    if !geteuid().is_root() {
        return Err(by_hand("Only root may install them"));
    }
    let apt = |words: &[&str]| {
        Job::new("apt-get", 10)
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .run()
            .map_err(|why| by_hand(&format!("apt-get could not install them ({why})")))
    };
    apt(&["update"])?;
    let install = ["install", "-y", "--no-install-recommends"];
    apt(&[&install, packages].concat())
}

/// Installs components of the Rust toolchain.
///
/// # Errors
/// If rustup cannot; the text says what to do.
pub fn install_components(components: &[&str]) -> Result<(), Failure> {
    let add = Job::new("rustup", 10).args(["component", "add"]);
    add.args(components).run().map_err(|why| {
        Failure::Missing(format!(
            "these parts of the Rust toolchain are missing: {list} ({why})\n\
             With rustup: rustup component add {list}\n\
             Without it: install the packages of your system that hold them.",
            list = components.join(" ")
        ))
    })
}
