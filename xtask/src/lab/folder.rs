//! A folder that goes with this program, however that ends.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::cache::cannot;
use crate::failure::Failure;
use crate::interrupted;

/// A folder for a guest's image and sockets.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: TempDir,
    /// Removes the folder when its input ends: by our hand, or because this program was killed or interrupted.
    remover: Child,
}

impl Folder {
    pub(crate) fn new() -> Result<Self, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("limic-lab-")
            .tempdir()
            .map_err(|why| cannot("make a folder in", &std::env::temp_dir(), &why))?;
        // What ends this program by the terminal is meant for this one too, and must not.
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
        interrupted::spare(&remover);
        Ok(Self { folder, remover })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        // It ends by itself, with the folder gone; what is left then is removed by the folder's own drop.
        let _ = self.remover.wait();
    }
}
