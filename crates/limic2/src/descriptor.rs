//! What is in a `limic_user`: the part of the buffer that is meant, and the two words that LiMIC2
//! filled with kernel addresses.
//!
//! | field | here |
//! |-------|------|
//! | `mm`  | the key: 64 random bits, never 0, a new one for each buffer |
//! | `tsk` | where the key is registered: pid (22 bits), descriptor of the table in that process (27), place in it (14) |
//!
//! Everything may have been changed on the way. `tsk` says where to look, and the table found there
//! has to prove itself.

use core::ffi::{c_int, c_void};

use crate::limic_user;
use crate::refusal::Refusal;

const PID_BITS: u32 = 22;
const FD_BITS: u32 = 27;
const PLACE_BITS: u32 = 14;
const _: () = assert!(PID_BITS + FD_BITS + PLACE_BITS < u64::BITS);

/// Places that one table can have at most.
pub(crate) const MOST_PLACES: u32 = 1 << PLACE_BITS;

/// A registration, as a descriptor names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) key: u64,
    pub(crate) pid: i32,
    pub(crate) fd: i32,
    pub(crate) at: u32,
}

impl Registered {
    /// `None` if a number does not fit, which Linux's own limits leave to descriptors beyond 134
    /// million.
    pub(crate) fn new(key: u64, pid: i32, fd: i32, at: u32) -> Option<Self> {
        let fits = (1..1 << PID_BITS).contains(&pid) && (0..1 << FD_BITS).contains(&fd);
        (fits && at < MOST_PLACES && key != 0).then_some(Self { key, pid, fd, at })
    }

    /// For the field `tsk`.
    pub(crate) fn place(self) -> u64 {
        (self.pid as u64) << (FD_BITS + PLACE_BITS)
            | (self.fd as u64) << PLACE_BITS
            | u64::from(self.at)
    }

    fn decode(key: u64, place: u64) -> Option<Self> {
        let at = (place & (u64::from(MOST_PLACES) - 1)) as u32;
        let fd = (place >> PLACE_BITS & ((1 << FD_BITS) - 1)) as i32;
        let pid = i32::try_from(place >> (FD_BITS + PLACE_BITS)).ok()?;
        Self::new(key, pid, fd, at)
    }
}

/// A range of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// Where an address lies in its page.
pub(crate) fn offset_in_page(address: usize) -> usize {
    address & (rustix::param::page_size() - 1)
}

impl Part {
    /// A buffer of this process.
    pub(crate) fn of_buffer(buf: *mut c_void, len: usize) -> Result<Self, Refusal> {
        if len == 0 {
            return Err(Refusal::invalid("a buffer of 0 bytes cannot be prepared"));
        }
        if buf.is_null() {
            return Err(Refusal::invalid("the buffer is a null pointer"));
        }
        Self::new(buf.expose_provenance(), len)
            .ok_or_else(|| Refusal::invalid(format!("{len} bytes at {buf:p} are no memory")))
    }

    pub(crate) fn new(start: usize, len: usize) -> Option<Self> {
        start.checked_add(len).map(|_| Self { start, len })
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        // Neither end overflows: `new` saw to that.
        other.start >= self.start && other.start + other.len <= self.start + self.len
    }

    /// Refuses a part that does not lie within this buffer of that process.
    pub(crate) fn holds(self, part: Self, pid: i32) -> Result<(), Refusal> {
        if self.contains(part) {
            return Ok(());
        }
        Err(Refusal::new(
            libc::EACCES,
            format!(
                "{} bytes at {:#x} are not within the prepared {} bytes at {:#x} of process {pid}",
                part.len, part.start, self.len, self.start
            ),
        ))
    }

    /// Pages that it touches.
    pub(crate) fn pages(self) -> Result<c_int, Refusal> {
        let page = rustix::param::page_size();
        let pages = (offset_in_page(self.start) + self.len).div_ceil(page);
        c_int::try_from(pages).map_err(|_| {
            Refusal::invalid(format!(
                "{} bytes are more pages than nr_pages can say",
                self.len
            ))
        })
    }
}

/// What a descriptor says about a copy of at most `most` bytes.
pub(crate) fn decode(lu: &limic_user, most: usize) -> Result<(Registered, Part), Refusal> {
    let len = most.min(lu.length);
    if len == 0 {
        return Err(Refusal::invalid("a copy of 0 bytes"));
    }
    let registered = Registered::decode(lu.mm.addr() as u64, lu.tsk.addr() as u64);
    let Some(registered) = registered else {
        return Err(Refusal::stale(
            "the descriptor holds no handle: limic_tx_init did not fill it in, or it was changed on the way",
        ));
    };
    let va = lu.va as usize;
    let part = (va - offset_in_page(va))
        .checked_add(lu.offset)
        .and_then(|start| Part::new(start, len));
    match part {
        Some(part) => Ok((registered, part)),
        None => Err(Refusal::new(
            libc::EACCES,
            "the descriptor's part wraps around",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(va: usize, offset: usize, length: usize) -> limic_user {
        let registered = Registered::new(7, 4_194_303, 1000, 16_383).unwrap();
        limic_user {
            nr_pages: 0,
            offset,
            length,
            va: va as _,
            mm: core::ptr::without_provenance_mut(registered.key as usize),
            tsk: core::ptr::without_provenance_mut(registered.place() as usize),
        }
    }

    #[test]
    fn numbers_survive_the_way() {
        let (registered, part) = decode(&user(0x5123, 0x123, 100), 60).unwrap();
        assert_eq!(
            registered,
            Registered {
                key: 7,
                pid: 4_194_303,
                fd: 1000,
                at: 16_383
            }
        );
        assert_eq!(
            part,
            Part {
                start: 0x5123,
                len: 60
            }
        );
    }

    #[test]
    fn the_part_moves_with_each_field() {
        let part = |va, offset, length| decode(&user(va, offset, length), 1 << 30).unwrap().1;
        // As MVAPICH2 moves on after a fragment: va by the bytes copied, offset to match.
        assert_eq!(
            part(0x6007, 0x007, 9),
            Part {
                start: 0x6007,
                len: 9
            }
        );
        // As its windows do: only offset, beyond the first page.
        assert_eq!(
            part(0x5123, 0x123 + 0x4000, 9),
            Part {
                start: 0x9123,
                len: 9
            }
        );
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(decode(&user(0x5123, 0x123, 0), 60).is_err());
        assert!(decode(&user(0x5123, 0x123, 60), 0).is_err());
        assert!(decode(&user(usize::MAX, usize::MAX, 60), 60).is_err());
        let mut empty = user(0x5123, 0x123, 60);
        empty.mm = core::ptr::null_mut();
        assert!(decode(&empty, 60).is_err());
        assert_eq!(Registered::new(1, 0, 3, 0), None);
        assert_eq!(Registered::new(1, 5, -1, 0), None);
    }

    #[test]
    fn bounds_are_those_of_the_buffer() {
        let whole = Part {
            start: 100,
            len: 50,
        };
        let inside = |start, len| whole.contains(Part { start, len });
        assert!(inside(100, 50) && inside(149, 1) && inside(120, 10));
        assert!(!inside(99, 1) && !inside(149, 2) && !inside(150, 1));
    }
}
