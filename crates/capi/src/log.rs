//! What the library has to say beside its return values.

use core::cell::Cell;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};
use std::ffi::CString;

use limic_ffi::text_of;
use limic_shm::process::LockHere;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::errors::Failure;
use crate::errors::limic_error::{LIMIC_ERR_BUSY, LIMIC_ERR_INVALID, LIMIC_ERR_SYSTEM};
use crate::ffi_guard::guarded;

/// As a level of `limic_log_to`: something does not work.
pub const LIMIC_LOG_ERROR: c_int = 1;
/// As a level of `limic_log_to`: something to be looked at. Without a function, some of these go to
/// standard error (`LIMIC_LOG=off` ends that).
pub const LIMIC_LOG_WARNING: c_int = 2;
/// As a level of `limic_log_to`: worth knowing.
pub const LIMIC_LOG_INFO: c_int = 3;
/// As a level of `limic_log_to`: for those who look for a fault.
pub const LIMIC_LOG_DEBUG: c_int = 4;

/// A function that gets the lines of the log: what `limic_log_to` was given as `context`, the
/// line's level, and the line, without an end of line, valid during the call.
pub type limic_log_function =
    Option<unsafe extern "C" fn(context: *mut c_void, level: c_int, text: *const c_char)>;

/// Where lines go.
#[derive(Clone, Copy)]
struct Sink {
    function: unsafe extern "C" fn(*mut c_void, c_int, *const c_char),
    context: *mut c_void,
}

// SAFETY: the address is handed back to C and never used; limic.h says that the function is called
// by any thread.
unsafe impl Send for Sink {}

/// Locked while the function runs: so none runs any more when another one is set.
static SINK: LockHere<Option<Sink>> = LockHere::new(None);

/// Lines up to this level are wanted.
static LEVEL: AtomicI32 = AtomicI32::new(0);

thread_local! {
    /// This thread is inside of the function.
    static TELLS: Cell<bool> = const { Cell::new(false) };
}

/// Has `function` get the lines of the log up to `level`, in place of the function before. There is
/// one for the process; the threads that call it are those that are inside of the library, one at a
/// time, and none any more for the function before when this returns.
///
/// - `function`: must call nothing of the library but `limic_strerror`, return (no exception, no
///   `longjmp`), not fork, and wait for nothing that a caller of the library holds: it may run in
///   the middle of any call, and other threads wait for it; NULL for none.
/// - `context`: the function's first argument; the library does not look at it.
/// - `level`: `LIMIC_LOG_ERROR` to `LIMIC_LOG_DEBUG`. No message costs more by it.
///
/// ```c
/// static void tell(void *program, int level, const char *text)
/// {
///     fprintf(stderr, "%s: limic (%d): %s\n", (const char *)program, level, text);
/// }
///
/// limic_log_to(tell, argv[0], LIMIC_LOG_WARNING);
/// ```
///
/// Errors: `LIMIC_ERR_INVALID` for another level; `LIMIC_ERR_BUSY` from inside of the function;
/// `LIMIC_ERR_SYSTEM` if the library is a part of a Rust program that has the log.
///
/// # Safety
/// `function` is NULL, or may be called with `context` by any thread until another one is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_log_to(
    function: limic_log_function,
    context: *mut c_void,
    level: c_int,
) -> c_int {
    guarded(|| {
        if function.is_some() && !(LIMIC_LOG_ERROR..=LIMIC_LOG_DEBUG).contains(&level) {
            let text = format!("level {level}: LIMIC_LOG_ERROR to LIMIC_LOG_DEBUG are known");
            return Err(Failure::new(LIMIC_ERR_INVALID, text));
        }
        if TELLS.get() {
            let text = "the function that gets the log asks for another one";
            return Err(Failure::new(LIMIC_ERR_BUSY, text));
        }
        let mut sink = SINK.lock();
        // Once, and not for nothing; what is not ours asks for no lines of the function.
        let is_new = function.is_some() && set_global_default(Lines).is_ok();
        let ours = is_new || tracing::dispatcher::get_default(|all| all.is::<Lines>());
        if !ours && function.is_some() {
            let text = "another subscriber of the crate tracing has the log of this process";
            return Err(Failure::new(LIMIC_ERR_SYSTEM, text));
        }
        *sink = function.map(|function| Sink { function, context });
        LEVEL.store(sink.map_or(0, |_| level), Ordering::Relaxed);
        Ok(())
    })
}

/// Events become lines; there are no spans.
struct Lines;

fn level_of(metadata: &Metadata<'_>) -> c_int {
    match *metadata.level() {
        Level::ERROR => LIMIC_LOG_ERROR,
        Level::WARN => LIMIC_LOG_WARNING,
        Level::INFO => LIMIC_LOG_INFO,
        Level::DEBUG => LIMIC_LOG_DEBUG,
        _ => c_int::MAX,
    }
}

impl Subscriber for Lines {
    // The level may change.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        level_of(metadata) <= LEVEL.load(Ordering::Relaxed)
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        // What the function has said, by a call that it must not make.
        if TELLS.get() {
            return;
        }
        // None is left in it.
        let text = CString::new(text_of(event).replace('\0', " ")).unwrap_or_default();
        let sink = SINK.lock();
        if let Some(Sink { function, context }) = *sink {
            TELLS.set(true);
            // SAFETY: C promised that any thread may call it with this until another one is set,
            // which the lock keeps off.
            unsafe { function(context, level_of(event.metadata()), text.as_ptr()) };
            TELLS.set(false);
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
