//! The counters of another process, read while it runs, or stands still, and without its doing
//! anything: its page is a memfd, and whoever may open its descriptors may read it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path as FilePath, PathBuf};

use crate::layout::BYTES;
use crate::recorder::NAME;
use crate::{Page, PageError};

/// Descriptors that are looked at: a process can have millions.
const MOST: usize = 1 << 20;

/// A page of a process.
#[derive(Clone, Debug)]
pub struct Found {
    /// The descriptor, as the process numbers it.
    pub descriptor: u32,
    /// What it says.
    pub page: Result<Page, PageError>,
    /// Whether another process opened the endpoint, and this one has inherited it.
    pub inherited: bool,
}

limic_bootstrap::debug_as_display!(CountersError);

/// Why a process's counters cannot be read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CountersError {
    /// There is no process of this number.
    #[error("there is no process {pid}")]
    NoProcess {
        /// The number.
        pid: u32,
    },
    /// The kernel does not let this process look into that one.
    #[error(
        "no right to look into process {pid}, which belongs to uid {owner}: read its counters as that user (and if it \
         is that user's: it made itself undumpable), or with CAP_SYS_PTRACE, as root has it"
    )]
    Refused {
        /// The process.
        pid: u32,
        /// The user whose it is.
        owner: u32,
    },
    /// Anything else.
    #[error("{}: {source}", path.display())]
    File {
        /// What was to be read.
        path: PathBuf,
        /// Why it could not be.
        source: io::Error,
    },
}

/// The counters of all endpoints that a process has, by descriptor. None: it uses no limic, or has
/// no endpoint now.
///
/// # Errors
/// [`CountersError`]: no such process, or no right to look into it.
pub fn of_process(pid: u32) -> Result<Vec<Found>, CountersError> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let directory = process.join("fd");
    let entries = std::fs::read_dir(&directory).map_err(|why| explain(pid, &process, why))?;
    let wanted = format!("/memfd:{NAME} (deleted)");
    let mut found = Vec::new();
    for entry in entries.flatten().take(MOST) {
        let path = entry.path();
        // One that was closed meanwhile is none.
        let Ok(target) = std::fs::read_link(&path) else {
            continue;
        };
        if target.as_os_str() != wanted.as_str() {
            continue;
        }
        let name = entry.file_name();
        let Some(descriptor) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
            Err(why) => return Err(explain(pid, &path, why)),
        };
        let page = Page::parse(&bytes);
        let inherited = page
            .as_ref()
            .is_ok_and(|page| own_number(&process).is_some_and(|own| own != page.process));
        found.push(Found {
            descriptor,
            page,
            inherited,
        });
    }
    found.sort_by_key(|found| found.descriptor);
    Ok(found)
}

/// The first bytes of a file. By reading, not by mapping: whatever its owner does to it meanwhile,
/// nothing faults.
fn read(path: &FilePath) -> io::Result<Vec<u8>> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let mut bytes = vec![0; BYTES];
    let mut has = 0;
    while has < bytes.len() {
        match file.read_at(&mut bytes[has..], has as u64) {
            Ok(0) => break,
            Ok(more) => has += more,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    bytes.truncate(has);
    Ok(bytes)
}

/// The number of a process in its own PID namespace.
fn own_number(process: &FilePath) -> Option<u32> {
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let numbers = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

fn explain(pid: u32, path: &FilePath, source: io::Error) -> CountersError {
    use std::os::unix::fs::MetadataExt;
    match source.kind() {
        io::ErrorKind::NotFound => CountersError::NoProcess { pid },
        io::ErrorKind::PermissionDenied => {
            let status = std::fs::metadata(format!("/proc/{pid}"));
            let owner = status.map_or(u32::MAX, |status| status.uid());
            CountersError::Refused { pid, owner }
        }
        // A process that ends just now.
        _ if source.raw_os_error() == Some(libc::ESRCH) => CountersError::NoProcess { pid },
        _ => CountersError::File {
            path: path.to_owned(),
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recorder;
    use limic_policy::Path;

    #[test]
    fn an_own_page_is_found_and_read_as_it_is() {
        let recorder = Recorder::new(0x1234_5678, None).expect("a page");
        recorder.sent(&recorder.row(5, 99), Path::Inline, 8);
        let found = of_process(std::process::id()).expect("this process");
        let pages = found.iter().filter_map(|found| found.page.as_ref().ok());
        let page = pages.into_iter().find(|page| page.endpoint == 0x1234_5678);
        assert_eq!(page, Some(&recorder.page()));
        assert!(found.iter().all(|found| !found.inherited));
    }

    #[test]
    fn no_process_is_said() {
        let error = of_process(u32::MAX).expect_err("no such process");
        assert_eq!(error.to_string(), "there is no process 4294967295");
    }
}
