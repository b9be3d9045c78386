//! Memory on the adapter, and host memory behind the same trait where the adapter has none.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::sys;

use super::domain::ProtectionDomain;
use super::memory::{Access, Bytes, MemoryRegion};
use super::work::LocalSlice;
use crate::VerbsError;
use crate::error::leaked;

/// A registered area that packed messages are staged in and forwarded from.
pub trait AdapterMemory: Send {
    /// Bytes.
    fn len(&self) -> usize;

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it lies on the adapter.
    fn on_adapter(&self) -> bool;

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`VerbsError::Limit`] if they do not fit, [`VerbsError::Call`].
    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), VerbsError>;

    /// Copies bytes out.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn read(&self, at: usize, into: &mut [u8]) -> Result<(), VerbsError>;

    /// A part of it for a work request. `None` if it lies outside.
    fn slice(&self, at: usize, len: usize) -> Option<LocalSlice>;

    /// The key for peers.
    fn remote_key(&self) -> u32;
}

fn inside(at: usize, len: usize, room: usize) -> Result<(), VerbsError> {
    if at <= room && len <= room - at {
        return Ok(());
    }
    Err(VerbsError::Limit {
        device: "this area".to_owned(),
        what: "bytes",
        wanted: (at as u64).saturating_add(len as u64),
        most: room as u64,
    })
}

/// Adapters copy whole words, from a multiple of their length on.
const WORD: usize = 4;

/// Bytes between a range and the whole words that it lies in, before and behind it.
fn edges(at: usize, len: usize) -> (usize, usize) {
    let end = at + len;
    (at % WORD, end.next_multiple_of(WORD) - end)
}

/// Memory of the adapter itself.
#[derive(Debug)]
pub struct DeviceMemory {
    region: NonNull<sys::ibv_mr>,
    memory: NonNull<sys::ibv_dm>,
    len: usize,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs allows calls on device memory from any thread.
unsafe impl Send for DeviceMemory {}

/// The region starts at 0 as work requests count (`IBV_ACCESS_ZERO_BASED`); with local write,
/// remote read and write.
const ZERO_BASED: u32 = 1 << 5 | 1 | 2 | 4;

impl DeviceMemory {
    /// Allocates and registers.
    ///
    /// # Errors
    /// [`VerbsError::Limit`] where the adapter has no (or too little) memory, [`VerbsError::Call`].
    pub fn new(domain: &Arc<ProtectionDomain>, len: usize) -> Result<Self, VerbsError> {
        let context = domain.context();
        let most = context.limits().device_memory;
        let room = len.next_multiple_of(WORD);
        if room as u64 > most || len == 0 {
            return Err(VerbsError::Limit {
                device: context.name().to_owned(),
                what: "bytes of device memory",
                wanted: len as u64,
                most,
            });
        }
        let mut attr = sys::ibv_alloc_dm_attr {
            length: room,
            log_align_req: 6,
            comp_mask: 0,
        };
        // SAFETY: a live context, which the domain keeps open.
        let memory = unsafe { sys::ibv_alloc_dm(context.raw(), &raw mut attr) };
        let memory = NonNull::new(memory).ok_or_else(|| VerbsError::last("ibv_alloc_dm"))?;
        // SAFETY: the memory just made, whole.
        let region =
            unsafe { sys::ibv_reg_dm_mr(domain.raw(), memory.as_ptr(), 0, room, ZERO_BASED) };
        let Some(region) = NonNull::new(region) else {
            let error = VerbsError::last("ibv_reg_dm_mr");
            // SAFETY: made above, used by nothing.
            let returned = unsafe { sys::ibv_free_dm(memory.as_ptr()) };
            if returned != 0 {
                leaked("ibv_free_dm", returned);
            }
            return Err(error);
        };
        Ok(Self {
            region,
            memory,
            len,
            _domain: Arc::clone(domain),
        })
    }
}

impl DeviceMemory {
    /// Copies whole words in, which lie in the memory.
    fn copy_in(&mut self, at: usize, words: &[u8]) -> Result<(), VerbsError> {
        // SAFETY: inside the memory, as callers have checked.
        let returned = unsafe {
            sys::ibv_memcpy_to_dm(
                self.memory.as_ptr(),
                at as u64,
                words.as_ptr().cast(),
                words.len(),
            )
        };
        VerbsError::check("ibv_memcpy_to_dm", returned)
    }

    /// Copies whole words out.
    fn copy_out(&self, at: usize, words: &mut [u8]) -> Result<(), VerbsError> {
        // SAFETY: inside the memory, as callers have checked.
        let returned = unsafe {
            sys::ibv_memcpy_from_dm(
                words.as_mut_ptr().cast(),
                self.memory.as_ptr(),
                at as u64,
                words.len(),
            )
        };
        VerbsError::check("ibv_memcpy_from_dm", returned)
    }
}

impl AdapterMemory for DeviceMemory {
    fn len(&self) -> usize {
        self.len
    }

    fn on_adapter(&self) -> bool {
        true
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), VerbsError> {
        inside(at, bytes.len(), self.len)?;
        let (head, tail) = edges(at, bytes.len());
        if (head, tail) == (0, 0) {
            return self.copy_in(at, bytes);
        }
        let start = at - head;
        let mut words = vec![0; head + bytes.len() + tail];
        let last = words.len().saturating_sub(WORD);
        if head > 0 {
            self.copy_out(start, &mut words[..WORD])?;
        }
        if tail > 0 {
            self.copy_out(start + last, &mut words[last..])?;
        }
        words[head..head + bytes.len()].copy_from_slice(bytes);
        self.copy_in(start, &words)
    }

    fn read(&self, at: usize, into: &mut [u8]) -> Result<(), VerbsError> {
        inside(at, into.len(), self.len)?;
        let (head, tail) = edges(at, into.len());
        if (head, tail) == (0, 0) {
            return self.copy_out(at, into);
        }
        let mut words = vec![0; head + into.len() + tail];
        self.copy_out(at - head, &mut words)?;
        into.copy_from_slice(&words[head..head + into.len()]);
        Ok(())
    }

    fn slice(&self, at: usize, len: usize) -> Option<LocalSlice> {
        inside(at, len, self.len).ok()?;
        Some(LocalSlice {
            start: at as u64,
            len: u32::try_from(len).ok()?,
            // SAFETY: a live region; the key never changes.
            key: unsafe { (*self.region.as_ptr()).lkey },
        })
    }

    fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.region.as_ptr()).rkey }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: both made once and given back once, the region before its memory.
        let returned = unsafe { sys::ibv_dereg_mr(self.region.as_ptr()) };
        if returned != 0 {
            leaked("ibv_dereg_mr", returned);
            return;
        }
        // SAFETY: as above.
        let returned = unsafe { sys::ibv_free_dm(self.memory.as_ptr()) };
        if returned != 0 {
            leaked("ibv_free_dm", returned);
        }
    }
}

/// The same in the host's memory: what adapters without memory of their own get, by the same code.
#[derive(Debug)]
pub struct HostMemory(MemoryRegion<Bytes>);

impl HostMemory {
    /// Allocates and registers.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn new(domain: &Arc<ProtectionDomain>, len: usize) -> Result<Self, VerbsError> {
        let access = Access::LOCAL | Access::REMOTE_READ | Access::REMOTE_WRITE;
        MemoryRegion::new(domain, Bytes::zeroed(len)?, access).map(Self)
    }
}

impl AdapterMemory for HostMemory {
    fn len(&self) -> usize {
        self.0.registration().len()
    }

    fn on_adapter(&self) -> bool {
        false
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), VerbsError> {
        inside(at, bytes.len(), self.len())?;
        self.0.memory_mut().write(at, bytes);
        Ok(())
    }

    fn read(&self, at: usize, into: &mut [u8]) -> Result<(), VerbsError> {
        inside(at, into.len(), self.len())?;
        self.0.memory().read(at, into);
        Ok(())
    }

    fn slice(&self, at: usize, len: usize) -> Option<LocalSlice> {
        LocalSlice::of(self.0.registration(), at, len)
    }

    fn remote_key(&self) -> u32 {
        self.0.registration().remote_key()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Context, devices};
    use super::*;
    use crate::fake::{Nature, adapters};

    #[test]
    fn bytes_between_words_are_copied_too() {
        let with_memory = Nature {
            device_memory: 64,
            ..Nature::PLAIN
        };
        adapters(&[with_memory]);
        let context = Context::open(&devices().unwrap()[0]).unwrap();
        let domain = ProtectionDomain::new(&context).unwrap();
        let mut memory = DeviceMemory::new(&domain, 30).unwrap();
        let mut expected = [0; 30];
        for (round, (at, len)) in [(0, 30), (0, 8), (1, 2), (3, 2), (5, 25), (28, 2), (9, 0)]
            .into_iter()
            .enumerate()
        {
            let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + round) as u8 + 1).collect();
            memory.write(at, &bytes).unwrap();
            expected[at..at + len].copy_from_slice(&bytes);
            let mut all = [0; 30];
            memory.read(0, &mut all).unwrap();
            assert_eq!(all, expected, "{len} bytes at {at}");
            let mut some = vec![0; len];
            memory.read(at, &mut some).unwrap();
            assert_eq!(some, bytes);
        }
        assert!(memory.write(29, &[0; 2]).is_err(), "behind the end");
    }
}
