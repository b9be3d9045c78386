//! What the lab needs beyond the ordinary set-up: installed when the lab is first used.

use std::path::{Path, PathBuf};

use super::archive::{self, Index};
use super::cache;
use super::compiler::Compiler;
use crate::console;
use crate::failure::Failure;
use crate::job::Job;
use crate::setup::{self, Need};

/// To run a guest.
const MACHINE: [Need; 2] = [
    Need {
        package: "qemu-system-x86",
        present: || starts("qemu-system-x86_64"),
    },
    Need {
        package: "busybox-static",
        present: || busybox().is_some(),
    },
];

/// To run one with Soft-RoCE.
const RDMA: [Need; 2] = [
    Need {
        package: "iproute2",
        present: || setup::program("rdma").is_some(),
    },
    Need {
        package: "ibverbs-providers",
        present: || Path::new(RXE).exists(),
    },
];

/// To build the kernel.
const KERNEL: [Need; 13] = [
    Need {
        package: "flex",
        present: || starts("flex"),
    },
    Need {
        package: "bison",
        present: || starts("bison"),
    },
    Need {
        package: "bc",
        present: || starts("bc"),
    },
    Need {
        package: "make",
        present: || starts("make"),
    },
    Need {
        package: "xz-utils",
        present: || starts("xz"),
    },
    Need {
        package: "curl",
        present: || starts("curl"),
    },
    Need {
        package: "gpgv",
        present: || starts("gpgv"),
    },
    Need {
        package: "debian-archive-keyring",
        present: || Path::new(archive::KEYRING).exists(),
    },
    Need {
        package: "kmod",
        present: || setup::program("depmod").is_some(),
    },
    Need {
        package: "dwarves",
        present: || starts("pahole"),
    },
    Need {
        package: "libelf-dev",
        present: || setup::has_library("libelf"),
    },
    Need {
        package: "libssl-dev",
        present: || setup::has_library("libcrypto"),
    },
    LIBCLANG,
];

/// To build the kernel, and modules for it.
const LIBCLANG: Need = Need {
    package: "libclang-19-dev",
    present: || libclang().is_some(),
};

/// The provider of libibverbs for Soft-RoCE.
pub(crate) const RXE: &str = "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so";

/// The oldest libclang and bindgen that Linux 7.2 takes (its `scripts/min-tool-version.sh`).
const OLDEST_LIBCLANG: u32 = 15;

fn starts(program: &str) -> bool {
    Job::new(program, 1).args(&["--version"]).succeeds()
}

/// What a guest needs.
pub(crate) fn machine(rdma: bool) -> Result<(), Failure> {
    this_machine()?;
    setup::install("the lab", &MACHINE)?;
    if rdma {
        setup::install("Soft-RoCE in the lab", &RDMA)?;
    }
    Ok(())
}

/// What a build of the kernel needs, and the variables that its make is started with.
pub(crate) fn kernel(compiler: &Compiler) -> Result<Vec<(&'static str, String)>, Failure> {
    this_machine()?;
    setup::install("the lab's kernel", &KERNEL)?;
    variables(compiler)
}

/// The variables for a build of the kernel or of a module.
pub(crate) fn variables(compiler: &Compiler) -> Result<Vec<(&'static str, String)>, Failure> {
    setup::install("the lab's kernel", &[LIBCLANG])?;
    let libclang = libclang().ok_or_else(|| {
        Failure::Missing(format!(
            "no libclang {OLDEST_LIBCLANG} or newer is found below /usr/lib/llvm-*; install libclang-19-dev, or set LIBCLANG_PATH"
        ))
    })?;
    let mut variables = vec![
        ("LIBCLANG_PATH", archive::text(&libclang)?.to_owned()),
        (
            "RUST_LIB_SRC",
            archive::text(&library_source()?)?.to_owned(),
        ),
        ("BINDGEN", archive::text(&bindgen()?)?.to_owned()),
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

pub(crate) fn busybox() -> Option<PathBuf> {
    // Only a static one runs in a guest that has nothing else.
    let path = setup::program("busybox")?;
    let libraries = Job::new("ldd", 1).args(&[path.to_str()?]).succeeds();
    (!libraries).then_some(path)
}

/// The folder of the newest libclang that is installed, or what `LIBCLANG_PATH` says.
fn libclang() -> Option<PathBuf> {
    if let Some(set) = std::env::var_os("LIBCLANG_PATH") {
        return Some(set.into());
    }
    let versions = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let found = versions.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version: u32 = name.strip_prefix("llvm-")?.parse().ok()?;
        let library = entry.path().join("lib");
        let there = library.join("libclang.so.1").exists() || library.join("libclang.so").exists();
        (there && version >= OLDEST_LIBCLANG).then_some((version, library))
    });
    found.max().map(|(_, library)| library)
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
    if there() || (setup::install_components(&["rust-src"]).is_ok() && there()) {
        return Ok(in_toolchain);
    }
    let version = rustc(&["--version"]);
    let version = version.split_whitespace().nth(1).unwrap_or_default();
    let folder = cache::root()?.join(format!("rust-src-{version}"));
    let relative = format!("usr/src/rustc-{version}/library");
    if !folder.join(&relative).join("core/src/lib.rs").exists() {
        console::detail(&"rustup has no rust-src; looking for Debian's");
        let package = Index::fetch()?
            .newest("rust-src", &format!("{version}+"))
            .ok_or_else(|| {
                Failure::Missing(format!(
                    "the source of Rust {version}'s standard library is neither in the toolchain nor in the archive; \
                     install it: rustup component add rust-src"
                ))
            })?;
        archive::unpack(&package, &folder)?;
    }
    archive::inside(&folder, &relative)
}

/// bindgen from the path if it is new enough, else one of the cache's own.
fn bindgen() -> Result<PathBuf, Failure> {
    let usable = |path: &Path| {
        let text = Job::new(path, 1).args(&["--version"]).capture_quietly();
        // `bindgen 0.73.2`
        text.and_then(|text| {
            let mut numbers = text.split_whitespace().nth(1)?.split('.');
            let mut next = || numbers.next()?.parse::<u32>().ok();
            Some((next()?, next()?) >= (0, 71))
        })
        .unwrap_or(false)
    };
    let tools = cache::root()?.join("tools");
    let own = tools.join("bin/bindgen");
    if let Some(path) = setup::program("bindgen").filter(|path| usable(path)) {
        return Ok(path);
    }
    if !usable(&own) {
        console::step(&"lab: installing bindgen");
        Job::cargo(&["install", "bindgen-cli", "--locked", "--root"], 20)
            .args(&[archive::text(&tools)?])
            .run()
            .map_err(|why| {
                Failure::Missing(format!(
                    "bindgen 0.71 or newer is missing, and cargo could not install it ({why}); \
                     install it: cargo install bindgen-cli --locked"
                ))
            })?;
    }
    Ok(own)
}
