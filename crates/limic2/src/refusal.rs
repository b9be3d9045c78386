//! Why a call gave 0 or -1.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// An errno for the program, and a line for people.
#[derive(Debug)]
pub(crate) struct Refusal {
    errno: i32,
    text: Cow<'static, str>,
}

/// The first refusal of the process is shown; with `LIMIC_LOG`, each.
static SHOWN: AtomicBool = AtomicBool::new(false);

fn all_shown() -> bool {
    std::env::var_os("LIMIC_LOG").is_some_and(|level| level != "off")
}

/// One line on standard error. Where nobody reads it (a closed pipe, a full disk) the line is lost:
/// the call's result says the rest, and a panic, which `eprintln!` would make of it, must not leave
/// a C function.
fn say(line: fmt::Arguments<'_>) {
    let _unread = writeln!(io::stderr(), "limic2: {line}");
}

impl Refusal {
    #[cold]
    pub(crate) fn new(errno: i32, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            errno,
            text: text.into(),
        }
    }

    pub(crate) fn invalid(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(libc::EINVAL, text)
    }

    /// A handle that is not prepared, or not any more.
    pub(crate) fn stale(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(libc::ESTALE, text)
    }

    /// Shows the line, if all are to be shown, and what happens now; the call goes on.
    #[cold]
    pub(crate) fn note(&self, instead: &str) {
        if all_shown() {
            say(format_args!("{}: {instead}", self.text));
        }
    }

    /// Sets errno, and shows the line if nothing was shown before or all is to be.
    #[cold]
    pub(crate) fn report(self) {
        let all = all_shown();
        if all || !SHOWN.swap(true, Relaxed) {
            let more = if all {
                ""
            } else {
                " (LIMIC_LOG=warn shows further ones)"
            };
            say(format_args!("{}{more}", self.text));
        }
        // SAFETY: the address of this thread's errno is always valid.
        unsafe { *libc::__errno_location() = self.errno };
    }
}
