//! Programs that log in to nothing but this machine, in place of ssh.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::run;

/// Logs in to nowhere.
pub(crate) const HERE: &str = "exec sh -c \"$2\"";

/// A program in place of ssh: `$1` is the host, and `$2` what a shell there reads.
pub(crate) struct Login(tempfile::TempDir);

impl Login {
    pub(crate) fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("login");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    /// `limic run` over it, with these words after it.
    pub(crate) fn run(&self, words: &[&str]) -> Command {
        let path = self.0.path().join("login");
        let mut command = run(&["--launcher", path.to_str().unwrap()]);
        command.args(words);
        command
    }

    /// The same, of a shell script.
    pub(crate) fn run_script(&self, words: &[&str], script: &str) -> Command {
        let mut command = self.run(words);
        command.args(["/bin/sh", "-c", script]);
        command
    }
}
