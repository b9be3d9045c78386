//! Error codes, their text, and the detail of the last error of a thread.

use core::cell::RefCell;
use core::ffi::{c_char, c_int};
use std::borrow::Cow;
use std::ffi::{CStr, CString};

use limic::Error;

/// What the functions return: `LIMIC_OK` or a negative code. `limic_strerror` gives its text,
/// `limic_last_error` what happened in particular.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum limic_error {
    /// It worked.
    LIMIC_OK = 0,
    /// A pointer is NULL that must not be.
    LIMIC_ERR_NULL = -1,
    /// The field `size` of a structure is 0 or too small, or a structure has set fields that this
    /// library does not know, or a buffer is too small for what it is to hold.
    LIMIC_ERR_SIZE = -2,
    /// An argument is out of range: an unknown enumeration value, a reserved tag or context, a
    /// length above `PTRDIFF_MAX`, a negative count.
    LIMIC_ERR_INVALID = -3,
    /// There is no such endpoint: never opened, or closed; or the handles of one call belong to
    /// different endpoints.
    LIMIC_ERR_ENDPOINT = -4,
    /// The endpoint is in the hands of another thread.
    LIMIC_ERR_THREAD = -5,
    /// The endpoint is inside of another call of this thread: this is a signal handler.
    LIMIC_ERR_BUSY = -6,
    /// The endpoint belongs to the process that this one was forked from.
    LIMIC_ERR_FORKED = -7,
    /// The request, message, loan or region is not known (any more): completed, used or given back
    /// already.
    LIMIC_ERR_REQUEST = -8,
    /// Not within the time given. Nothing was consumed: the request is still pending.
    LIMIC_ERR_TIMEOUT = -9,
    /// The message was longer than the room for it. What fits was delivered; `limic_status.length`
    /// is the full length.
    LIMIC_ERR_TRUNCATED = -10,
    /// The operation was cancelled before it matched.
    LIMIC_ERR_CANCELLED = -11,
    /// The other side is gone: its process ended, or it closed its endpoint. `limic_status.source`
    /// names it.
    LIMIC_ERR_PEER_FAILED = -12,
    /// The endpoint never handed out this peer, or the job does not have this rank.
    LIMIC_ERR_UNKNOWN_PEER = -13,
    /// The bytes are not the address of an endpoint.
    LIMIC_ERR_ADDRESS = -14,
    /// The peer exposes no region under this key (any more), or a peer is in the middle of an
    /// access to a region of this endpoint that is to be revoked.
    LIMIC_ERR_REGION = -15,
    /// The access reaches outside of the region, or is longer than the loan.
    LIMIC_ERR_RANGE = -16,
    /// No path can carry the message.
    LIMIC_ERR_NO_PATH = -17,
    /// Memory, or a table of fixed size, is used up.
    LIMIC_ERR_NO_MEMORY = -18,
    /// The operating system refused something.
    LIMIC_ERR_SYSTEM = -19,
    /// A setting (environment, file, or `limic_options.settings`) makes no sense.
    LIMIC_ERR_SETTINGS = -20,
    /// The job's start-up failed.
    LIMIC_ERR_STARTUP = -21,
    /// The endpoint was not opened by `limic_world_open`.
    LIMIC_ERR_NOT_WORLD = -22,
    /// A fault in this library. The endpoint takes no further calls but `limic_endpoint_close`.
    /// Until that has returned, buffers of its operations may still be written, also of a call that
    /// waited in another thread and gives this code.
    LIMIC_ERR_INTERNAL = -23,
}

use limic_error::*;

impl limic_error {
    const ALL: [Self; 24] = [
        LIMIC_OK,
        LIMIC_ERR_NULL,
        LIMIC_ERR_SIZE,
        LIMIC_ERR_INVALID,
        LIMIC_ERR_ENDPOINT,
        LIMIC_ERR_THREAD,
        LIMIC_ERR_BUSY,
        LIMIC_ERR_FORKED,
        LIMIC_ERR_REQUEST,
        LIMIC_ERR_TIMEOUT,
        LIMIC_ERR_TRUNCATED,
        LIMIC_ERR_CANCELLED,
        LIMIC_ERR_PEER_FAILED,
        LIMIC_ERR_UNKNOWN_PEER,
        LIMIC_ERR_ADDRESS,
        LIMIC_ERR_REGION,
        LIMIC_ERR_RANGE,
        LIMIC_ERR_NO_PATH,
        LIMIC_ERR_NO_MEMORY,
        LIMIC_ERR_SYSTEM,
        LIMIC_ERR_SETTINGS,
        LIMIC_ERR_STARTUP,
        LIMIC_ERR_NOT_WORLD,
        LIMIC_ERR_INTERNAL,
    ];

    const fn text(self) -> &'static CStr {
        match self {
            LIMIC_OK => c"no error",
            LIMIC_ERR_NULL => c"a pointer is NULL",
            LIMIC_ERR_SIZE => c"a structure's size field or a buffer's length is wrong",
            LIMIC_ERR_INVALID => c"an argument is out of range",
            LIMIC_ERR_ENDPOINT => c"no such endpoint, or handles of different endpoints",
            LIMIC_ERR_THREAD => c"the endpoint is in the hands of another thread",
            LIMIC_ERR_BUSY => c"the endpoint is inside of another call of this thread",
            LIMIC_ERR_FORKED => c"the endpoint belongs to the parent process",
            LIMIC_ERR_REQUEST => {
                c"the request, message, loan or region is unknown, completed or given back"
            }
            LIMIC_ERR_TIMEOUT => c"not within the time given",
            LIMIC_ERR_TRUNCATED => c"the message was longer than the buffer",
            LIMIC_ERR_CANCELLED => c"the operation was cancelled",
            LIMIC_ERR_PEER_FAILED => c"the peer is gone",
            LIMIC_ERR_UNKNOWN_PEER => c"there is no such peer or rank",
            LIMIC_ERR_ADDRESS => c"the bytes are not the address of an endpoint",
            LIMIC_ERR_REGION => {
                c"the peer exposes no region under this key, or one of this endpoint is in use"
            }
            LIMIC_ERR_RANGE => c"the access reaches outside of the region or loan",
            LIMIC_ERR_NO_PATH => c"no path can carry the message",
            LIMIC_ERR_NO_MEMORY => c"memory or a table is used up",
            LIMIC_ERR_SYSTEM => c"the operating system refused something",
            LIMIC_ERR_SETTINGS => c"a setting makes no sense",
            LIMIC_ERR_STARTUP => c"the job's start-up failed",
            LIMIC_ERR_NOT_WORLD => c"the endpoint was not opened by limic_world_open",
            LIMIC_ERR_INTERNAL => c"a fault in limic",
        }
    }

    /// The code of an error of the transport.
    pub(crate) const fn of(error: &Error) -> Self {
        match error {
            Error::Truncated { .. } => LIMIC_ERR_TRUNCATED,
            Error::Cancelled => LIMIC_ERR_CANCELLED,
            Error::PeerFailed { .. } => LIMIC_ERR_PEER_FAILED,
            Error::UnknownPeer { .. } | Error::RankOutOfRange { .. } => LIMIC_ERR_UNKNOWN_PEER,
            Error::BadAddress(_) => LIMIC_ERR_ADDRESS,
            Error::UnknownRequest => LIMIC_ERR_REQUEST,
            Error::UnknownRegion { .. } | Error::RegionInUse { .. } => LIMIC_ERR_REGION,
            Error::OutOfRegion { .. } => LIMIC_ERR_RANGE,
            Error::NoPath { .. } | Error::NoCommonNetwork(_) => LIMIC_ERR_NO_PATH,
            Error::NoMemory(_) => LIMIC_ERR_NO_MEMORY,
            Error::Settings(_) => LIMIC_ERR_SETTINGS,
            Error::Bootstrap(_) => LIMIC_ERR_STARTUP,
            // Segment, System, and what a later version of the transport adds.
            _ => LIMIC_ERR_SYSTEM,
        }
    }
}

/// Why a call failed: the code, and what is to be read about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: limic_error,
    pub(crate) detail: Cow<'static, str>,
}

impl Failure {
    #[cold]
    pub(crate) fn new(code: limic_error, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            detail: detail.into(),
        }
    }

    /// A pointer that must not be NULL is.
    #[cold]
    pub(crate) fn null(what: &str) -> Self {
        Self::new(LIMIC_ERR_NULL, format!("{what} is NULL"))
    }

    /// Keeps the detail for `limic_last_error`, if there is one, and gives the code.
    #[cold]
    pub(crate) fn report(self) -> c_int {
        if self.detail.is_empty() {
            // A signal handler's: an allocator may be what it has interrupted.
            return self.code as c_int;
        }
        // A thread that is ending has no last error any more; the code is there in any case.
        let _ = LAST.try_with(|last| {
            if let Ok(mut last) = last.try_borrow_mut() {
                let bytes: Vec<u8> = self.detail.bytes().filter(|byte| *byte != 0).collect();
                *last = CString::new(bytes).unwrap_or_default();
            }
        });
        self.code as c_int
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        Self::new(limic_error::of(&error), error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// The text of an error code: one line, never NULL, also for a number that is no code. The memory
/// is the library's and stays valid.
#[unsafe(no_mangle)]
pub extern "C" fn limic_strerror(code: c_int) -> *const c_char {
    limic_error::ALL
        .into_iter()
        .find(|known| *known as c_int == code)
        .map_or(c"unknown error code", limic_error::text)
        .as_ptr()
}

/// What went wrong in the last call of this thread that failed: with the peer, the lengths, the
/// system's error and what to do, as far as they are known. Never NULL; empty if no call failed
/// yet. A call in a signal handler that gives `LIMIC_ERR_BUSY` leaves it as it is.
///
/// The memory is the library's. It stays valid until the next call of this thread that fails, or
/// the thread ends.
#[unsafe(no_mangle)]
pub extern "C" fn limic_last_error() -> *const c_char {
    let last = LAST.try_with(|last| last.try_borrow().map(|text| text.as_ptr()));
    match last {
        Ok(Ok(text)) => text,
        _ => c"".as_ptr(),
    }
}

/// The version of the interface that the library has: major version * 65536 + minor version. A
/// program that was built with an older minor version of the same major version runs with it:
/// compare with `LIMIC_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn limic_version() -> u32 {
    LIMIC_VERSION
}

/// The version of the interface that this header describes: major version * 65536 + minor version.
pub const LIMIC_VERSION: u32 = 0x0001_0001;
