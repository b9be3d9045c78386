//! The repository, the folder that cargo builds into, and the user's cache.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::{Failure, console};

/// The root of the repository in which cargo was called.
///
/// Several checkouts may share one target folder and so one build of this program. That is why the
/// root comes from cargo at run time, if cargo started this program.
pub fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let package = std::env::var_os("CARGO_MANIFEST_DIR");
        let package = package.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let mut above = package.ancestors();
        let root = above.find(|folder| folder.join("Cargo.lock").is_file());
        root.unwrap_or(&package).to_owned()
    });
    &ROOT
}

/// The folder that cargo builds into.
pub fn target() -> PathBuf {
    let set = std::env::var_os("CARGO_TARGET_DIR");
    set.map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// The folder `limic/NAME` in the user's cache, which all checkouts share; made if it is missing.
///
/// # Errors
/// If no variable says where the cache is, or the folder cannot be made.
pub fn cache(name: &str) -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        // The XDG specification asks to ignore relative paths.
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")));
    let base = base.ok_or_else(|| {
        let why = "neither HOME nor XDG_CACHE_HOME says where the cache is; set one of them";
        Failure::Missing(why.to_owned())
    })?;
    let folder = base.join("limic").join(name);
    make(&folder)?;
    Ok(folder)
}

/// Makes a folder with all folders above it.
///
/// # Errors
/// If it cannot be made.
pub fn make(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|why| Failure::file("make", folder, why))
}

/// Makes a folder that holds nothing of an earlier run.
///
/// # Errors
/// If what is there cannot be removed, or it cannot be made.
pub fn make_anew(folder: &Path) -> Result<(), Failure> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|why| Failure::file("remove", folder, why))?;
    }
    make(folder)
}

/// Keeps other runs out of a folder until the file is closed, at the latest by the kernel at the
/// end of this process. Waits for another run that has the lock, and shows that.
///
/// # Errors
/// If the lock's file cannot be made or locked.
pub fn lock(folder: &Path) -> Result<File, Failure> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(|why| Failure::file("make", &path, why))?;
    let locked = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            console::detail(&format_args!(
                "waiting for another run that works in {}",
                folder.display()
            ));
            flock(&file, FlockOperation::LockExclusive)
        }
        other => other,
    };
    locked.map_err(|why| Failure::file("lock", &path, why.into()))?;
    Ok(file)
}
