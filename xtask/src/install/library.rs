//! The libraries for C.
//!
//! cargo builds static libraries, and this links the shared ones from them. For a cdylib, rustc
//! gives the linker an anonymous version script, and linkers refuse a named script beside that. So
//! a cdylib cannot have symbol versions. Libraries that are linked here have them, and a soname.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use limic_runner::folders::root;
use limic_runner::{Failure, Job};

use super::Install;
use super::pages::{self, Page};
use super::tree::Tree;

/// The system libraries that the static libraries need.
pub(crate) const NEEDED: [&str; 4] = ["-lgcc_s", "-lm", "-lpthread", "-ldl"];

/// A library for C.
pub(crate) struct Library {
    pub(crate) package: &'static str,
    /// The static library, as cargo names it.
    pub(crate) built: &'static str,
    /// Its name in C.
    name: &'static str,
    /// The version, whose first number is in the soname; without one, the header has it, and man
    /// pages are made of that.
    version: Option<&'static str>,
    folder: &'static str,
    map: &'static str,
    /// Files with places to fill in: in its folder without `.in`, and below the installation's
    /// folder of libraries.
    templates: &'static [(&'static str, &'static str)],
    /// The headers, in its folder and below the prefix; the first one may have the version.
    headers: &'static [&'static str],
}

/// The library of `limic.h`.
pub(crate) const LIMIC: Library = Library {
    package: "limic-capi",
    built: "liblimic_c.a",
    name: "limic",
    version: None,
    folder: "crates/capi",
    map: "limic.map",
    templates: &[
        ("limic.pc", "pkgconfig/limic.pc"),
        ("limic-config.cmake", "cmake/limic/limic-config.cmake"),
        (
            "limic-config-version.cmake",
            "cmake/limic/limic-config-version.cmake",
        ),
    ],
    headers: &["include/limic.h", "include/limic.hpp"],
};

pub(super) const LIBRARIES: [Library; 2] = [
    LIMIC,
    Library {
        package: "limic2",
        built: "liblimic2_c.a",
        name: "limic2",
        // LiMIC2's own library had the soname liblimic2.so.0: programs that were linked with it
        // find this one.
        version: Some("0.5.6"),
        folder: "crates/limic2",
        map: "limic2.map",
        templates: &[("limic2.pc", "pkgconfig/limic2.pc")],
        headers: &["include/limic2/limic.h"],
    },
];

impl Library {
    /// Puts it into the tree. `built` has what cargo built; `work` is a folder for the linker.
    pub(super) fn install(
        &self,
        built: &Path,
        work: &Path,
        install: &Install,
        tree: &mut Tree,
    ) -> Result<(), Failure> {
        let lib = &install.libdir;
        let folder = root().join(self.folder);
        let archive = built.join(self.built);
        let (version, pages) = self.version()?;
        for (name, page) in pages {
            tree.text(&page, &format!("share/man/man3/{name}.3"))?;
        }
        tree.file(&archive, &format!("{lib}/lib{}.a", self.name), 0o644)?;
        self.link(&archive, (work, lib), &version, tree)?;
        for header in self.headers {
            tree.file(&folder.join(header), header, 0o644)?;
        }
        let up = vec![".."; Path::new(lib).components().count()].join("/");
        for (name, place) in self.templates {
            let source = folder.join(format!("{name}.in"));
            let text = fs::read_to_string(&source)
                .map_err(|why| Failure::file("read", &source, why))?
                .replace("@PREFIX@", &install.place.prefix.display().to_string())
                .replace("@LIBDIR@", lib)
                .replace("@UP@", &up)
                .replace("@VERSION@", &version)
                .replace("@MAJOR@", major(&version))
                .replace("@PRIVATE@", &NEEDED.join(" "));
            tree.text(&text, &format!("{lib}/{place}"))?;
        }
        Ok(())
    }

    /// The version: major, minor, patch. And the pages.
    fn version(&self) -> Result<(String, Vec<Page>), Failure> {
        if let Some(version) = self.version {
            return Ok((version.to_owned(), Vec::new()));
        }
        let header = root().join(self.folder).join(self.headers[0]);
        let text =
            fs::read_to_string(&header).map_err(|why| Failure::file("read", &header, why))?;
        let version = in_header(&text)
            .ok_or_else(|| Failure::Wrong(format!("{} has no LIMIC_VERSION", header.display())))?;
        let pages = pages::of(&text, &version);
        Ok((version, pages))
    }

    /// Links the shared library, with the names that compilers and loaders look for.
    fn link(
        &self,
        archive: &Path,
        (work, lib): (&Path, &str),
        version: &str,
        tree: &mut Tree,
    ) -> Result<(), Failure> {
        let plain = format!("lib{}.so", self.name);
        let soname = format!("{plain}.{}", major(version));
        let file = format!("{plain}.{version}");
        let linked = work.join(&file);
        let mut version_script = OsString::from("-Wl,--version-script=");
        version_script.push(root().join(self.folder).join(self.map));
        Job::new("cc", 5)
            .args(["-shared", "-o"])
            .arg(&linked)
            .args(["-Wl,--whole-archive"])
            .arg(archive)
            .args(["-Wl,--no-whole-archive", "-Wl,--gc-sections"])
            .args([&format!("-Wl,-soname,{soname}")])
            .arg(version_script)
            // Thread-local destructors and fork handlers may outlive a dlclose; so the library
            // stays.
            .args([
                "-Wl,-z,nodelete",
                "-Wl,-z,relro,-z,now",
                "-Wl,--no-undefined",
            ])
            .args(["-Wl,--as-needed"])
            .args(NEEDED)
            .run()?;
        tree.file(&linked, &format!("{lib}/{file}"), 0o755)?;
        tree.link(&file, &format!("{lib}/{soname}"))?;
        tree.link(&soname, &format!("{lib}/{plain}"))
    }
}

/// The first number of a version.
fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or(version)
}

/// The version that a header has as `LIMIC_VERSION`: major number * 65536 + minor number.
fn in_header(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let number = lines.find_map(|line| line.strip_prefix("#define LIMIC_VERSION 0x"))?;
    let number = u32::from_str_radix(number, 16).ok()?;
    Some(format!("{}.{}.0", number >> 16, number & 0xffff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_version() {
        let text = "#define LIMIC_VERSION_X\n#define LIMIC_VERSION 0x00020011\n";
        assert_eq!(in_header(text).as_deref(), Some("2.17.0"));
        assert!(
            LIMIC
                .version()
                .is_ok_and(|(version, _)| version.starts_with("1."))
        );
    }
}
