//! Packages of a Debian suite, unpacked but not installed: signature and checksums verified.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use super::cache::{cannot, folder};
use super::mirror;
use crate::console;
use crate::failure::Failure;
use crate::job::Job;

const SUITE: &str = "trixie-backports";
const INDEX: &str = "main/binary-amd64/Packages.xz";
pub(crate) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// One package in the index of the suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) version: String,
    /// Where it lies below the mirror.
    path: String,
    sha256: String,
}

/// The index of the suite.
#[derive(Debug)]
pub(crate) struct Index {
    text: String,
}

impl Index {
    /// Fetches the index and checks it against the suite's signed list.
    pub(crate) fn fetch() -> Result<Self, Failure> {
        let folder = folder("download")?;
        let release = folder.join(format!("InRelease-{SUITE}"));
        download(&format!("dists/{SUITE}/InRelease"), &release, Resume::No)?;
        if !Path::new(KEYRING).exists() {
            return Err(Failure::Missing(format!(
                "{KEYRING} is not there to check the archive's signature with; install the package debian-archive-keyring"
            )));
        }
        // What was signed, and nothing that may stand around it in the file.
        let list = Job::new("gpgv", 1)
            .args(&["--quiet", "--keyring", KEYRING, "--output", "-"])
            .args(&[text(&release)?])
            .capture_quietly()
            .ok_or_else(|| {
                Failure::Wrong(format!(
                    "{} is not signed by a key of {KEYRING}",
                    release.display()
                ))
            })?;
        let sum = list
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let sum = words.next().filter(|sum| sum.len() == 64)?;
                (words.nth(1) == Some(INDEX)).then_some(sum)
            })
            .next()
            .ok_or_else(|| Failure::Wrong(format!("{SUITE} has no {INDEX}")))?;
        let packed = folder.join(format!("Packages-{SUITE}.xz"));
        download(&format!("dists/{SUITE}/{INDEX}"), &packed, Resume::No)?;
        verify(&packed, sum)?;
        let text = Job::new("xz", 1)
            .args(&["--decompress", "--stdout", text(&packed)?])
            .capture_quietly()
            .ok_or_else(|| Failure::Wrong(format!("xz cannot read {}", packed.display())))?;
        Ok(Self { text })
    }

    /// The newest package of this name whose version begins with `prefix`.
    pub(crate) fn newest(&self, name: &str, prefix: &str) -> Option<Package> {
        let all = self.text.split("\n\n").filter_map(|entry| {
            let field = |name: &str| {
                entry.lines().find_map(|line| {
                    let value = line.strip_prefix(name)?.strip_prefix(": ")?;
                    Some(value.trim().to_owned())
                })
            };
            (field("Package")? == name).then_some(())?;
            Some(Package {
                version: field("Version").filter(|version| version.starts_with(prefix))?,
                path: field("Filename")?,
                sha256: field("SHA256")?,
            })
        });
        all.max_by(|a, b| order(&a.version, &b.version))
    }
}

/// Fetches a package, or goes on where an earlier run was interrupted, checks it, and unpacks it
/// into `into`, which is complete when this returns.
pub(crate) fn unpack(package: &Package, into: &Path) -> Result<(), Failure> {
    let name = package.path.rsplit('/').next().unwrap_or(&package.path);
    let file = folder("download")?.join(name);
    if !(file.exists() && verify(&file, &package.sha256).is_ok()) {
        console::step(&format_args!("lab: fetching {name}"));
        download(&package.path, &file, Resume::Yes)?;
        if verify(&file, &package.sha256).is_err() {
            // What was left over may have been of another file: once more, from the start.
            download(&package.path, &file, Resume::No)?;
        }
        if let Err(wrong) = verify(&file, &package.sha256) {
            // A removal that fails shows in the next run's checksum.
            let _ = std::fs::remove_file(&file);
            return Err(wrong);
        }
    }
    Job::new("dpkg", 10)
        .args(&["-x", text(&file)?, text(into)?])
        .run()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resume {
    Yes,
    No,
}

fn download(path: &str, into: &Path, resume: Resume) -> Result<(), Failure> {
    let mirror = mirror::find()?;
    if resume == Resume::No && into.exists() {
        std::fs::remove_file(into).map_err(|why| cannot("replace", into, &why))?;
    }
    Job::new("curl", 30)
        .args(&["--fail", "--location", "--progress-bar", "--retry", "3"])
        // A connection that stands still for a minute is given up, and taken up again.
        .args(&["--speed-limit", "1", "--speed-time", "60"])
        .args(&["--continue-at", "-", "--output", text(into)?])
        .args(&[&format!("{mirror}/{path}")])
        .run()
        .map_err(|why| {
            Failure::Missing(format!(
                "{mirror}/{path} cannot be fetched ({why}); {}",
                mirror::ADVICE
            ))
        })
}

fn verify(file: &Path, sha256: &str) -> Result<(), Failure> {
    let found = Job::new("sha256sum", 5)
        .args(&[text(file)?])
        .capture_quietly()
        .unwrap_or_default();
    if found.split_whitespace().next() == Some(sha256) {
        Ok(())
    } else {
        Err(Failure::Wrong(format!(
            "{} does not have the SHA-256 that the archive's index gives",
            file.display()
        )))
    }
}

/// The only folder inside `folder`, or the file of this name in it.
pub(crate) fn inside(folder: &Path, relative: &str) -> Result<PathBuf, Failure> {
    let path = folder.join(relative);
    if path.exists() {
        Ok(path)
    } else {
        Err(Failure::Wrong(format!(
            "the package that was unpacked into {} has no {relative}",
            folder.display()
        )))
    }
}

pub(crate) fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str()
        .ok_or_else(|| Failure::Missing(format!("the path {} is not UTF-8", path.display())))
}

/// The order of Debian's versions as far as this suite's need it: numbers as numbers, the rest as text.
fn order(a: &str, b: &str) -> Ordering {
    let parts = |version: &str| -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        for c in version.chars() {
            match (c.to_digit(10), parts.last_mut()) {
                (Some(digit), Some(Part::Number(number))) => {
                    *number = number.saturating_mul(10).saturating_add(digit.into());
                }
                (Some(digit), _) => parts.push(Part::Number(digit.into())),
                (None, Some(Part::Text(text))) => text.push(c),
                (None, _) => parts.push(Part::Text(c.into())),
            }
        }
        parts
    };
    parts(a).cmp(&parts(b))
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Text(String),
    Number(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_a_series_is_found() {
        let entry = |name: &str, version: &str| {
            format!("Package: {name}\nVersion: {version}\nFilename: pool/{name}\nSHA256: 00\n\n")
        };
        let index = Index {
            text: [
                entry("linux-source-7.2", "7.2.9-1~bpo13+1"),
                entry("linux-source-7.2", "7.2.12-1~bpo13+1"),
                entry("linux-source-7.2", "7.2.11-1~bpo13+1"),
                entry("linux-source-7.3", "7.3.4-1~bpo13+1"),
            ]
            .concat(),
        };
        let found = |name: &str, prefix: &str| index.newest(name, prefix).map(|p| p.version);
        let newest = Some("7.2.12-1~bpo13+1".to_owned());
        assert_eq!(found("linux-source-7.2", ""), newest);
        assert_eq!(
            found("linux-source-7.2", "7.2.9"),
            Some("7.2.9-1~bpo13+1".to_owned())
        );
        assert_eq!(found("linux-source-8", ""), None);
    }
}
