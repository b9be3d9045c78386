//! Structures that grow: a program that was built with another version's header knows fewer fields
//! of them, or more.

use crate::errors::Failure;
use crate::errors::limic_error::LIMIC_ERR_SIZE;

/// Whether the size that a caller has set can be one: not less than version 1.0 had, nor more than
/// `most`, which no version has.
#[inline(always)]
pub(crate) fn check(size: usize, least: usize, most: usize, name: &str) -> Result<(), Failure> {
    if (least..=most).contains(&size) {
        Ok(())
    } else {
        Err(wrong(size, least, name))
    }
}

#[cold]
pub(crate) fn wrong(size: usize, least: usize, name: &str) -> Failure {
    let start = name.to_ascii_uppercase();
    Failure::new(
        LIMIC_ERR_SIZE,
        format!("{name}.size is {size}, and {least} at least; begin with {start}_INIT"),
    )
}

/// Gives a structure to a caller that knows `size` bytes of it: no more than these, and zeros for
/// what only the caller knows.
///
/// # Safety
/// `size` bytes are writable at `to`, and they are at least `least`.
#[inline(always)]
pub(crate) unsafe fn give<T: Copy>(value: T, to: *mut u8, size: usize, least: usize) {
    let known = size_of::<T>();
    // SAFETY: the caller's promise; none of the three writes beyond `size`.
    unsafe {
        // As long as there is nothing to be added to version 1.0, nobody asks.
        if least == known || size >= known {
            to.cast::<T>().write_unaligned(value);
            to.add(known).write_bytes(0, size - known);
        } else {
            core::ptr::copy_nonoverlapping((&raw const value).cast(), to, size);
        }
    }
}

/// Takes a structure of a caller that knows `size` bytes of it; what it does not know is as in
/// `otherwise`. `None`: it has set a field that this version does not know.
///
/// # Safety
/// `size` bytes are readable at `from`, and whole fields of `T` that may have any value.
pub(crate) unsafe fn take<T: Copy>(from: *const u8, size: usize, otherwise: T) -> Option<T> {
    let known = size_of::<T>();
    let mut value = otherwise;
    // SAFETY: the caller's promise; `value` has room for `known` bytes.
    let tail = unsafe {
        core::ptr::copy_nonoverlapping(from, (&raw mut value).cast(), size.min(known));
        core::slice::from_raw_parts(from.add(size.min(known)), size.saturating_sub(known))
    };
    tail.iter().all(|byte| *byte == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a later version may have added to a structure of 8 bytes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Later {
        size: u32,
        first: u32,
        added: u64,
    }

    const LEAST: usize = 8;
    const VALUE: Later = Later {
        size: 16,
        first: 1,
        added: 2,
    };

    fn given(size: usize) -> [u8; 24] {
        let mut room = [0xee; 24];
        // SAFETY: there are 24 bytes of room.
        unsafe { give(VALUE, room.as_mut_ptr(), size, LEAST) };
        room
    }

    #[test]
    fn who_knows_less_is_given_less() {
        let room = given(8);
        assert_eq!(room[4..8], 1_u32.to_ne_bytes());
        assert!(room[8..].iter().all(|byte| *byte == 0xee));
        let room = given(16);
        assert_eq!(room[8..16], 2_u64.to_ne_bytes());
        assert!(room[16..].iter().all(|byte| *byte == 0xee));
        assert_eq!(given(24)[16..], [0; 8]);
    }

    #[test]
    fn what_a_caller_does_not_know_is_as_by_default() {
        let taken = |bytes: &[u8], size| {
            // SAFETY: all of `bytes` is there, and integers may have any value.
            unsafe { take(bytes.as_ptr(), size, VALUE) }
        };
        let mut bytes = [0; 24];
        bytes[4] = 7;
        let less = Later {
            size: 0,
            first: 7,
            added: 2,
        };
        assert_eq!(taken(&bytes, 8), Some(less));
        assert_eq!(taken(&bytes, 24), Some(Later { added: 0, ..less }));
        bytes[20] = 1;
        assert_eq!(taken(&bytes, 24), None);
        assert_eq!(taken(&bytes, 16), Some(Later { added: 0, ..less }));
    }
}
