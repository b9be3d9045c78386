//! The buffers that this process has prepared, where other processes can look them up.
//!
//! A table is an arena: a memfd that only this process can write, since it is sealed against
//! writing through later mappings. It has a header and then records of 32 bytes. That it is this
//! process's own table, and no memory that somebody passed to it, is proved by a POSIX record lock:
//! the kernel tells everybody which process holds it, and nobody can take one in another's name.
//! The lock ends with the process, with `limic_close`, and with exec.
//!
//! LiMIC2 has no call that ends a preparation. So a record stays until its place is needed: tables
//! grow up to [`MOST`] buffers, then the one that was not prepared for the longest time goes (the
//! clock algorithm). A buffer that is prepared again keeps its record.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};

use limic_copy::ProbeWord;
use limic_shm::ring::{Mapped, Memory};
use limic_shm::segment::{Arena, Placement};
use limic_shm::sync::{Ordering, fence};

use crate::descriptor::{MOST_PLACES, Part, Registered};
use crate::refusal::Refusal;

/// `limic2` and the version of this layout: what LiMIC2's version handshake is for.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"limic2\0\x01");
pub(crate) const TABLE_BYTES: usize = 512 * 1024;
pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const RECORD_BYTES: usize = 32;
/// Records of one table.
pub(crate) const RECORDS: u32 = ((TABLE_BYTES - HEADER_BYTES) / RECORD_BYTES) as u32;
const _: () = assert!(RECORDS <= MOST_PLACES);
/// Tables of one session at most.
const TABLES: usize = 16;
/// Buffers that stay prepared: 262112.
const MOST: usize = TABLES * RECORDS as usize;

/// Places in the header: magic, address and value of the probe word.
pub(crate) const AT_MAGIC: usize = 0;
pub(crate) const AT_PROBE: usize = 8;
pub(crate) const AT_VALUE: usize = 16;

/// Where a record begins.
pub(crate) const fn record(at: u32) -> usize {
    HEADER_BYTES + at as usize * RECORD_BYTES
}

struct Table {
    arena: Arena,
    view: Mapped,
}

/// What this process knows of a record.
struct Entry {
    part: Part,
    key: u64,
    /// Prepared again since the hand passed.
    recent: bool,
}

/// The tables of one session.
pub(crate) struct Tables {
    pid: i32,
    probe: ProbeWord,
    tables: Vec<Table>,
    entries: Vec<Entry>,
    known: HashMap<Part, usize>,
    hand: usize,
}

impl Tables {
    pub(crate) fn new() -> Result<Self, Refusal> {
        let mut tables = Self {
            pid: std::process::id().cast_signed(),
            probe: ProbeWord::new(random()?),
            tables: Vec::new(),
            entries: Vec::new(),
            known: HashMap::new(),
            hand: 0,
        };
        tables.grow()?;
        Ok(tables)
    }

    /// The descriptor that stands for the session: that of its first table.
    pub(crate) fn fd(&self) -> RawFd {
        self.tables
            .first()
            .map_or(-1, |table| table.arena.fd().as_raw_fd())
    }

    fn grow(&mut self) -> Result<(), Refusal> {
        let arena = Arena::create(TABLE_BYTES, Placement::default())
            .map_err(|why| Refusal::new(libc::ENOMEM, format!("a table of buffers: {why}")))?;
        let view = arena.view();
        view.word64(AT_PROBE)
            .store(self.probe.address(), Ordering::Relaxed);
        view.word64(AT_VALUE)
            .store(self.probe.value(), Ordering::Relaxed);
        // Pairs with the acquire in `registry`: who sees the magic sees the rest.
        view.word64(AT_MAGIC).store(MAGIC, Ordering::Release);
        lock(arena.fd().as_raw_fd())?;
        self.tables.push(Table { arena, view });
        Ok(())
    }

    /// Registers a buffer.
    pub(crate) fn prepare(&mut self, part: Part) -> Result<Registered, Refusal> {
        if let Some(index) = self.known.get(&part).copied() {
            self.entries[index].recent = true;
            return self.name(index);
        }
        let index = self.enter(part, random()?)?;
        self.known.insert(part, index);
        self.name(index)
    }

    /// Registers a buffer under a key that is used for nothing else, be it registered already or
    /// not.
    pub(crate) fn prepare_as(&mut self, part: Part, key: u64) -> Result<Registered, Refusal> {
        let index = self.enter(part, key)?;
        self.name(index)
    }

    /// Makes a record, in place of an old one if there is no room.
    fn enter(&mut self, part: Part, key: u64) -> Result<usize, Refusal> {
        let index = self.free()?;
        let entry = Entry {
            part,
            key,
            recent: false,
        };
        match self.entries.get_mut(index) {
            Some(old) => {
                if self.known.get(&old.part) == Some(&index) {
                    self.known.remove(&old.part);
                }
                *old = entry;
            }
            None => self.entries.push(entry),
        }
        let (table, at) = self.locate(index);
        let view = &self.tables[table].view;
        let base = record(at);
        // A reader that sees the new numbers must not see the old key: see `registry`.
        view.word64(base).store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        view.word64(base + 8)
            .store(part.start as u64, Ordering::Relaxed);
        view.word64(base + 16)
            .store(part.len as u64, Ordering::Relaxed);
        // Pairs with the acquire in `registry`.
        view.word64(base).store(key, Ordering::Release);
        Ok(index)
    }

    /// An index for a new record.
    fn free(&mut self) -> Result<usize, Refusal> {
        let used = self.entries.len();
        if used < self.tables.len() * RECORDS as usize {
            return Ok(used);
        }
        if used < MOST {
            self.grow()?;
            return Ok(used);
        }
        // Each look takes a mark away, so at the latest the second round ends.
        loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % used;
            if !core::mem::take(&mut self.entries[at].recent) {
                return Ok(at);
            }
        }
    }

    fn locate(&self, index: usize) -> (usize, u32) {
        (index / RECORDS as usize, (index % RECORDS as usize) as u32)
    }

    fn name(&self, index: usize) -> Result<Registered, Refusal> {
        let (table, at) = self.locate(index);
        let fd = self.tables[table].arena.fd().as_raw_fd();
        Registered::new(self.entries[index].key, self.pid, fd, at).ok_or_else(|| {
            Refusal::new(
                libc::EOVERFLOW,
                "the process id or the descriptor is too large for a handle",
            )
        })
    }

    /// What is registered in this very process.
    pub(crate) fn look_up(&self, registered: Registered) -> Option<Part> {
        let fd_of = |table: &Table| table.arena.fd().as_raw_fd();
        let table = self
            .tables
            .iter()
            .position(|table| fd_of(table) == registered.fd)?;
        let entry = self
            .entries
            .get(table * RECORDS as usize + registered.at as usize)?;
        (entry.key == registered.key).then_some(entry.part)
    }

    pub(crate) fn probe(&self) -> (u64, u64) {
        (self.probe.address(), self.probe.value())
    }
}

fn random() -> Result<u64, Refusal> {
    loop {
        match getrandom::u64() {
            Ok(0) => {}
            Ok(number) => return Ok(number),
            Err(why) => return Err(Refusal::new(libc::EIO, format!("no random number: {why}"))),
        }
    }
}

/// Takes the lock that tells whose table this is.
fn lock(fd: RawFd) -> Result<(), Refusal> {
    let mut wanted = whole_file(libc::F_WRLCK);
    // SAFETY: F_SETLK reads a `flock`, which `wanted` is.
    if unsafe { libc::fcntl(fd, libc::F_SETLK, &raw mut wanted) } == 0 {
        return Ok(());
    }
    let why = std::io::Error::last_os_error();
    let errno = why.raw_os_error().unwrap_or(libc::EIO);
    Err(Refusal::new(
        errno,
        format!("a record lock on a memfd: {why}"),
    ))
}

/// A lock request for all of a file.
pub(crate) fn whole_file(kind: i32) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_buffer_keeps_its_handle() {
        let mut tables = Tables::new().unwrap();
        let part = Part {
            start: 4096,
            len: 10,
        };
        let first = tables.prepare(part).unwrap();
        assert_eq!(tables.prepare(part).unwrap(), first);
        assert_eq!(tables.look_up(first), Some(part));
        let other = tables
            .prepare(Part {
                start: 4096,
                len: 11,
            })
            .unwrap();
        assert_ne!(other.key, first.key);
        assert_eq!(
            tables.look_up(Registered {
                key: first.key ^ 1,
                ..first
            }),
            None
        );
        assert_eq!(
            tables.look_up(Registered {
                at: other.at,
                ..first
            }),
            None
        );
    }

    #[test]
    fn a_buffer_may_have_several_keys_of_others() {
        let mut tables = Tables::new().unwrap();
        let part = Part {
            start: 4096,
            len: 10,
        };
        let own = tables.prepare(part).unwrap();
        let [one, two] = [5, 6].map(|key| tables.prepare_as(part, key).unwrap());
        assert_eq!((one.key, two.key), (5, 6));
        for registered in [own, one, two] {
            assert_eq!(tables.look_up(registered), Some(part));
        }
        assert_eq!(tables.prepare(part).unwrap(), own);
    }

    #[test]
    fn old_buffers_go_when_the_tables_are_full() {
        let mut tables = Tables::new().unwrap();
        let part = |number: usize| Part {
            start: 4096 + number,
            len: 1,
        };
        let oldest = tables.prepare(part(0)).unwrap();
        let used_again = tables.prepare(part(1)).unwrap();
        for number in 2..MOST {
            tables.prepare(part(number)).unwrap();
        }
        assert_eq!(tables.prepare(part(1)).unwrap(), used_again);
        assert_eq!(tables.look_up(oldest), Some(part(0)));
        tables.prepare(part(MOST)).unwrap();
        tables.prepare(part(MOST + 1)).unwrap();
        assert_eq!(tables.look_up(oldest), None);
        assert_eq!(tables.look_up(used_again), Some(part(1)));
    }
}
