//! Python environments.

use std::path::{Path, PathBuf};

use limic_runner::{Job, folders, packages};

/// Minutes that fetching packages may take.
const MINUTES: u64 = 5;

/// A virtual environment with pip.
#[derive(Debug)]
pub struct Environment(PathBuf);

impl Environment {
    /// Makes an empty one, in place of what is there.
    ///
    /// # Errors
    /// The reason why Python cannot.
    pub fn fresh(root: &Path) -> Result<Self, String> {
        let venv = || Job::new("python3", 2).args(["-m", "venv", "--clear"]);
        let make = || venv().arg(root).run_aside();
        if let Err(first) = make() {
            packages::install_packages(&["python3-venv"], "python3 with the module venv")
                .map_err(|why| format!("{first}; {why}"))?;
            make().map_err(|why| why.to_string())?;
        }
        Ok(Self(root.to_owned()))
    }

    /// The folder of its programs.
    #[must_use]
    pub fn programs(&self) -> PathBuf {
        self.0.join("bin")
    }

    /// A job of its Python.
    #[must_use]
    pub fn python(&self) -> Job {
        Job::new(self.programs().join("python"), MINUTES)
    }

    fn pip(&self) -> Job {
        let pip = ["-m", "pip", "--disable-pip-version-check", "--no-input"];
        self.python()
            .args(pip)
            .args(["--timeout", "30", "--retries", "2"])
    }

    /// Installs packages, none of which is compiled.
    ///
    /// # Errors
    /// What pip could not do.
    pub fn install(&self, words: &[&str]) -> Result<(), String> {
        let pip = self.pip().args(["install", "--only-binary", ":all:"]);
        pip.args(words).run_aside().map_err(|why| why.to_string())
    }

    /// Installs packages out of the user's cache, into which they are fetched if they are missing.
    ///
    /// # Errors
    /// What pip could not do.
    pub fn install_kept(&self, packages: &[&str]) -> Result<(), String> {
        let kept = folders::cache("wheels").map_err(|why| why.to_string())?;
        let install = || {
            let pip = self
                .pip()
                .args(["install", "-q", "--no-index", "--find-links"]);
            pip.arg(&kept).args(packages)
        };
        if install().succeeds() {
            return Ok(());
        }
        let fetch = self
            .pip()
            .args(["download", "-q", "--only-binary", ":all:", "-d"]);
        let fetch = fetch.arg(&kept).args(packages).run_aside();
        fetch
            .and_then(|()| install().run_aside())
            .map_err(|why| why.to_string())
    }
}
