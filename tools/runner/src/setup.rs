//! The packages that builds and checks of limic need.

use std::path::PathBuf;

use crate::packages::{self, Need, missing, program, runs};
use crate::{Failure, Job, console};

/// What a build needs.
const BUILD: [Need; 4] = [
    Need {
        package: "gcc",
        present: || runs("cc"),
    },
    // cmake starts it.
    Need {
        package: "make",
        present: || runs("make"),
    },
    // These two make the bindings to libibverbs. The library itself is loaded at run time, if it is
    // there.
    Need {
        package: "cmake",
        present: || program("cmake").is_some(),
    },
    Need {
        package: "libclang-dev",
        present: has_libclang,
    },
];

/// What tests need beside it: they compile the C header as C++ too.
const TESTS: [Need; 2] = [
    Need {
        package: "g++",
        present: || runs("c++"),
    },
    Need {
        package: "pkg-config",
        present: || runs("pkg-config"),
    },
];

/// Their names on other systems than Debian and Ubuntu.
const ELSEWHERE: &str = "a C compiler, make, cmake and libclang, for tests also a C++ compiler and \
    pkg-config (or pkgconf) (Fedora: gcc make cmake clang-libs gcc-c++ pkgconf)";

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

/// Installs what is missing for a build. Quick if all is there.
///
/// # Errors
/// If something cannot be installed; the text says how to install it by hand.
pub fn build() -> Result<(), Failure> {
    packages::install_or("setup", &BUILD, ELSEWHERE)
}

/// Installs what is missing for builds and tests, and the components of the toolchain that checks
/// use. Quick if all is there.
///
/// # Errors
/// As [`build`].
pub fn run() -> Result<(), Failure> {
    let all = [&BUILD[..], &TESTS].concat();
    packages::install_or("setup", &all, ELSEWHERE)?;
    let components = missing(&COMPONENTS);
    if components.is_empty() {
        return Ok(());
    }
    console::step(&format_args!("setup: {} missing", components.join(", ")));
    packages::install_components(&components)
}

/// Looks for libclang where programs that make bindings look for it.
fn has_libclang() -> bool {
    let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let found = |folder: PathBuf| {
        // libclang-cpp is another library, which bindings cannot be made with.
        entries(folder).map(|entry| entry.file_name()).any(|name| {
            let name = name.to_string_lossy();
            name.starts_with("libclang")
                && !name.starts_with("libclang-cpp")
                && name.contains(".so")
        })
    };
    let llvm = entries(PathBuf::from("/usr/lib"))
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
        .chain(plain.map(PathBuf::from))
        .any(found)
}
