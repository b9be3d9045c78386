//! Asking for cache lines ahead of their use. Nothing waits for them, and an address that is
//! nobody's does no harm.

/// One instruction that takes the address of a line, where the processor is of that kind.
macro_rules! hint {
    ($line:expr, x86_64: $x86:literal, aarch64: $arm:literal) => {{
        let line: *const u8 = $line;
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch never faults, whatever the address, changes no register, no flag, and
        // no memory.
        unsafe {
            core::arch::asm!($x86, in(reg) line, options(nostack, preserves_flags, readonly));
        }
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        // SAFETY: as above.
        unsafe {
            core::arch::asm!($arm, in(reg) line, options(nostack, preserves_flags, readonly));
        }
        #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
        let _ = line;
    }};
}

/// Asks for a line, to be read.
#[inline(always)]
pub(super) fn read(line: *const u8) {
    hint!(line, x86_64: "prefetcht0 [{}]", aarch64: "prfm pldl1keep, [{}]");
}

/// The same, for it to come to the second-level cache: more of them are on their way at once there
/// than to the first.
#[inline(always)]
pub(super) fn read_to_second(line: *const u8) {
    hint!(line, x86_64: "prefetcht1 [{}]", aarch64: "prfm pldl2keep, [{}]");
}

/// Moves a line out of this core's own caches into the one that all cores share, for another core
/// to find it there. Where the processor has no such instruction, nothing happens.
#[inline(always)]
pub(super) fn demote(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: it never faults, whatever the address, and changes no register, no flag, and no
    // memory; processors without it take the opcode for one that does nothing.
    unsafe {
        core::arch::asm!("cldemote [{}]", in(reg) line, options(nostack, preserves_flags));
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    let _ = line;
}

/// Asks for a line and its ownership, to be written. By the instruction itself: the intrinsic would
/// become a read prefetch unless the build names prfchw as a target feature, and processors without
/// it ignore the opcode.
#[inline(always)]
pub(super) fn write(line: *const u8) {
    hint!(line, x86_64: "prefetchw [{}]", aarch64: "prfm pstl1keep, [{}]");
}
