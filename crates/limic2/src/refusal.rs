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

/// Whether the first refusal of the process was shown.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Which refusals are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    TheFirst,
    All,
}

impl Shown {
    /// What `LIMIC_LOG` asks for.
    fn asked() -> Self {
        Self::of(std::env::var("LIMIC_LOG").unwrap_or_default().trim())
    }

    fn of(level: &str) -> Self {
        let is = |name: &&str| level.eq_ignore_ascii_case(name);
        if ["off", "error"].iter().any(is) {
            Self::Nothing
        } else if level.is_empty() {
            Self::TheFirst
        } else {
            Self::All
        }
    }
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
        if Shown::asked() == Shown::All {
            say(format_args!("{}: {instead}", self.text));
        }
    }

    /// Sets errno, and shows the line if that is asked for.
    #[cold]
    pub(crate) fn report(self) {
        match Shown::asked() {
            Shown::All => say(format_args!("{}", self.text)),
            Shown::TheFirst if !SHOWN.swap(true, Relaxed) => say(format_args!(
                "{} (LIMIC_LOG=warn shows further ones, LIMIC_LOG=off none)",
                self.text
            )),
            Shown::TheFirst | Shown::Nothing => {}
        }
        // SAFETY: the address of this thread's errno is always valid.
        unsafe { *libc::__errno_location() = self.errno };
    }
}

#[cfg(test)]
mod tests {
    use super::Shown;

    #[test]
    fn the_log_level_says_which_refusals_are_shown() {
        let shown = ["", "off", "ERROR", "warn", "debug"].map(Shown::of);
        let (first, nothing, all) = (Shown::TheFirst, Shown::Nothing, Shown::All);
        assert_eq!(shown, [first, nothing, nothing, all, all]);
    }
}
