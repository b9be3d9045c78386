// SPDX-License-Identifier: GPL-2.0

//! `/dev/limic`: registration, and the way from a system call to a session.

use crate::THIS_MODULE;
use crate::abi;
use crate::ffi;
use crate::session::{Session, Shared};
use kernel::bindings;
use kernel::error::to_result;
use kernel::fs::{File, LocalFile};
use kernel::miscdevice::{MiscDevice, MiscDeviceOptions, MiscDeviceRegistration};
use kernel::mm::virt::VmaNew;
use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::seq_print;
use kernel::sync::Arc;
use kernel::sync::poll::PollTable;
use kernel::transmute::{AsBytes, FromBytes};
use kernel::types::{ForeignOwnable, Opaque};
use kernel::uaccess::{UserPtr, UserSlice};

const OPTIONS: MiscDeviceOptions = MiscDeviceOptions { name: c"limic" };

/// A table of C function pointers in a static.
#[repr(transparent)]
struct Operations(bindings::file_operations);

// SAFETY: it is never written, and the functions in it may be called from any task.
unsafe impl Sync for Operations {}

/// The table of the kernel's Rust abstraction, with two additions: the owner, so that the module
/// stays as long as a file is open (the abstraction sets none), and poll.
static OPERATIONS: Operations = {
    let raw = OPTIONS.into_raw::<Session>();
    // SAFETY: `into_raw` stores a pointer to a table that lives for ever.
    let mut operations = unsafe { *raw.fops };
    operations.owner = THIS_MODULE.as_ptr();
    operations.poll = Some(poll);
    Operations(operations)
};

/// The registered device.
///
/// # Invariants
/// `misc` is registered as long as this lives, and comes first, so that its address is that of the
/// whole.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(crate) struct Device {
    #[pin]
    misc: Opaque<bindings::miscdevice>,
    shared: Arc<Shared>,
}

// SAFETY: a registration may be given up by another task than the one that made it.
unsafe impl Send for Device {}
// SAFETY: what can be reached through a shared device is the `Arc`.
unsafe impl Sync for Device {}

impl Device {
    pub(crate) fn register(shared: Arc<Shared>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // Before the device is there, since a file may be opened at once.
            shared: shared,
            misc <- Opaque::try_ffi_init(|slot: *mut bindings::miscdevice| {
                let mut misc = OPTIONS.into_raw::<Session>();
                misc.fops = &OPERATIONS.0;
                misc.mode = 0o660;
                // SAFETY: the slot may be written.
                unsafe { slot.write(misc) };
                // SAFETY: it was just filled in, and is pinned until `drop` takes the registration
                // back.
                to_result(unsafe { bindings::misc_register(slot) })
            }),
        })
    }
}

#[pinned_drop]
impl PinnedDrop for Device {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: registered by the invariant.
        unsafe { bindings::misc_deregister(self.misc.get()) };
        // SAFETY: no preconditions. No file is open any more, so all watches were stopped.
        unsafe { ffi::limic_mm_watches_freed() };
    }
}

#[vtable]
impl MiscDevice for Session {
    type Ptr = Pin<KBox<Self>>;

    fn open(file: &File, misc: &MiscDeviceRegistration<Self>) -> Result<Self::Ptr> {
        let device = core::ptr::from_ref(misc).cast::<Device>();
        // SAFETY: the only registration with this table is the one in a `Device`, where by the
        // invariant it comes first. It stays while `misc_open` runs.
        let device = unsafe { &*device };
        Session::open(file, device.shared.clone())
    }

    fn mmap(session: Pin<&Self>, _file: &File, vma: &VmaNew) -> Result {
        let _call = session.begin_call()?;
        match ffi::vma_offset(vma) {
            0 => session.requests()?.events.map(vma),
            abi::LATCH_OFFSET => session.map_latches(vma),
            _ => Err(EINVAL),
        }
    }

    fn ioctl(session: Pin<&Self>, _file: &File, command: u32, arg: usize) -> Result<isize> {
        let session = session.get_ref();
        if command == abi::IOC_END {
            return session.end_by_owner().map(|()| 0);
        }
        let _call = session.begin_call()?;
        let arg = UserPtr::from_addr(arg);
        // Each of them has a frame of its own (they are not inlined), so that the stack holds the
        // largest and not the sum.
        match command {
            abi::IOC_PING => Ok(()),
            abi::IOC_COPY => update_always(arg, |it| session.copy(it)),
            abi::IOC_SEND => update(arg, |it| session.send(it)),
            abi::IOC_RECV => update(arg, |it| session.recv(it)),
            abi::IOC_PROBE => update(arg, |it| session.probe(it)),
            abi::IOC_WAIT => update(arg, |it| session.wait(it)),
            abi::IOC_CANCEL => read(arg).and_then(|it| session.cancel(&it)),
            abi::IOC_EXPOSE => {
                let mut handle = 0;
                let result = update(arg, |it: &mut abi::Expose| {
                    session.expose(it)?;
                    handle = it.handle;
                    Ok(())
                });
                if result.is_err() && handle != 0 {
                    // The structure went during the call. Nobody knows the handle, so nobody could
                    // revoke it.
                    session.unexpose(handle);
                }
                result
            }
            abi::IOC_REVOKE => read(arg).and_then(|it| session.revoke(&it)),
            abi::IOC_HELLO => update_always(arg, |it| session.hello(it)),
            abi::IOC_JOIN => update(arg, |it| session.join(it)),
            abi::IOC_MEMBER => update(arg, |it| session.member_state(it)),
            _ => Err(ENOTTY),
        }?;
        Ok(0)
    }

    fn show_fdinfo(session: Pin<&Self>, m: &SeqFile, _file: &File) {
        let exposures = session.own().len();
        seq_print!(m, "limic-exposures:\t{exposures}\n");
        if let Ok(requests) = session.requests() {
            let pending = requests.iter().filter(|it| it.is_pending()).count();
            seq_print!(m, "limic-slots:\t{}\n", requests.len());
            seq_print!(m, "limic-pending:\t{pending}\n");
        }
        if let Some(member) = session.membership() {
            seq_print!(
                m,
                "limic-rank:\t{} of {}\n",
                member.rank,
                member.group.size()
            );
        }
    }
}

/// Reads the structure of a call, once.
fn read<T: FromBytes>(arg: UserPtr) -> Result<T> {
    UserSlice::new(arg, size_of::<T>()).reader().read()
}

fn write<T: AsBytes>(arg: UserPtr, value: &T) -> Result {
    UserSlice::new(arg, size_of::<T>()).writer().write(value)
}

/// Reads the structure of a call that gives it back: written once before the call does anything,
/// since what it did could not be told where that fails.
fn read_writable<T: FromBytes + AsBytes>(arg: UserPtr) -> Result<T> {
    let value = read(arg)?;
    write(arg, &value)?;
    Ok(value)
}

/// A call that gives its structure back if it succeeds.
fn update<T: FromBytes + AsBytes>(arg: UserPtr, call: impl FnOnce(&mut T) -> Result) -> Result {
    let mut value = read_writable(arg)?;
    call(&mut value)?;
    write(arg, &value)
}

/// A call that gives its structure back in any case.
fn update_always<T: FromBytes + AsBytes>(
    arg: UserPtr,
    call: impl FnOnce(&mut T) -> Result,
) -> Result {
    let mut value = read_writable(arg)?;
    let result = call(&mut value);
    write(arg, &value)?;
    result
}

/// Lets `ask` look at the session behind a descriptor of the calling process, whoever's session it
/// is. EBADF if it is no descriptor of this device.
pub(crate) fn with_session<R>(fd: i32, ask: impl FnOnce(&Session) -> R) -> Result<R> {
    let file = LocalFile::fget(u32::try_from(fd).map_err(|_| EBADF)?)?;
    // SAFETY: the reference keeps the file, and its operations are set once, when it is opened.
    let operations = unsafe { (*file.as_ptr()).f_op };
    if !core::ptr::eq(operations, &OPERATIONS.0) {
        return Err(EBADF);
    }
    // SAFETY: an open file of this device, where a session is stored from open to release, which
    // the reference holds off.
    let session = unsafe {
        let stored = (*file.as_ptr()).private_data;
        <Pin<KBox<Session>> as ForeignOwnable>::borrow(stored)
    };
    Ok(ask(session.get_ref()))
}

/// # Safety
/// Called by the kernel for an open file of this device.
unsafe extern "C" fn poll(
    file: *mut bindings::file,
    table: *mut bindings::poll_table_struct,
) -> bindings::__poll_t {
    // SAFETY: a session is stored there from open to release.
    let session = unsafe { <Pin<KBox<Session>> as ForeignOwnable>::borrow((*file).private_data) };
    // SAFETY: the file is open during the call, and nobody holds its position lock on this task.
    let file = unsafe { File::from_raw_file(file) };
    // SAFETY: the kernel passes a valid table or null.
    let table = unsafe { PollTable::from_raw(table) };
    let Ok(requests) = session.check_owner().and_then(|()| session.requests()) else {
        return bindings::POLLERR | bindings::POLLHUP;
    };
    let events = &requests.events;
    table.register_wait(file, events.poll_wake());
    let mut ready = 0;
    if events.has_news() {
        ready |= bindings::POLLIN | bindings::POLLRDNORM;
    }
    if events.ended() {
        ready |= bindings::POLLHUP;
    }
    ready
}
