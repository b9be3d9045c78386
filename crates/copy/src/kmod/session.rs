//! An open `/dev/limic`: a session of this address space with the kernel module.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;

use super::abi::{self, Call};
use super::latches::Latches;
use crate::{RefusalReason, Refused};

/// A session with the kernel module, for exposing and copying.
///
/// It belongs to the process that opened it: in a child after `fork`, and after `exec`, every call
/// fails with ESTALE. What it exposed ends with it.
#[derive(Debug)]
pub(crate) struct Session {
    device: OwnedFd,
    /// By this number others name the session.
    pub(crate) id: u64,
    /// What the module has beyond the first version of its interface.
    pub(crate) features: u64,
    /// Bytes that can be mapped, of a session with slots.
    pub(crate) status_bytes: u64,
    /// Of a session for exposing and copying, if the module has them.
    pub(crate) latches: Option<Latches>,
}

impl Session {
    /// Opens the device and agrees with the module on the version: a session for exposing and
    /// copying.
    pub(crate) fn open() -> Result<Self, Refused> {
        let mut session = Self::with(0, 0)?;
        if session.features & abi::FEATURE_LATCH != 0 {
            // Without them each message is exposed anew.
            session.latches = Latches::map(session.descriptor()).ok();
        }
        Ok(session)
    }

    /// Opens the device: a session with so many requests at a time, and unexpected messages.
    pub(crate) fn with(slots: u32, unexpected: u32) -> Result<Self, Refused> {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(abi::DEVICE)
            .map_err(|error| {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                let reason = match errno {
                    libc::ENOENT | libc::ENXIO | libc::ENODEV => RefusalReason::NoModule,
                    libc::EACCES | libc::EPERM => RefusalReason::DevicePermission,
                    libc::EMFILE | libc::ENFILE => RefusalReason::NoDescriptor,
                    _ => RefusalReason::Module,
                };
                Refused {
                    errno: Some(errno),
                    reason,
                }
            })?;
        let mut session = Self {
            device: device.into(),
            id: 0,
            features: 0,
            status_bytes: 0,
            latches: None,
        };
        let mut hello = abi::Hello {
            version: abi::VERSION,
            slots,
            unexpected,
            ..abi::Hello::default()
        };
        // SAFETY: the call touches `hello` alone.
        let said = unsafe { session.call(&mut hello) };
        said.map_err(|errno| Refused {
            errno: Some(errno),
            reason: match errno {
                libc::EPROTONOSUPPORT => RefusalReason::ModuleVersion {
                    theirs: hello.version,
                    ours: abi::VERSION,
                },
                // Another size of structure is another number of the call.
                libc::ENOTTY => RefusalReason::ModuleVersion {
                    theirs: 0,
                    ours: abi::VERSION,
                },
                libc::EMFILE => RefusalReason::TooManySessions,
                _ => RefusalReason::Module,
            },
        })?;
        session.id = hello.session;
        session.features = hello.features;
        session.status_bytes = hello.status_bytes;
        Ok(session)
    }

    /// One whose latches lie in a file, and whose calls are all refused.
    #[cfg(test)]
    pub(super) fn over_a_file() -> Self {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len((abi::LATCH_OFFSET as usize + abi::LATCH_BYTES) as u64)
            .expect("room for the latches");
        let device = OwnedFd::from(file);
        let latches = Latches::map(device.as_fd()).expect("a mapping");
        Self {
            device,
            id: 1,
            features: abi::FEATURE_LATCH,
            status_bytes: 0,
            latches: Some(latches),
        }
    }

    /// The descriptor: for poll, and for others to join this session's group.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// `flag`, which lets the module keep a buffer pinned behind a call, if this module knows it.
    pub(crate) fn keeping(&self, flag: u32) -> u32 {
        if self.features & abi::FEATURE_KEEP == 0 {
            0
        } else {
            flag
        }
    }

    /// A call that does nothing.
    pub(crate) fn trap(&self) -> Result<(), i32> {
        // SAFETY: this call takes no argument and touches no memory.
        let result = unsafe { libc::ioctl(self.device.as_raw_fd(), abi::PING as _) };
        if result < 0 {
            Err(Errno::last_raw())
        } else {
            Ok(())
        }
    }

    /// One call. The module ends a call early only for a fatal signal, so nothing is begun again
    /// here.
    ///
    /// # Safety
    /// What the structure names by address may be touched as the call says.
    pub(crate) unsafe fn call<C: Call>(&self, argument: &mut C) -> Result<(), i32> {
        // SAFETY: by `Call`, the number takes this structure; the rest is the caller's promise.
        let result = unsafe { libc::ioctl(self.device.as_raw_fd(), C::NUMBER as _, argument) };
        if result < 0 {
            Err(Errno::last_raw())
        } else {
            Ok(())
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.features & abi::FEATURE_END != 0 {
            // A forked child may hold the descriptor for longer. In that child the module refuses
            // it, and there the session goes with the descriptor.
            // SAFETY: this call takes no argument; the module touches no memory of the process
            // afterwards.
            unsafe { libc::ioctl(self.device.as_raw_fd(), abi::END as _) };
        }
    }
}
