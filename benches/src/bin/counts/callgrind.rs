//! What a program asks of callgrind while it runs in it: to forget what it has counted, and to
//! write down what it has counted since.
//!
//! A request is a sequence of instructions that does nothing on a processor, and which valgrind
//! recognises. Its documentation ("The Client Request mechanism") promises that the sequence stays.

#![expect(unsafe_code, reason = "the sequence of instructions")]

use std::ffi::CStr;

/// Requests of the tool whose letters are C and T.
const CALLGRIND: u64 = (b'C' as u64) << 24 | (b'T' as u64) << 16;
const ZERO_STATS: u64 = CALLGRIND + 1;
const DUMP_STATS_AT: u64 = CALLGRIND + 3;

/// Forgets what was counted.
#[inline(always)]
pub(crate) fn zero() {
    request([ZERO_STATS, 0]);
}

/// Writes down what was counted since the last request, under a name.
#[inline(always)]
pub(crate) fn dump(name: &CStr) {
    request([DUMP_STATS_AT, name.as_ptr().expose_provenance() as u64]);
}

#[inline(always)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(unused_variables, reason = "no sequence")
)]
fn request([code, argument]: [u64; 2]) {
    #[cfg(target_arch = "x86_64")]
    {
        let words = [code, argument, 0, 0, 0, 0];
        // SAFETY: on a processor the four rotations add up to whole turns of rdi, and the exchange
        // of rbx with itself does nothing; in valgrind the request reads `words` and the text that
        // it points to, which live during the call, and writes rdx.
        unsafe {
            std::arch::asm!(
                "rol rdi, 3",
                "rol rdi, 13",
                "rol rdi, 61",
                "rol rdi, 51",
                "xchg rbx, rbx",
                in("rax") words.as_ptr(),
                inout("rdx") 0_u64 => _,
                options(nostack),
            );
        }
    }
}
