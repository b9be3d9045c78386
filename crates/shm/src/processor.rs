//! What differs between the processors of different makers, where one value does not suit all.

use crate::process::ValueHere;

/// Whether cores of one package that are far apart share no cache, so that bytes reach one from the
/// other sooner by memory.
///
/// So it is with AMD's. Those of Intel share their last cache, however long a line takes
/// (docs/decisions/0012); others were not measured, and are taken for Intel's.
#[inline]
#[must_use]
pub fn far_by_memory() -> bool {
    is_amd()
}

/// Two cores are near if a line takes less than this from one to the other, in nanoseconds one way.
///
/// Of AMD's, those that share their last cache are near, and a line takes at least twice as long
/// between others. Where one last cache lies below a mesh of many cores, messages go as between far
/// cores even if the line takes hardly longer (docs/decisions/0034).
#[must_use]
pub fn near_below_ns() -> u32 {
    if is_amd() { 90 } else { 50 }
}

/// Whether stores to several lines that another core has wait for one line after the other, unless
/// all of them are asked for before: on AMD's they do not, and asking takes time
/// (docs/decisions/0014).
#[inline]
#[must_use]
pub fn stores_wait_in_turn() -> bool {
    !is_amd()
}

/// Whether AMD made this processor.
#[inline]
fn is_amd() -> bool {
    static IS_AMD: ValueHere<bool> = ValueHere::new();
    *IS_AMD.get_or_make(|| family_of_amd().is_some())
}

/// The family of a processor of AMD.
pub(crate) fn family_of_amd() -> Option<u32> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::__cpuid;
        #[allow(unused_unsafe, reason = "the oldest Rust that is promised wants it")]
        // SAFETY: every processor of 64 bits has the instruction and both leaves.
        let (vendor, version) = unsafe { (__cpuid(0), __cpuid(1).eax) };
        let family = (version >> 8 & 0xf) + (version >> 20 & 0xff);
        let vendor = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
        (vendor.concat() == *b"AuthenticAMD").then_some(family)
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    None
}
