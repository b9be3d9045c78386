//! Archives in the kernel's format for an initramfs: 'newc' cpio (Linux, `Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::collections::BTreeSet;
use std::path::{Component, Path};

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_777;
const CHARACTER: u32 = 0o020_600;

/// An archive in memory. Folders above an entry are made as they are needed.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    names: BTreeSet<String>,
}

impl Archive {
    /// A file with these permissions. A second one of the same name is left out.
    pub(crate) fn file(&mut self, path: &Path, permissions: u32, content: &[u8]) {
        self.entry(path, FILE | permissions & 0o7777, (0, 0), content);
    }

    pub(crate) fn link(&mut self, path: &Path, target: &Path) {
        let target = target.to_string_lossy().into_owned();
        self.entry(path, LINK, (0, 0), target.as_bytes());
    }

    pub(crate) fn folder(&mut self, path: &Path) {
        self.entry(path, FOLDER, (0, 0), &[]);
    }

    /// A character device.
    pub(crate) fn device(&mut self, path: &Path, major: u32, minor: u32) {
        self.entry(path, CHARACTER, (major, minor), &[]);
    }

    /// Whether there is an entry of this name.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.names.contains(&name(path))
    }

    /// The archive with its end mark.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.append("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, path: &Path, mode: u32, device: (u32, u32), content: &[u8]) {
        if let Some(above) = path.parent()
            && !name(above).is_empty()
        {
            self.folder(above);
        }
        let name = name(path);
        if self.names.insert(name.clone()) {
            self.append(&name, mode, device, content);
        }
    }

    fn append(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let length = u32::try_from(content.len()).expect("a file of an initramfs is below 4 GiB");
        let name_length = u32::try_from(name.len() + 1).expect("a path is below 4 GiB");
        // inode, mode, uid, gid, links, mtime, size, device of the file, device it is, name, checksum
        let fields = [
            number,
            mode,
            0,
            0,
            1,
            0,
            length,
            0,
            0,
            device.0,
            device.1,
            name_length,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
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
    use super::*;

    #[test]
    fn an_entry_is_laid_out_as_the_kernel_reads_it() {
        let mut archive = Archive::default();
        archive.file(Path::new("/a/b"), 0o644, b"hello");
        archive.file(Path::new("a/b"), 0o644, b"another of that name");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        // The folder first: a header of 110 bytes, the name with its zero, filled up to 112.
        assert!(text.starts_with("07070100000001000041ED"));
        assert_eq!(&bytes[110..112], b"a\0");
        let file = &bytes[112..];
        assert_eq!(&file[..22], b"07070100000002000081A4");
        assert_eq!(&file[54..62], b"00000005");
        assert_eq!(&file[110..114], b"a/b\0");
        assert_eq!(&file[116..124], b"hello\0\0\0");
        assert!(text.contains("TRAILER!!!"));
        assert!(!text.contains("another"));
        assert_eq!(bytes.len() % 4, 0);
    }
}
