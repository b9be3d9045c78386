//! Lines of text for people, through libfabric's own log (`FI_LOG_LEVEL`, `FI_LOG_PROV`).

use core::ffi::{c_char, c_int};
use core::fmt;
use std::ffi::CString;

use limic_ffi::text_of;
use limic_shm::process::ValueHere;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::{PROVIDER, core_library};
use limic_ofi_abi::fi_provider;

const FI_LOG_WARN: c_int = 0;
const FI_LOG_INFO: c_int = 2;
const FI_LOG_DEBUG: c_int = 3;
/// Subsystem `FI_LOG_EP_CTRL`.
const SUBSYSTEM: c_int = 3;

type Enabled = unsafe extern "C" fn(*const fi_provider, c_int, c_int) -> c_int;
type Log = unsafe extern "C" fn(
    *const fi_provider,
    c_int,
    c_int,
    *const c_char,
    c_int,
    *const c_char,
    ...
);

/// The two functions of libfabric that write its log.
struct Functions {
    enabled: Enabled,
    log: Log,
}

fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: ValueHere<Option<Functions>> = ValueHere::new();
    FUNCTIONS
        .get_or_make(|| {
            let enabled = core_library::symbol(c"fi_log_enabled");
            let log = core_library::symbol(c"fi_log");
            if enabled.is_null() || log.is_null() {
                return None;
            }
            // SAFETY: these symbols of libfabric have had these types since version 1.0.
            unsafe {
                Some(Functions {
                    enabled: core::mem::transmute::<*mut libc::c_void, Enabled>(enabled),
                    log: core::mem::transmute::<*mut libc::c_void, Log>(log),
                })
            }
        })
        .as_ref()
}

fn is_enabled(level: c_int) -> bool {
    // SAFETY: a function of libfabric with this provider's own record.
    functions().is_some_and(|f| unsafe { (f.enabled)(PROVIDER.0.get(), level, SUBSYSTEM) } != 0)
}

fn write(level: c_int, text: &dyn fmt::Display) {
    let Some(functions) = functions().filter(|_| is_enabled(level)) else {
        return;
    };
    let Ok(text) = CString::new(text.to_string()) else {
        return;
    };
    // SAFETY: the strings end with a zero; the format takes one string.
    unsafe {
        (functions.log)(
            PROVIDER.0.get(),
            level,
            SUBSYSTEM,
            c"limic".as_ptr(),
            0,
            c"%s\n".as_ptr(),
            text.as_ptr(),
        );
    }
}

/// Something is wrong; seen at `FI_LOG_LEVEL=warn`.
#[cold]
pub(crate) fn warn(text: &dyn fmt::Display) {
    write(FI_LOG_WARN, text);
}

/// Worth knowing; seen at `FI_LOG_LEVEL=info`.
#[cold]
pub(crate) fn info(text: &dyn fmt::Display) {
    write(FI_LOG_INFO, text);
}

/// From now on the transport's log lines come through libfabric's log too.
pub(crate) fn start() {
    // Fails if it was done before: libfabric may be initialised twice.
    let _ = tracing::subscriber::set_global_default(Lines);
}

/// Events become lines; there are no spans.
struct Lines;

fn level_of(metadata: &Metadata<'_>) -> c_int {
    match *metadata.level() {
        Level::ERROR | Level::WARN => FI_LOG_WARN,
        Level::INFO => FI_LOG_INFO,
        _ => FI_LOG_DEBUG,
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_enabled(level_of(metadata))
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        write(level_of(event.metadata()), &text_of(event));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
