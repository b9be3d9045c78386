//! `cargo xtask install` and `uninstall`: the command, the libraries for C, the manuals of both,
//! the libfabric provider and the udev rule, below a prefix.

pub(crate) mod library;
mod loader;
mod pages;
mod tree;

use std::fs;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use library::LIBRARIES;
use limic_runner::folders::{root, target};
use limic_runner::{Failure, Job, console, folders, setup};
pub(crate) use tree::Tree;

/// Where an installation is.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The folder that has bin, include, lib and share when limic runs.
    #[arg(long, default_value = "/usr/local", value_name = "DIR")]
    pub(crate) prefix: PathBuf,
    /// The folder that stands for the root of the file system meanwhile, for packages.
    #[arg(long, env = "DESTDIR", value_name = "DIR")]
    pub(crate) destdir: Option<PathBuf>,
}

/// Where and what to install.
#[derive(Debug, Args)]
pub(crate) struct Install {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The folder of the libraries below the prefix, such as lib64 or lib/x86_64-linux-gnu.
    #[arg(long, default_value = "lib", value_name = "DIR", value_parser = below)]
    pub(crate) libdir: String,
    /// Install what is built without optimisation, as the tests do.
    #[arg(long)]
    pub(crate) debug: bool,
}

/// A folder below the prefix, spelled in one way.
fn below(folder: &str) -> Result<String, String> {
    let parts = Path::new(folder).components().map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    let parts: Option<Vec<&str>> = parts.collect();
    let parts = parts.filter(|parts| !parts.is_empty());
    let folder = parts.map(|parts| parts.join("/"));
    folder.ok_or_else(|| "it has to lie below the prefix".to_owned())
}

/// The libfabric provider: package, what cargo calls it, and its place among the libraries.
/// libfabric looks into the folders that FI_PROVIDER_PATH names, for files that end in `fi.so`.
pub(crate) const PROVIDER: (&str, &str, &str) =
    ("limic-ofi", "liblimic_fi.so", "libfabric/liblimic-fi.so");

/// The library that is preloaded, likewise.
pub(crate) const HEAP: (&str, &str, &str) = (
    "limic-heap-preload",
    "liblimic_heap_preload.so",
    "liblimic-heap.so",
);

/// The command: package, program, and where it goes.
pub(crate) const COMMAND: (&str, &str, &str) = ("limic-cli", "limic", "bin/limic");

/// The rule that gives /dev/limic to a group, and its place. udev reads it below /usr and
/// /usr/local.
const RULE: (&str, &str) = (
    "kernel/limic_rs/70-limic.rules",
    "lib/udev/rules.d/70-limic.rules",
);

/// Prefixes that the system's loader and udev know.
const OF_THE_SYSTEM: [&str; 2] = ["/usr", "/usr/local"];

/// Installs.
pub(crate) fn run(install: &Install) -> Result<(), Failure> {
    let place = &install.place;
    let staged = place.staged()?;
    setup::build()?;
    let packages = LIBRARIES.map(|library| library.package);
    let built = build(&packages, install.debug)?;
    let work = target().join("install");
    folders::make(&work)?;
    let _alone = folders::lock(&work)?;
    let manual = work.join("manual");
    // What an earlier version wrote is not to be installed again.
    if manual.exists() {
        fs::remove_dir_all(&manual).map_err(|why| Failure::file("remove", &manual, why))?;
    }
    Job::new(built.join(COMMAND.1), 1)
        .arg("manual")
        .arg(&manual)
        .run()?;

    let mut tree = Tree::listed_at(&staged)?;
    tree.file(&built.join(COMMAND.1), COMMAND.2, 0o755)?;
    tree.folder(&manual, 0o644)?;
    for library in &LIBRARIES {
        library.install(&built, &work, install, &mut tree)?;
    }
    for (_, file, place) in [PROVIDER, HEAP] {
        let place = format!("{}/{place}", install.libdir);
        tree.file(&built.join(file), &place, 0o755)?;
    }
    tree.file(&root().join(RULE.0), RULE.1, 0o644)?;
    tree.finish()?;
    console::step(&format_args!("installed in {}", staged.display()));
    if place.is_staged() {
        return Ok(());
    }
    loader::tell(
        &place.prefix.join(&install.libdir),
        place.is_of_the_system(),
    );
    if !place.is_of_the_system() {
        console::detail(&format_args!(
            "udev does not look into {}: for the kernel module, copy {} to /etc/udev/rules.d",
            place.prefix.display(),
            staged.join(RULE.1).display()
        ));
    }
    Ok(())
}

/// Takes an installation away.
pub(crate) fn remove(place: &Place) -> Result<(), Failure> {
    let staged = place.staged()?;
    let files = tree::remove(&staged)?;
    console::step(&format_args!(
        "removed {files} files from {}",
        staged.display()
    ));
    if place.is_of_the_system() && !place.is_staged() {
        loader::refresh();
    }
    Ok(())
}

/// Builds the command, what is loaded, and libraries in one go, so that packages that several need
/// are built once. Returns the folder with the results.
pub(crate) fn build(libraries: &[&str], debug: bool) -> Result<PathBuf, Failure> {
    let mut words = vec!["build", "--lib", "--bin", COMMAND.1];
    for package in [PROVIDER.0, HEAP.0, COMMAND.0].iter().chain(libraries) {
        words.extend(["-p", package]);
    }
    words.extend((!debug).then_some("--release"));
    Job::cargo(&words, 20).run()?;
    Ok(target().join(if debug { "debug" } else { "release" }))
}

impl Place {
    /// Where the files go now: packagers build for one place and install into another.
    fn staged(&self) -> Result<PathBuf, Failure> {
        if !self.prefix.is_absolute() {
            return Err(Failure::Wrong(format!(
                "--prefix {} is not absolute: limic.pc names it, whatever directory it is read \
                 from",
                self.prefix.display()
            )));
        }
        let within = self.prefix.strip_prefix("/").unwrap_or(&self.prefix);
        Ok(match &self.destdir {
            Some(outer) if self.is_staged() => outer.join(within),
            _ => self.prefix.clone(),
        })
    }

    /// Whether the files move to the prefix later.
    fn is_staged(&self) -> bool {
        let named = self.destdir.as_deref();
        named.is_some_and(|dir| dir != Path::new(""))
    }

    fn is_of_the_system(&self) -> bool {
        OF_THE_SYSTEM
            .iter()
            .any(|known| self.prefix == Path::new(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_libraries_is_below_the_prefix_and_spelled_in_one_way() {
        assert_eq!(below("lib64/").as_deref(), Ok("lib64"));
        assert_eq!(below("lib//x/.").as_deref(), Ok("lib/x"));
        for folder in ["", "/lib", "../lib", "lib/.."] {
            assert!(below(folder).is_err(), "{folder}");
        }
    }

    #[test]
    fn destdir_goes_ahead_of_the_prefix() {
        let staged = |prefix: &str, destdir: Option<&str>| {
            let place = Place {
                prefix: prefix.into(),
                destdir: destdir.map(Into::into),
            };
            place.staged().map_err(|why| why.to_string())
        };
        let local = |destdir| staged("/usr/local", destdir).expect("it is absolute");
        assert_eq!(local(None), Path::new("/usr/local"));
        assert_eq!(local(Some("")), Path::new("/usr/local"));
        assert_eq!(local(Some("/tmp/p")), Path::new("/tmp/p/usr/local"));
        assert_eq!(local(Some("p/")), Path::new("p/usr/local"));
        assert!(
            staged("usr", None)
                .expect_err("it is not")
                .contains("absolute")
        );
    }
}
