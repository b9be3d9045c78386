//! Files that a command is to write at its end.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::PerfError;

/// Fails before minutes of measuring rather than after them; `-`, standard output, is always fine.
/// A file that was not there is not there afterwards either.
pub(crate) fn check<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), PerfError> {
    for path in paths.into_iter().filter(|path| path.as_os_str() != "-") {
        try_to_write(path).map_err(|source| PerfError::File {
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}

fn try_to_write(path: &Path) -> std::io::Result<()> {
    match File::options().write(true).create_new(true).open(path) {
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            File::options().append(true).open(path).map(drop)
        }
        Err(error) => Err(error),
    }
}
