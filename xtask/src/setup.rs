//! Installs what is missing on Debian and Ubuntu, or says exactly what to install.

use std::path::PathBuf;

use rustix::process::geteuid;

use crate::console;
use crate::failure::Failure;
use crate::job::Job;

/// Something that the build needs, how it is recognised, and where it comes from.
pub(crate) struct Need {
    pub(crate) package: &'static str,
    pub(crate) present: fn() -> bool,
}

const PACKAGES: [Need; 7] = [
    Need {
        package: "gcc",
        present: || Job::new("cc", 1).args(&["--version"]).succeeds(),
    },
    // Tests compile the C header as C++ too.
    Need {
        package: "g++",
        present: || Job::new("c++", 1).args(&["--version"]).succeeds(),
    },
    Need {
        package: "pkg-config",
        present: || Job::new("pkg-config", 1).args(&["--version"]).succeeds(),
    },
    Need {
        package: "libhwloc-dev",
        present: || has_library("hwloc >= 2.1"),
    },
    // libhwloc.a, which pkg-config describes beside the shared one, wants it.
    Need {
        package: "libudev-dev",
        present: || has_library("libudev"),
    },
    // The bindings to libibverbs are made by these two; the library itself is loaded at run time, if it is there.
    Need {
        package: "cmake",
        present: || program("cmake").is_some(),
    },
    Need {
        package: "libclang-dev",
        present: has_libclang,
    },
];

/// Where libclang is looked for by those who make bindings with it.
fn has_libclang() -> bool {
    let found = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        // libclang-cpp is another library, which bindings cannot be made with.
        entries.map(|entry| entry.file_name()).any(|name| {
            let name = name.to_string_lossy();
            name.starts_with("libclang")
                && !name.starts_with("libclang-cpp")
                && name.contains(".so")
        })
    };
    let versions = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    let llvm = versions
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("/llvm-"))
        .map(|path| path.join("lib"));
    let plain = [
        "/usr/lib",
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
    ];
    let set = std::env::var_os("LIBCLANG_PATH").map(PathBuf::from);
    set.into_iter()
        .chain(llvm)
        .chain(plain.into_iter().map(PathBuf::from))
        .any(found)
}

const COMPONENTS: [Need; 2] = [
    Need {
        package: "rustfmt",
        present: || Job::cargo(&["fmt", "--version"], 1).succeeds(),
    },
    Need {
        package: "clippy",
        present: || Job::cargo(&["clippy", "--version"], 1).succeeds(),
    },
];

/// The path of a program, also of those that are only on root's search path.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(system);
    folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()))
}

pub(crate) fn has_library(what: &str) -> bool {
    Job::new("pkg-config", 1)
        .args(&["--exists", what])
        .succeeds()
}

fn missing(needs: &[Need]) -> Vec<&'static str> {
    let absent = needs.iter().filter(|need| !(need.present)());
    absent.map(|need| need.package).collect()
}

/// Everything but what only Miri needs.
pub(crate) fn run() -> Result<(), Failure> {
    let packages = missing(&PACKAGES);
    if !packages.is_empty() {
        console::step(&format_args!("setup: {} missing", packages.join(", ")));
        let elsewhere = "a C and a C++ compiler, cmake, libclang, pkg-config (or pkgconf), and the development files of hwloc 2.1 or \
                         newer and of libudev (Fedora: gcc gcc-c++ cmake clang-libs pkgconf hwloc-devel systemd-devel)";
        install_packages(&packages, elsewhere)?;
        let still = missing(&PACKAGES);
        if !still.is_empty() {
            return Err(Failure::Missing(format!(
                "{} was installed but is not found; hwloc has to be 2.1 or newer",
                still.join(", ")
            )));
        }
    }
    let components = missing(&COMPONENTS);
    if !components.is_empty() {
        console::step(&format_args!("setup: {} missing", components.join(", ")));
        install_components(&components)?;
    }
    Ok(())
}

/// Installs what is missing of `needs`, which `whose` needs.
pub(crate) fn install(whose: &str, needs: &[Need]) -> Result<(), Failure> {
    let packages = missing(needs);
    if packages.is_empty() {
        return Ok(());
    }
    console::step(&format_args!("{whose}: {} missing", packages.join(", ")));
    install_packages(&packages, "what your system calls these")?;
    match missing(needs) {
        still if still.is_empty() => Ok(()),
        still => Err(Failure::Missing(format!(
            "{} was installed but is not found",
            still.join(", ")
        ))),
    }
}

/// Installs packages of the distribution, or says how to do it by hand.
///
/// `elsewhere` says what they are called on other systems than Debian and Ubuntu.
pub(crate) fn install_packages(packages: &[&str], elsewhere: &str) -> Result<(), Failure> {
    let list = packages.join(" ");
    let by_hand = |why: &str| {
        Failure::Missing(format!(
            "these packages are missing: {list}\n{why}; install them and start again:\n\n    \
             sudo apt-get update && sudo apt-get install -y {list}\n\n\
             Elsewhere than on Debian and Ubuntu: {elsewhere}."
        ))
    };
    if !Job::new("apt-get", 1).args(&["--version"]).succeeds() {
        return Err(by_hand("There is no apt-get here"));
    }
    if !geteuid().is_root() {
        return Err(by_hand("Only root may install them"));
    }
    let quiet = |words: &[&str]| {
        Job::new("apt-get", 10)
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .run()
    };
    let install = || {
        let mut words = vec!["install", "-y", "--no-install-recommends"];
        words.extend(packages);
        quiet(&words)
    };
    let refused =
        |failure: Failure| by_hand(&format!("apt-get could not install them ({failure})"));
    quiet(&["update"]).map_err(refused)?;
    install().map_err(refused)
}

pub(crate) fn install_components(components: &[&str]) -> Result<(), Failure> {
    let mut words = vec!["component", "add"];
    words.extend(components);
    Job::new("rustup", 10).args(&words).run().map_err(|why| {
        Failure::Missing(format!(
            "these parts of the Rust toolchain are missing: {list} ({why})\n\
             With rustup: rustup component add {list}\n\
             Without it: install the packages of your system that hold them.",
            list = components.join(" ")
        ))
    })
}

/// libfabric with its headers and tools, for the tests of the provider, which are skipped without them.
pub(crate) fn libfabric() {
    let tools = program("fi_info").is_some() && program("fi_pingpong").is_some();
    if (!tools || !has_library("libfabric"))
        && let Err(why) = install_packages(
            &["libfabric-bin", "libfabric-dev"],
            "libfabric and libfabric-devel",
        )
    {
        console::detail(&why);
    }
}

/// valgrind, for the check `counts` alone, which is skipped where it cannot be had.
pub(crate) fn valgrind() {
    let present = Job::new("valgrind", 1).args(&["--version"]).succeeds();
    if !present && let Err(why) = install_packages(&["valgrind"], "valgrind") {
        console::detail(&why);
    }
}

/// The nightly toolchain with Miri, for that step alone. `Err` holds the reason why there is none.
pub(crate) fn miri() -> Result<(), String> {
    let nightly = |words: &[&str]| Job::new("rustup", 1).args(&["run", "nightly"]).args(words);
    let present = || nightly(&["cargo", "miri", "--version"]).succeeds() && rust_src();
    if present() {
        return Ok(());
    }
    let words = [
        "toolchain",
        "install",
        "nightly",
        "--profile",
        "minimal",
        "-c",
        "miri",
        "-c",
        "rust-src",
    ];
    let remedy = "rustup toolchain install nightly -c miri -c rust-src";
    match Job::new("rustup", 10).args(&words).run() {
        Err(why) => Err(format!(
            "Miri is not installed ({why}); install it: {remedy}"
        )),
        Ok(()) if present() => Ok(()),
        Ok(()) => Err(format!("this nightly has no Miri; try: {remedy}")),
    }
}

fn rust_src() -> bool {
    Job::new("rustup", 1)
        .args(&["run", "nightly", "rustc", "--print", "sysroot"])
        .capture_quietly()
        .is_some_and(|sysroot| {
            std::path::Path::new(sysroot.trim())
                .join("lib/rustlib/src/rust/library/std")
                .is_dir()
        })
}
