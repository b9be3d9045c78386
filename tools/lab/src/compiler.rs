//! The compiler of the kernel and of modules for it: the system's gcc, or clang for the image that
//! needs it.

use std::path::{Path, PathBuf};

use limic_runner::packages::{self, Need};
use limic_runner::{Failure, Job};

use super::Flavour;

/// A compiler of C that the kernel takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Compiler {
    /// The compiler that the kernel's make takes by itself.
    System,
    /// LLVM's compiler, linker and tools.
    Clang {
        /// The variable `LLVM` of make: the folder of the programs, or `1` for the search path.
        tools: String,
        /// What clang says of itself. Another clang makes another kernel.
        version: String,
    },
}

/// The oldest version that Linux 7.2 takes (its `scripts/min-tool-version.sh`).
const OLDEST_CLANG: u32 = 17;

/// The programs of LLVM that make uses.
const PROGRAMS: [&str; 8] = [
    "clang",
    "ld.lld",
    "llvm-ar",
    "llvm-nm",
    "llvm-objcopy",
    "llvm-objdump",
    "llvm-readelf",
    "llvm-strip",
];

/// For the image with KASAN alone.
const CLANG: [Need; 3] = [
    Need {
        package: "clang-19",
        present: || clang().is_some(),
    },
    Need {
        package: "lld-19",
        present: || clang().is_some(),
    },
    Need {
        package: "llvm-19",
        present: || clang().is_some(),
    },
];

impl Compiler {
    /// The compiler for this kernel. Together with Rust, KASAN needs clang, which is installed if
    /// it is missing.
    pub(crate) fn of(flavour: Flavour) -> Result<Self, Failure> {
        if flavour != Flavour::Kasan {
            return Ok(Self::System);
        }
        packages::install("the lab's kernel with KASAN", &CLANG)?;
        clang().ok_or_else(|| {
            Failure::Missing(format!(
                "no clang {OLDEST_CLANG} or newer with its linker and tools is found below \
                 /usr/lib/llvm-* or in PATH; install clang-19, lld-19 and llvm-19"
            ))
        })
    }
}

/// The newest complete LLVM of the distribution, or that of the search path.
fn clang() -> Option<Compiler> {
    let whole = |folder: &Path| {
        let folder = folder.join("bin");
        PROGRAMS.iter().all(|name| folder.join(name).exists())
    };
    if let Some(llvm) = newest_llvm(OLDEST_CLANG, whole) {
        let folder = llvm.join("bin");
        let version = said(&folder.join("clang"))?;
        // With a slash at the end, make takes it as a folder.
        let tools = format!("{}/", folder.display());
        return Some(Compiler::Clang { tools, version });
    }
    let whole = PROGRAMS
        .iter()
        .all(|name| packages::program(name).is_some());
    let version = said(Path::new("clang")).filter(|_| whole)?;
    (major(&version)? >= OLDEST_CLANG).then_some(Compiler::Clang {
        tools: "1".to_owned(),
        version,
    })
}

/// The folder of the newest LLVM of the distribution, of this version or a newer one, that has what
/// is wanted.
pub(crate) fn newest_llvm(oldest: u32, has: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let entries = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let found = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version: u32 = name.strip_prefix("llvm-")?.parse().ok()?;
        let folder = entry.path();
        (version >= oldest && has(&folder)).then_some((version, folder))
    });
    found.max().map(|(_, folder)| folder)
}

/// The first line that a compiler says of itself.
fn said(clang: &Path) -> Option<String> {
    let text = Job::new(clang, 1).arg("--version").capture_quietly()?;
    text.lines().next().map(str::to_owned)
}

/// `Debian clang version 19.1.7 (3)`
fn major(version: &str) -> Option<u32> {
    let (_, number) = version.split_once("version ")?;
    number.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_of_clang_are_read() {
        let major = super::major;
        assert_eq!(major("Debian clang version 19.1.7 (3~deb12u1)"), Some(19));
        assert_eq!(major("clang version 17.0.6"), Some(17));
        assert_eq!(major("gcc (Debian 12.2.0-14) 12.2.0"), None);
    }
}
