//! Where kernels and what they are built from are kept: outside the checkout, for all checkouts.

use std::collections::hash_map::DefaultHasher;
use std::fs::{File, create_dir_all};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::console;
use crate::failure::Failure;

/// `$XDG_CACHE_HOME/limic/lab`, or `~/.cache/limic/lab`.
pub(crate) fn root() -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")))
        .ok_or_else(|| {
            Failure::Missing(
                "neither HOME nor XDG_CACHE_HOME says where to keep the kernel; set one".to_owned(),
            )
        })?;
    Ok(cache.join("limic/lab"))
}

/// A folder of the cache, made if it is not there.
pub(crate) fn folder(name: &str) -> Result<PathBuf, Failure> {
    let path = root()?.join(name);
    create_dir_all(&path).map_err(|why| cannot("make", &path, &why))?;
    Ok(path)
}

/// Keeps other runs from building in the cache. The kernel lets go of it with the process.
pub(crate) fn lock() -> Result<File, Failure> {
    let path = folder("")?.join("lock");
    let file = File::create(&path).map_err(|why| cannot("make", &path, &why))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        console::detail(&"another run is building in the cache; waiting for it");
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|why| cannot("lock", &path, &why.into()))?;
    }
    Ok(file)
}

/// Sixteen digits that change when any of the texts does.
pub(crate) fn digest(texts: &[&str]) -> String {
    let mut hasher = DefaultHasher::new();
    texts.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// A failure to do something with a file.
pub(crate) fn cannot(verb: &str, path: &Path, why: &std::io::Error) -> Failure {
    Failure::Wrong(format!("cannot {verb} {}: {why}", path.display()))
}
