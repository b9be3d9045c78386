//! What the kernel and modules for it are compiled with: the system's gcc, or clang where the image needs that.

use std::path::Path;

use super::{Flavour, archive};
use crate::failure::Failure;
use crate::job::Job;
use crate::setup::{self, Need};

/// A compiler of C that the kernel takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Compiler {
    /// What the kernel's make takes when it is told nothing.
    System,
    /// LLVM's compiler, linker and tools.
    Clang {
        /// What make is told as `LLVM`: the folder of the programs, or `1` for those of the search path.
        tools: String,
        /// What clang says of itself: another one makes another kernel.
        version: String,
    },
}

/// The oldest that Linux 7.2 takes (its `scripts/min-tool-version.sh`).
const OLDEST_CLANG: u32 = 17;

/// What make uses of LLVM.
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
    /// The one for this kernel: with Rust in it, KASAN asks for clang. Installs that if it is missing.
    pub(crate) fn of(flavour: Flavour) -> Result<Self, Failure> {
        if flavour != Flavour::Kasan {
            return Ok(Self::System);
        }
        setup::install("the lab's kernel with KASAN", &CLANG)?;
        clang().ok_or_else(|| {
            Failure::Missing(format!(
                "no clang {OLDEST_CLANG} or newer with its linker and tools is found below /usr/lib/llvm-* or in PATH; \
                 install clang-19, lld-19 and llvm-19"
            ))
        })
    }
}

/// The newest complete LLVM of the distribution, or the one of the search path.
fn clang() -> Option<Compiler> {
    let entries = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    let installed = entries.filter_map(|entry| {
        let number: u32 = entry
            .file_name()
            .to_str()?
            .strip_prefix("llvm-")?
            .parse()
            .ok()?;
        let folder = entry.path().join("bin");
        let whole = PROGRAMS.iter().all(|name| folder.join(name).exists());
        (whole && number >= OLDEST_CLANG).then_some((number, folder))
    });
    if let Some((_, folder)) = installed.max() {
        let version = said(&folder.join("clang"))?;
        // With a slash at its end, make takes it as a folder.
        let tools = format!("{}/", archive::text(&folder).ok()?);
        return Some(Compiler::Clang { tools, version });
    }
    let whole = PROGRAMS.iter().all(|name| setup::program(name).is_some());
    let version = said(Path::new("clang")).filter(|_| whole)?;
    (major(&version)? >= OLDEST_CLANG).then_some(Compiler::Clang {
        tools: "1".to_owned(),
        version,
    })
}

/// The first line that a compiler says of itself.
fn said(clang: &Path) -> Option<String> {
    let text = Job::new(clang, 1).args(&["--version"]).capture_quietly()?;
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
