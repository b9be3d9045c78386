//! Lays out the libraries for C: `cargo xtask install --prefix DIR`.
//!
//! cargo builds static libraries, and this links the shared ones from them. For a cdylib, rustc
//! gives the linker an anonymous version script, and linkers refuse a named script beside that. So
//! a cdylib cannot have symbol versions. Libraries that are linked here have them, and a soname.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use limic_runner::folders::{self, root, target};
use limic_runner::{Failure, Job, console, setup};

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

/// The system libraries that the static libraries need.
const NEEDED: [&str; 4] = ["-lgcc_s", "-lm", "-lpthread", "-ldl"];

/// A library for C.
struct Library {
    package: &'static str,
    /// The static library, as cargo names it.
    built: &'static str,
    /// Its name in C.
    name: &'static str,
    /// The version number in the soname, and the whole version.
    major: &'static str,
    version: &'static str,
    folder: &'static str,
    map: &'static str,
    pkg_config: &'static str,
    /// The header, and its place below the prefix.
    header: (&'static str, &'static str),
    /// The system libraries that it needs.
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
        // LiMIC2's own library had the soname liblimic2.so.0: programs that were linked with it
        // find this one.
        major: "0",
        version: "0.5.6",
        folder: "crates/limic2",
        map: "limic2.map",
        pkg_config: "limic2.pc",
        header: ("include/limic2/limic.h", "include/limic2/limic.h"),
        needed: &NEEDED,
    },
];

/// The libfabric provider: package, what cargo calls it, and where it goes. libfabric looks into
/// the directory that FI_PROVIDER_PATH names, for files that end in `-fi.so`.
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

/// Builds everything and puts it below `staged`, from where it moves to `prefix`.
fn lay_out(prefix: &Path, staged: &Path, debug: bool) -> Result<(), Failure> {
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

/// Where the files of an absolute prefix go: packagers build for one place and install into another
/// (`DESTDIR`).
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
        let source = folder.join(format!("{}.in", self.pkg_config));
        let text = fs::read_to_string(&source)
            .map_err(|why| Failure::file("read", &source, why))?
            .replace("@PREFIX@", &prefix.display().to_string())
            .replace("@PRIVATE@", &self.needed.join(" "));
        write(
            &lib.join("pkgconfig").join(self.pkg_config),
            text.as_bytes(),
            0o644,
        )
    }

    /// Links the shared library, with the names that compilers and loaders look for.
    fn link(&self, archive: &Path, map: &Path, lib: &Path) -> Result<(), Failure> {
        let plain = format!("lib{}.so", self.name);
        let soname = format!("{plain}.{}", self.major);
        let file = format!("{plain}.{}", self.version);
        // Programs that run with the old file keep it, because the new one takes its place by a
        // rename.
        let fresh = lib.join(format!(".{file}.new"));
        let mut version_script = OsString::from("-Wl,--version-script=");
        version_script.push(map);
        Job::new("cc", 5)
            .args(["-shared", "-o"])
            .arg(&fresh)
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
            .args(self.needed)
            .run()?;
        let place = lib.join(&file);
        fs::rename(&fresh, &place).map_err(|why| Failure::file("write", &place, why))?;
        link_to(&file, &lib.join(&soname))?;
        link_to(&soname, &lib.join(&plain))
    }
}

fn put(from: &Path, to: &Path, mode: u32) -> Result<(), Failure> {
    let bytes = fs::read(from).map_err(|why| Failure::file("read", from, why))?;
    write(to, &bytes, mode)
}

fn write(to: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    folders::make(to.parent().unwrap_or(to))?;
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
    put().map_err(|why| Failure::file("write", to, why))
}

/// Makes a symbolic link, in place of a file that is there.
fn link_to(name: &str, link: &Path) -> Result<(), Failure> {
    let fresh = link.with_extension("new");
    let make = || {
        // An installation that was killed may have left it.
        match fs::remove_file(&fresh) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => return Err(why),
            _ => {}
        }
        std::os::unix::fs::symlink(name, &fresh)?;
        fs::rename(&fresh, link)
    };
    make().map_err(|why| Failure::file("write", link, why))
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
