//! The needs of the lab beyond the ordinary set-up, which are installed when the lab is first used.

use std::path::{Path, PathBuf};

use limic_runner::folders::cache;
use limic_runner::packages::{self, Need, has_library, program, runs};
use limic_runner::{Failure, Job, console};

use super::compiler::{Compiler, newest_llvm};
use super::debian::{self, Suite};

/// To run a guest.
const MACHINE: [Need; 2] = [
    Need {
        package: "qemu-system-x86",
        present: || runs("qemu-system-x86_64"),
    },
    Need {
        package: "busybox-static",
        present: || busybox().is_some(),
    },
];

/// To run one with RDMA devices in software.
const RDMA: [Need; 2] = [
    Need {
        package: "iproute2",
        present: || program("rdma").is_some(),
    },
    Need {
        package: "ibverbs-providers",
        present: || DRIVERS.iter().all(|name| driver(name).exists()),
    },
];

/// To build the kernel.
const KERNEL: [Need; 11] = [
    Need {
        package: "flex",
        present: || runs("flex"),
    },
    Need {
        package: "bison",
        present: || runs("bison"),
    },
    Need {
        package: "bc",
        present: || runs("bc"),
    },
    Need {
        package: "make",
        present: || runs("make"),
    },
    Need {
        package: "xz-utils",
        present: || runs("xz"),
    },
    Need {
        package: "debian-archive-keyring",
        present: || Path::new(debian::KEYRING).exists(),
    },
    Need {
        package: "kmod",
        present: || program("depmod").is_some(),
    },
    Need {
        package: "dwarves",
        present: || runs("pahole"),
    },
    Need {
        package: "libelf-dev",
        present: || has_library("libelf"),
    },
    Need {
        package: "libssl-dev",
        present: || has_library("libcrypto"),
    },
    LIBCLANG,
];

/// To build the kernel, and modules for it.
const LIBCLANG: Need = Need {
    package: "libclang-19-dev",
    present: || libclang().is_some(),
};

/// Soft-RoCE and Soft-iWARP, as libibverbs names them.
pub(crate) const DRIVERS: [&str; 2] = ["rxe", "siw"];

/// The part of libibverbs for one of these.
pub(crate) fn driver(name: &str) -> PathBuf {
    let folder = "/usr/lib/x86_64-linux-gnu/libibverbs";
    format!("{folder}/lib{name}-rdmav34.so").into()
}

/// The distribution's libfabric, if it is installed.
pub(crate) fn libfabric() -> Option<PathBuf> {
    let path = PathBuf::from("/usr/lib/x86_64-linux-gnu/libfabric.so.1");
    path.exists().then_some(path)
}

/// The oldest libclang that Linux 7.2 takes (its `scripts/min-tool-version.sh`).
const OLDEST_LIBCLANG: u32 = 15;

/// Installs what a guest needs.
pub(crate) fn machine(rdma: bool) -> Result<(), Failure> {
    this_machine()?;
    packages::install("the lab", &MACHINE)?;
    if rdma {
        packages::install("RDMA in the lab", &RDMA)?;
    }
    Ok(())
}

/// Installs what a build of the kernel needs. Returns the variables for its make.
pub(crate) fn kernel(compiler: &Compiler) -> Result<Vec<(&'static str, String)>, Failure> {
    this_machine()?;
    packages::install("the lab's kernel", &KERNEL)?;
    variables(compiler)
}

/// The variables for the make of the kernel or of a module.
pub(crate) fn variables(compiler: &Compiler) -> Result<Vec<(&'static str, String)>, Failure> {
    packages::install("the lab's kernel", &[LIBCLANG])?;
    let libclang = libclang().ok_or_else(|| {
        Failure::Missing(format!(
            "no libclang {OLDEST_LIBCLANG} or newer is found below /usr/lib/llvm-*; install \
             libclang-19-dev, or set LIBCLANG_PATH"
        ))
    })?;
    let mut variables = vec![
        ("LIBCLANG_PATH", libclang.display().to_string()),
        ("RUST_LIB_SRC", library_source()?.display().to_string()),
        ("BINDGEN", bindgen()?.display().to_string()),
    ];
    if let Compiler::Clang { tools, .. } = compiler {
        variables.push(("LLVM", tools.clone()));
    }
    Ok(variables)
}

fn this_machine() -> Result<(), Failure> {
    if cfg!(target_arch = "x86_64") {
        Ok(())
    } else {
        Err(Failure::Missing(
            "the lab builds and boots x86-64 kernels only, with the tools of an x86-64 machine"
                .to_owned(),
        ))
    }
}

/// A static busybox. No other one runs in a guest that has nothing else.
pub(crate) fn busybox() -> Option<PathBuf> {
    let path = program("busybox")?;
    let libraries = Job::new("ldd", 1).arg(&path).succeeds();
    (!libraries).then_some(path)
}

/// The folder of the newest libclang of the distribution, or what `LIBCLANG_PATH` says.
fn libclang() -> Option<PathBuf> {
    if let Some(set) = std::env::var_os("LIBCLANG_PATH") {
        return Some(set.into());
    }
    let has = |folder: &Path| {
        let names = ["lib/libclang.so.1", "lib/libclang.so"];
        names.iter().any(|name| folder.join(name).exists())
    };
    newest_llvm(OLDEST_LIBCLANG, has).map(|folder| folder.join("lib"))
}

/// The source of the standard library, which the kernel compiles `core` from.
fn library_source() -> Result<PathBuf, Failure> {
    let rustc = |words: &[&str]| {
        Job::new("rustc", 1)
            .args(words)
            .capture_quietly()
            .unwrap_or_default()
    };
    let sysroot = rustc(&["--print", "sysroot"]);
    let in_toolchain = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
    let there = || in_toolchain.join("core/src/lib.rs").exists();
    if there() || (packages::install_components(&["rust-src"]).is_ok() && there()) {
        return Ok(in_toolchain);
    }
    let version = rustc(&["--version"]);
    let version = version.split_whitespace().nth(1).unwrap_or_default();
    let folder = cache("lab")?.join(format!("rust-src-{version}"));
    let library = folder.join(format!("usr/src/rustc-{version}/library"));
    if !library.join("core/src/lib.rs").exists() {
        console::detail(&"rustup has no rust-src; looking for Debian's");
        let package = format!("rust-src={version}+*");
        Suite::fetch()?.unpack(&package, &folder).map_err(|why| {
            Failure::Missing(format!(
                "the source of Rust {version}'s standard library is not in the toolchain, and \
                 cannot be had from the archive ({why}); install it: rustup component add rust-src"
            ))
        })?;
    }
    Ok(library)
}

/// bindgen from the search path if it is new enough, else one in the cache.
fn bindgen() -> Result<PathBuf, Failure> {
    let usable = |path: &Path| {
        let text = Job::new(path, 1).arg("--version").capture_quietly();
        // `bindgen 0.73.2`. Linux 7.2 takes 0.71 and newer.
        text.and_then(|text| {
            let mut numbers = text.split_whitespace().nth(1)?.split('.');
            let mut next = || numbers.next()?.parse::<u32>().ok();
            Some((next()?, next()?) >= (0, 71))
        })
        .unwrap_or(false)
    };
    let tools = cache("lab/tools")?;
    let own = tools.join("bin/bindgen");
    if let Some(path) = program("bindgen").filter(|path| usable(path)) {
        return Ok(path);
    }
    if !usable(&own) {
        console::step(&"lab: installing bindgen");
        let build = tools.join("build");
        let installed = Job::cargo(&["install", "bindgen-cli", "--locked", "--root"], 20)
            .arg(&tools)
            .arg("--target-dir")
            .arg(&build)
            .run();
        // The program alone is used.
        let _ = std::fs::remove_dir_all(build);
        installed.map_err(|why| {
            Failure::Missing(format!(
                "bindgen 0.71 or newer is missing, and cargo could not install it ({why}); \
                     install it: cargo install bindgen-cli --locked"
            ))
        })?;
    }
    Ok(own)
}
