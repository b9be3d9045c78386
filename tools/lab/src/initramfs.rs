//! The archive that the kernel unpacks at its start.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Cursor};
use std::path::{Component, Path};

use cpio::NewcBuilder;
use limic_runner::Failure;

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_777;
const CHARACTER: u32 = 0o020_600;

/// Entries of an archive. Folders above an entry are made as they are needed, and a second entry of
/// the same name is left out.
#[derive(Default)]
pub(crate) struct Initramfs {
    entries: Vec<(NewcBuilder, Cursor<Vec<u8>>)>,
    names: BTreeSet<String>,
}

impl Initramfs {
    /// A file with these permissions.
    pub(crate) fn file(&mut self, path: &Path, permissions: u32, content: Vec<u8>) {
        self.entry(path, FILE | permissions & 0o7777, (0, 0), content);
    }

    pub(crate) fn link(&mut self, path: &Path, target: &Path) {
        let target = target.to_string_lossy().into_owned();
        self.entry(path, LINK, (0, 0), target.into_bytes());
    }

    pub(crate) fn folder(&mut self, path: &Path) {
        self.entry(path, FOLDER, (0, 0), Vec::new());
    }

    /// A character device.
    pub(crate) fn device(&mut self, path: &Path, major: u32, minor: u32) {
        self.entry(path, CHARACTER, (major, minor), Vec::new());
    }

    /// Whether there is an entry of this name.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.names.contains(&name(path))
    }

    /// Writes the archive.
    pub(crate) fn write(self, path: &Path) -> Result<(), Failure> {
        File::create(path)
            .and_then(|file| cpio::write_cpio(self.entries.into_iter(), BufWriter::new(file)))
            .and_then(|file| file.into_inner().map_err(Into::into))
            .map(drop)
            .map_err(|why| Failure::file("write", path, why))
    }

    fn entry(&mut self, path: &Path, mode: u32, (major, minor): (u32, u32), content: Vec<u8>) {
        if let Some(above) = path.parent()
            && !name(above).is_empty()
        {
            self.folder(above);
        }
        let name = name(path);
        if !self.names.contains(&name) {
            let entry = NewcBuilder::new(&name).mode(mode);
            let entry = entry.rdev_major(major).rdev_minor(minor);
            self.entries.push((entry, Cursor::new(content)));
            self.names.insert(name);
        }
    }
}

/// The name of an entry: relative to the root, without dots.
fn name(path: &Path) -> String {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part.to_string_lossy()),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn folders_come_first_and_the_first_file_of_a_name_counts() {
        let mut archive = Initramfs::default();
        archive.device(Path::new("/dev/console"), 5, 1);
        archive.file(Path::new("/a/b"), 0o644, b"hello".to_vec());
        archive.file(Path::new("a/b"), 0o644, b"another of that name".to_vec());
        assert!(archive.holds(Path::new("/a")));
        let file = tempfile::NamedTempFile::new().expect("a file");
        archive.write(file.path()).expect("writable");

        let mut rest = File::open(file.path()).expect("the archive");
        let mut found = Vec::new();
        loop {
            let mut reader = cpio::NewcReader::new(rest).expect("an entry");
            let entry = reader.entry().clone();
            if entry.is_trailer() {
                break;
            }
            let mut content = String::new();
            reader.read_to_string(&mut content).expect("text");
            let device = (entry.rdev_major(), entry.rdev_minor());
            found.push((entry.name().to_owned(), entry.mode(), device, content));
            rest = reader.finish().expect("more");
        }
        let entry = |name: &str, mode, device, content: &str| {
            (name.to_owned(), mode, device, content.to_owned())
        };
        let wanted = [
            entry("dev", FOLDER, (0, 0), ""),
            entry("dev/console", CHARACTER, (5, 1), ""),
            entry("a", FOLDER, (0, 0), ""),
            entry("a/b", FILE | 0o644, (0, 0), "hello"),
        ];
        assert_eq!(found, wanted);
    }
}
