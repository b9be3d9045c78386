//! A folder that goes when this program ends, even if it is killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use limic_runner::{Failure, interrupt};
use tempfile::TempDir;

/// A folder for a guest's image and sockets.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: TempDir,
    /// Removes the folder when its standard input ends, which the end of this program does too.
    remover: Child,
}

impl Folder {
    pub(crate) fn new() -> Result<Self, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("limic-lab-")
            .tempdir()
            .map_err(|why| Failure::file("make a folder in", &std::env::temp_dir(), why))?;
        // Signals of the terminal, which end this program, must not end the remover.
        let script = "trap '' HUP INT TERM; read -r _; rm -rf \"$1\"";
        let remover = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| Failure::Start {
                command: "sh".to_owned(),
                source,
            })?;
        interrupt::spare(&remover);
        Ok(Self { folder, remover })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        // The folder has gone when the remover ends; if not, the folder's own drop removes it.
        let _ = self.remover.wait();
    }
}
