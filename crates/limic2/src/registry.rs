//! Another process's table of prepared buffers, found and checked.
//!
//! A descriptor only says where to look, so what is found there has to prove three things: that it
//! is a table (name, seals, size and magic of the memfd), that it is that process's own (the kernel
//! names the holder of its lock), and that the key is in it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use limic_copy::{Cma, CmaPeer};
use limic_shm::segment::PeerArena;
use limic_shm::sync::{AtomicU64, Ordering, fence};
use rustix::fs::{FileType, Mode, OFlags, SealFlags, fcntl_get_seals, fstat, open};

use crate::descriptor::{Part, Registered};
use crate::refusal::Refusal;
use crate::table::{
    AT_MAGIC, AT_PROBE, AT_VALUE, MAGIC, RECORD_BYTES, RECORDS, TABLE_BYTES, record, whole_file,
};

/// A table that proved itself.
#[derive(Debug)]
pub(crate) struct Found {
    arena: PeerArena,
    /// To ask for the holder of the lock.
    file: OwnedFd,
    pid: i32,
    pub(crate) peer: CmaPeer,
}

fn no_table(pid: i32, why: impl core::fmt::Display) -> Refusal {
    Refusal::stale(format!(
        "process {pid} has no table of prepared buffers there ({why}): the handle is stale or was changed on the way"
    ))
}

impl Found {
    /// Opens the table that a descriptor names.
    pub(crate) fn open(registered: Registered) -> Result<Self, Refusal> {
        let pid = registered.pid;
        let path = format!("/proc/{pid}/fd/{}", registered.fd);
        // Only named and not opened yet: it may be anything that the process has open, and opening
        // a terminal or a pipe has effects.
        let named = open(&*path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| {
            match errno {
                rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => Refusal::new(
                    libc::EPERM,
                    format!("{path}: {errno}; both processes need the same user and may not be protected against tracing"),
                ),
                rustix::io::Errno::NOENT if !std::path::Path::new(&format!("/proc/{pid}")).exists() => {
                    Refusal::new(libc::ESRCH, format!("process {pid} is gone"))
                }
                errno => no_table(pid, errno),
            }
        })?;
        let stat = fstat(&named).map_err(|errno| no_table(pid, errno))?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !regular || stat.st_size != TABLE_BYTES as i64 {
            return Err(no_table(pid, "another file is open there"));
        }
        let again = format!("/proc/self/fd/{}", named.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = open(&*again, flags, Mode::empty()).map_err(|errno| no_table(pid, errno))?;
        let wanted =
            SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        match fcntl_get_seals(&file) {
            Ok(seals) if seals.contains(wanted) => {}
            _ => return Err(no_table(pid, "the file is not sealed")),
        }
        let arena =
            PeerArena::attach(file.as_fd(), TABLE_BYTES).map_err(|why| no_table(pid, why))?;
        let word = |at| word(&arena, at).map_or(0, |word| word.load(Ordering::Acquire));
        // Acquire: pairs with the release in `Tables::grow`.
        let magic = word(AT_MAGIC);
        if magic != MAGIC {
            return Err(Refusal::new(
                libc::EPROTO,
                format!(
                    "process {pid} runs another version of liblimic2 (its tables say {magic:#x}, this one {MAGIC:#x})"
                ),
            ));
        }
        let (address, value) = (word(AT_PROBE), word(AT_VALUE));
        // First the lock: what an impostor wrote is not even looked at.
        held_by(&file, pid)?;
        let peer = Cma::probe(pid, address, value)
            .map_err(|refused| Refusal::new(libc::EPERM, refused.to_string()))?;
        Ok(Self {
            arena,
            file,
            pid,
            peer,
        })
    }

    /// What is registered, now, under a key; and that the process is still there.
    pub(crate) fn look_up(&self, registered: Registered) -> Result<Part, Refusal> {
        held_by(&self.file, self.pid)?;
        let base = record(registered.at.min(RECORDS - 1));
        let word = |at| word(&self.arena, base + at);
        let (Some(key), Some(start), Some(len)) = (word(0), word(8), word(16)) else {
            return Err(no_table(self.pid, "it is too short"));
        };
        // Pairs with the release that publishes a key in `Tables::prepare`.
        let before = key.load(Ordering::Acquire);
        let (start, len) = (start.load(Ordering::Relaxed), len.load(Ordering::Relaxed));
        // Pairs with the release fence there: who reads numbers of the next buffer sees that the
        // key is gone.
        fence(Ordering::Acquire);
        let after = key.load(Ordering::Relaxed);
        if before != registered.key || after != registered.key || registered.at >= RECORDS {
            return Err(Refusal::stale(format!(
                "the buffer is not prepared any more in process {}, or never was: the handle is stale or was changed on the way",
                self.pid
            )));
        }
        let (Ok(start), Ok(len)) = (usize::try_from(start), usize::try_from(len)) else {
            return Err(no_table(self.pid, "its numbers are no addresses"));
        };
        match start.checked_add(len) {
            Some(_) => Ok(Part { start, len }),
            None => Err(no_table(self.pid, "its numbers are no addresses")),
        }
    }
}

/// A word of the table. The process that owns it may write it at any time.
fn word(arena: &PeerArena, at: usize) -> Option<&AtomicU64> {
    let start = arena.pointer(at as u64, RECORD_BYTES as u64 / 4)?;
    // SAFETY: within the mapping, which `arena` keeps, for the eight bytes of the word; offsets are
    // multiples of eight and mappings begin at pages, so it is aligned. Loads of an atomic of this
    // size do not write, so a read-only mapping is enough; writes of the owner at the same time are
    // what atomics are for.
    Some(unsafe { AtomicU64::from_ptr(start.cast_mut().cast()) })
}

/// Asks the kernel whether this very process holds the lock of its table: it has not ended, and
/// nobody passed the file to it.
fn held_by(file: &OwnedFd, pid: i32) -> Result<(), Refusal> {
    let mut asked = whole_file(libc::F_RDLCK);
    // SAFETY: F_GETLK reads and writes a `flock`, which `asked` is.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut asked) };
    if result == 0 && asked.l_type == libc::F_WRLCK as libc::c_short && asked.l_pid == pid {
        return Ok(());
    }
    Err(Refusal::stale(format!(
        "process {pid} is gone, has closed LiMIC2, or never owned this table: the handle is stale or was changed on the way"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Tables;
    use std::os::fd::BorrowedFd;
    use std::process::{Child, Command, Stdio};

    /// A process that was given a file as its descriptor 0.
    fn holder(of: BorrowedFd<'_>) -> Child {
        let file = of.try_clone_to_owned().unwrap();
        let mut command = Command::new("sleep");
        command.arg("100").stdin(Stdio::from(file)).spawn().unwrap()
    }

    /// The refusal of a descriptor that names descriptor 0 of that process.
    fn refusal_at(holder: &mut Child, key: u64) -> String {
        let pid = holder.id().cast_signed();
        let named = Registered::new(key, pid, 0, 0).unwrap();
        let found = Found::open(named);
        holder.kill().unwrap();
        holder.wait().unwrap();
        format!("{:?}", found.unwrap_err())
    }

    #[test]
    fn a_table_that_was_passed_to_a_process_is_not_its_own() {
        let mut tables = Tables::new().unwrap();
        let registered = tables
            .prepare(Part {
                start: 4096,
                len: 1,
            })
            .unwrap();
        // SAFETY: the table is open as long as `tables` lives.
        let table = unsafe { BorrowedFd::borrow_raw(tables.fd()) };
        // All is right with it: name, seals, size, magic, and the key is in it. But it is this
        // process's.
        let why = refusal_at(&mut holder(table), registered.key);
        assert!(why.contains("never owned this table"), "{why}");
    }

    #[test]
    fn other_files_are_no_tables() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let why = refusal_at(&mut holder(null.as_fd()), 1);
        assert!(why.contains("another file"), "{why}");
        let file = tempfile::tempfile().unwrap();
        file.set_len(TABLE_BYTES as u64).unwrap();
        let why = refusal_at(&mut holder(file.as_fd()), 1);
        assert!(why.contains("not sealed"), "{why}");
    }
}
