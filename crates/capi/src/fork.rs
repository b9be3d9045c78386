//! Whether this process is the one that opened an endpoint.
//!
//! `fork` copies endpoints into the child, which must not use them: two processes would write one
//! ring as its only writer. The kernel zeroes one page in every child (MADV_WIPEONFORK, Linux
//! 4.14), so that the question costs a load and not a system call, and `fork` by a raw system call
//! is seen too.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::OnceLock;

use crate::errors::{Failure, limic_error::LIMIC_ERR_SYSTEM};

/// The word that a child finds zeroed.
struct Word(NonNull<AtomicU32>);

// SAFETY: it points to an atomic that stays mapped for the life of the process.
unsafe impl Send for Word {}
// SAFETY: as for Send.
unsafe impl Sync for Word {}

static WORD: OnceLock<Word> = OnceLock::new();

fn word() -> Option<&'static AtomicU32> {
    // SAFETY: `map` made it point to zeroed memory that is never unmapped.
    WORD.get().map(|word| unsafe { word.0.as_ref() })
}

/// Maps the page.
fn map() -> Option<Word> {
    // SAFETY: sysconf has no preconditions.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    // SAFETY: a new private mapping at an address that the kernel picks.
    let start = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            page,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page that was just mapped.
    if unsafe { libc::madvise(start, page, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: nobody else knows of it.
        unsafe { libc::munmap(start, page) };
        return None;
    }
    NonNull::new(start.cast()).map(Word)
}

/// The mark of this process, made at the first call in it: its process id.
pub(crate) fn enter() -> Result<u32, Failure> {
    if WORD.get().is_none() {
        let word = map().ok_or_else(|| {
            let why = std::io::Error::last_os_error();
            Failure::new(
                LIMIC_ERR_SYSTEM,
                format!("a page that is zeroed in forked children: {why}"),
            )
        })?;
        // Whoever was faster has mapped another one; this one stays unused.
        let _ = WORD.set(word);
    }
    let mark = std::process::id();
    if let Some(word) = word() {
        word.store(mark, Relaxed);
    }
    Ok(mark)
}

/// The mark of this process, or 0 if it was forked and has opened nothing itself.
#[inline(always)]
pub(crate) fn mark() -> u32 {
    word().map_or(0, |word| word.load(Relaxed))
}
