//! Packages of a Debian suite, unpacked but not installed.
//!
//! apt does the work, with a configuration and folders of its own: it checks the signature of the
//! suite and the checksums of the packages, and orders versions. What the machine itself has
//! installed stays as it is.

use std::path::{Path, PathBuf};

use limic_runner::folders::{self, cache};
use limic_runner::{Failure, Job, console};

use super::mirror;

const SUITE: &str = "trixie-backports";
pub(crate) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The configuration of apt, beside the folders that it names.
const CONFIGURATION: &str = "apt.conf";
/// The user of the sandbox may not write into the folders. Without the error mode an index that
/// cannot be fetched is a warning.
const OPTIONS: &str = r#"Dir::State::status "/dev/null";
APT::Architecture "amd64";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "3";
"#;

/// The suite, whose index has been fetched.
#[derive(Debug)]
pub(crate) struct Suite {
    /// Where apt keeps its configuration and what it fetches.
    folder: PathBuf,
    mirror: String,
}

impl Suite {
    /// Fetches the index of the suite.
    pub(crate) fn fetch() -> Result<Self, Failure> {
        if !Path::new(KEYRING).exists() {
            return Err(Failure::Missing(format!(
                "{KEYRING} is not there to check the archive's signature with; install the package \
                 debian-archive-keyring"
            )));
        }
        let suite = Self {
            folder: cache("lab/apt")?,
            mirror: mirror::find()?,
        };
        suite.configure()?;
        let update = suite.apt("apt-get").arg("update");
        update.run().map_err(|why| suite.unreachable(&why))?;
        Ok(suite)
    }

    fn configure(&self) -> Result<(), Failure> {
        for name in ["etc/preferences.d", "state", "cache"] {
            folders::make(&self.folder.join(name))?;
        }
        let write = |name: &str, text: String| {
            let path = self.folder.join(name);
            std::fs::write(&path, text).map_err(|why| Failure::file("write", &path, why))
        };
        let options = format!("signed-by={KEYRING} arch=amd64");
        let source = format!("deb [{options}] {} {SUITE} main\n", self.mirror);
        write("etc/sources.list", source)?;
        let folder = self.folder.display();
        let folders = ["Etc", "State", "Cache"].map(|name| {
            let below = name.to_lowercase();
            format!("Dir::{name} \"{folder}/{below}\";\n")
        });
        write(CONFIGURATION, folders.concat() + OPTIONS)
    }

    /// The newest version of a package.
    pub(crate) fn newest(&self, package: &str) -> Option<String> {
        let show = self.apt("apt-cache").args(["show", "--no-all-versions"]);
        let entry = show.arg(package).capture_quietly()?;
        let mut lines = entry.lines();
        lines.find_map(|line| Some(line.strip_prefix("Version: ")?.to_owned()))
    }

    /// Fetches a package and unpacks it into a folder. The package is given with its version,
    /// `name=version`, where a `*` stands for any rest.
    pub(crate) fn unpack(&self, package: &str, into: &Path) -> Result<(), Failure> {
        console::step(&format_args!("lab: fetching {package}"));
        let folder = tempfile::tempdir_in(&self.folder)
            .map_err(|why| Failure::file("make a folder in", &self.folder, why))?;
        let download = self.apt("apt-get").args(["download", package]);
        let download = download.within(folder.path());
        download.run().map_err(|why| self.unreachable(&why))?;
        let entries = std::fs::read_dir(folder.path()).into_iter().flatten();
        let file = entries.flatten().next().ok_or_else(|| {
            Failure::Wrong(format!(
                "apt-get has fetched {package}, but there is no file"
            ))
        })?;
        let unpack = Job::new("dpkg", 10).arg("-x");
        unpack.arg(file.path()).arg(into).run()
    }

    /// A program of apt with the configuration of this suite.
    fn apt(&self, program: &str) -> Job {
        let configuration = self.folder.join(CONFIGURATION);
        Job::new(program, 30)
            .arg("--config-file")
            .arg(configuration)
    }

    fn unreachable(&self, why: &Failure) -> Failure {
        Failure::Missing(format!(
            "{SUITE} cannot be fetched from {} ({why}); {}",
            self.mirror,
            mirror::ADVICE
        ))
    }
}
