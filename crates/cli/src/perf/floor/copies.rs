//! What copies in the loops of two copies, and which of it is best between two CPUs.

use limic_measure::MeasureError;
use limic_measure::numbers::Spread;
use limic_shm::ring::instructions::{self, LongCopy};

use super::loops::{Kind, Order, Shape};
use super::memory::Memory;
use super::partner::Partner;
use super::{into_error, timed};

/// What copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Copies {
    Libc,
    Vector,
    RepMovsb,
}

impl Copies {
    pub(super) const ALL: [Self; 3] = [Self::Libc, Self::Vector, Self::RepMovsb];

    /// Those that exist on this machine.
    pub(super) fn here() -> &'static [Self] {
        if instructions::has_rep_movsb() {
            &Self::ALL
        } else {
            &[Self::Libc, Self::Vector]
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Libc => "memcpy",
            Self::Vector => "vector",
            Self::RepMovsb => "rep movsb",
        }
    }

    /// Copies `len` bytes of this process.
    ///
    /// # Safety
    /// As [`std::ptr::copy_nonoverlapping`] for `u8`.
    #[inline(always)]
    pub(super) unsafe fn copy(self, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Libc => std::ptr::copy_nonoverlapping(from, to, len),
                Self::Vector => instructions::copy_by(LongCopy::Vector, from, to, len),
                Self::RepMovsb => instructions::copy_by(LongCopy::RepMovsb, from, to, len),
            }
        }
    }

    /// Copies `len` bytes that the other process wrote, as limic does.
    ///
    /// # Safety
    /// As [`std::ptr::copy_nonoverlapping`] for `u8`.
    #[inline(always)]
    pub(super) unsafe fn copy_from_peer(self, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Vector => instructions::copy_from_peer_by(LongCopy::Vector, from, to, len),
                other => other.copy(from, to, len),
            }
        }
    }
}

/// Rounds that are compared; the median counts.
const ROUNDS: usize = 15;

/// Messages of a round.
const ITERATIONS: u64 = 200;

/// The time that vectors take for two copies between these CPUs, as a multiple of that of `rep
/// movsb`: the geometric mean over ping-pong and stream of some sizes. `None` where there is only
/// one kind. The process must have one thread.
pub(in crate::perf) fn vector_time(cpus: [u32; 2]) -> Result<Option<f64>, MeasureError> {
    if !instructions::has_rep_movsb() {
        return Ok(None);
    }
    let [first, second] = cpus.map(|cpu| cpu as usize);
    super::line_latency::pinned(first, || measure(first, second)).map(Some)
}

fn measure(first: usize, second: usize) -> Result<f64, MeasureError> {
    let shape = Shape::new(16 << 10, 8);
    let sizes = [64 << 10, 256 << 10, 1 << 20];
    let mut memory = Memory::map(1 << 20)?;
    let mut partner = Partner::start(&mut memory, Some((first, second)))?;
    let mut logarithms = Vec::new();
    for bytes in sizes {
        for kind in [Kind::TwoCopy, Kind::TwoCopyStream] {
            let mut ratios = Vec::new();
            for _ in 0..ROUNDS {
                let mut time = |copies| {
                    let order = Order {
                        kind,
                        bytes,
                        shape,
                        copies,
                        iterations: ITERATIONS * (64 << 10) / bytes as u64 + 1,
                    };
                    timed(&order, &mut memory, &mut partner).map_err(into_error)
                };
                let by_vectors = time(Copies::Vector)?;
                let by_string = time(Copies::RepMovsb)?;
                ratios.push(by_vectors.as_secs_f64() / by_string.as_secs_f64().max(1e-9));
            }
            logarithms.push(Spread::of(&ratios).median.ln());
        }
    }
    partner.stop()?;
    Ok((logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}
