//! Lays out the libraries for C: `cargo xtask install --prefix DIR`.
//!
//! cargo builds static libraries; the shared ones are linked from them here. rustc hands the linker a version script of
//! its own for every cdylib, an anonymous one, and linkers refuse a named one beside it: a cdylib cannot have symbol
//! versions. Linked by hand they get them, and a soname.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::console;
use crate::failure::Failure;
use crate::job::{Job, root, target};
use crate::setup;

/// Where and what to install.
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The directory that gets lib, include and share.
    #[arg(long, default_value = "/usr/local")]
    prefix: PathBuf,
    /// Install what is built without optimisation, as the tests do.
    #[arg(long)]
    debug: bool,
}

/// What the static libraries want from the system.
const NEEDED: [&str; 5] = ["-lhwloc", "-lgcc_s", "-lm", "-lpthread", "-ldl"];

/// A library for C.
struct Library {
    package: &'static str,
    /// What cargo calls the static library.
    built: &'static str,
    /// What C calls it.
    name: &'static str,
    /// The first version number of the soname, and the whole.
    major: &'static str,
    version: &'static str,
    folder: &'static str,
    map: &'static str,
    pkg_config: &'static str,
    /// Header, and where it goes.
    header: (&'static str, &'static str),
    /// What it wants from the system.
    needed: &'static [&'static str],
}

const LIBRARIES: [Library; 2] = [
    Library {
        package: "limic-capi",
        built: "liblimic_c.a",
        name: "limic",
        major: "1",
        version: "1.0.0",
        folder: "crates/capi",
        map: "limic.map",
        pkg_config: "limic.pc",
        header: ("include/limic.h", "include/limic.h"),
        needed: &NEEDED,
    },
    Library {
        package: "limic2",
        built: "liblimic2_c.a",
        name: "limic2",
        // LiMIC2's own library had the soname liblimic2.so.0: programs that were linked with it find this one.
        major: "0",
        version: "0.5.6",
        folder: "crates/limic2",
        map: "limic2.map",
        pkg_config: "limic2.pc",
        header: ("include/limic2/limic.h", "include/limic2/limic.h"),
        needed: &["-lgcc_s", "-lm", "-lpthread", "-ldl"],
    },
];

/// The libfabric provider: package, what cargo calls it, and where it goes. libfabric looks into the directory that
/// FI_PROVIDER_PATH names, for files that end in `-fi.so`.
const PROVIDER: (&str, &str, &str) = (
    "limic-ofi",
    "liblimic_fi.so",
    "lib/libfabric/liblimic-fi.so",
);

pub(crate) fn run(install: &Install) -> Result<(), Failure> {
    setup::run()?;
    if !install.prefix.is_absolute() {
        return Err(Failure::Wrong(format!(
            "--prefix {} is not absolute: limic.pc names it, whatever directory it is read from",
            install.prefix.display()
        )));
    }
    let staged = staged(&install.prefix, std::env::var_os("DESTDIR").as_deref());
    lay_out(&install.prefix, &staged, install.debug)
}

/// Builds all, and puts it below `staged`, to be used at `prefix`.
pub(crate) fn lay_out(prefix: &Path, staged: &Path, debug: bool) -> Result<(), Failure> {
    let profile = if debug { "debug" } else { "release" };
    let mut words = vec!["build", "--lib"];
    for library in &LIBRARIES {
        words.extend(["-p", library.package]);
    }
    words.extend(["-p", PROVIDER.0]);
    words.extend((!debug).then_some("--release"));
    Job::cargo(&words, 20).run()?;
    for library in &LIBRARIES {
        library.install(&target().join(profile), prefix, staged)?;
    }
    let (_, built, place) = PROVIDER;
    put(
        &target().join(profile).join(built),
        &staged.join(place),
        0o755,
    )?;
    console::step(&format_args!("installed in {}", staged.display()));
    Ok(())
}

/// Where the files of an absolute prefix go: packagers build for one place and install into another (`DESTDIR`).
fn staged(prefix: &Path, destination: Option<&OsStr>) -> PathBuf {
    match destination.filter(|dir| !dir.is_empty()) {
        Some(outer) => Path::new(outer).join(prefix.strip_prefix("/").unwrap_or(prefix)),
        None => prefix.to_owned(),
    }
}

impl Library {
    fn install(&self, built: &Path, prefix: &Path, staged: &Path) -> Result<(), Failure> {
        let lib = staged.join("lib");
        let folder = root().join(self.folder);
        let archive = built.join(self.built);
        put(&archive, &lib.join(format!("lib{}.a", self.name)), 0o644)?;
        self.link(&archive, &folder.join(self.map), &lib)?;
        put(
            &folder.join(self.header.0),
            &staged.join(self.header.1),
            0o644,
        )?;
        let text = fs::read_to_string(folder.join(format!("{}.in", self.pkg_config)))
            .map_err(|why| cannot("read", &folder.join(self.pkg_config), &why))?;
        let text = text
            .replace("@PREFIX@", &prefix.display().to_string())
            .replace("@PRIVATE@", &self.needed.join(" "));
        write(
            &lib.join("pkgconfig").join(self.pkg_config),
            text.as_bytes(),
            0o644,
        )
    }

    /// Links the shared library beside the names that compilers and loaders look for.
    fn link(&self, archive: &Path, map: &Path, lib: &Path) -> Result<(), Failure> {
        let plain = format!("lib{}.so", self.name);
        let soname = format!("{plain}.{}", self.major);
        let file = format!("{plain}.{}", self.version);
        // Linked under another name and moved: programs that run with the old one keep it.
        let fresh = lib.join(format!(".{file}.new"));
        let joined = |option: &str, path: &Path| {
            let mut word = OsString::from(option);
            word.push(path);
            PathBuf::from(word)
        };
        Job::new("cc", 5)
            .args(&["-shared", "-o"])
            .arg(&fresh)
            .args(&["-Wl,--whole-archive"])
            .arg(archive)
            .args(&["-Wl,--no-whole-archive", "-Wl,--gc-sections"])
            .args(&[&format!("-Wl,-soname,{soname}")])
            .arg(&joined("-Wl,--version-script=", map))
            // Thread-local destructors and fork handlers may outlive a dlclose; so the library stays.
            .args(&[
                "-Wl,-z,nodelete",
                "-Wl,-z,relro,-z,now",
                "-Wl,--no-undefined",
            ])
            .args(&["-Wl,--as-needed"])
            .args(self.needed)
            .run()?;
        let place = lib.join(&file);
        fs::rename(&fresh, &place).map_err(|why| cannot("write", &place, &why))?;
        link_to(&file, &lib.join(&soname))?;
        link_to(&soname, &lib.join(&plain))
    }
}

fn cannot(what: &str, path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Missing(format!("cannot {what} {}: {why}", path.display()))
}

fn folder_of(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|why| cannot("make", folder, &why))
}

fn put(from: &Path, to: &Path, mode: u32) -> Result<(), Failure> {
    let bytes = fs::read(from).map_err(|why| cannot("read", from, &why))?;
    write(to, &bytes, mode)
}

fn write(to: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    folder_of(to)?;
    let name = to
        .file_name()
        .unwrap_or(OsStr::new("file"))
        .to_string_lossy();
    let fresh = to.with_file_name(format!(".{name}.new"));
    let put = || {
        fs::write(&fresh, bytes)?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(mode))?;
        fs::rename(&fresh, to)
    };
    put().map_err(|why: std::io::Error| cannot("write", to, &why))
}

/// A symbolic link, in place of what is there.
fn link_to(name: &str, link: &Path) -> Result<(), Failure> {
    let fresh = link.with_extension("new");
    let make = || {
        // Left over by an installation that was killed.
        match fs::remove_file(&fresh) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => return Err(why),
            _ => {}
        }
        std::os::unix::fs::symlink(name, &fresh)?;
        fs::rename(&fresh, link)
    };
    make().map_err(|why| cannot("write", link, &why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destdir_goes_ahead_of_the_prefix() {
        let place = |destination: Option<&str>| {
            staged(Path::new("/usr/local"), destination.map(OsStr::new))
        };
        assert_eq!(place(None), Path::new("/usr/local"));
        assert_eq!(place(Some("")), Path::new("/usr/local"));
        assert_eq!(
            place(Some("/tmp/package")),
            Path::new("/tmp/package/usr/local")
        );
        assert_eq!(place(Some("package/")), Path::new("package/usr/local"));
    }
}
