//! The kernel's fault injection: allocations that fail for the threads that ask for it.

use std::fs;
use std::io;

const FOLDER: &str = "/sys/kernel/debug";
/// Small objects, and pages.
const KINDS: [&str; 2] = ["failslab", "fail_page_alloc"];

/// Of a hundred allocations, so many fail.
const PERCENT: &str = "3";

/// Armed until dropped.
#[derive(Debug)]
pub(crate) struct Faults(());

impl Faults {
    /// Arms both kinds, for no thread yet.
    ///
    /// # Errors
    /// The kernel has no fault injection.
    pub(crate) fn arm() -> io::Result<Self> {
        let armed = Self(());
        for kind in KINDS {
            // Also allocations that may sleep, which are all but a few; without a stack trace for each.
            let settings = [
                ("task-filter", "Y"),
                ("ignore-gfp-wait", "N"),
                ("verbose", "0"),
                ("interval", "1"),
                ("times", "-1"),
                ("probability", PERCENT),
            ];
            for (name, value) in settings {
                set(kind, name, value)?;
            }
        }
        set("fail_page_alloc", "min-order", "0")?;
        Ok(armed)
    }

    /// Allocations that this thread makes from now on may fail, in whatever call.
    pub(crate) fn hit_this_thread(&self) {
        // In a process that is meant to perish: without it, fewer allocations fail, and the test counts them.
        let _ = fs::write("/proc/thread-self/make-it-fail", "1");
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        for kind in KINDS {
            // Nothing asks for it any more but what is about to end.
            let _ = set(kind, "probability", "0");
        }
    }
}

fn set(kind: &str, name: &str, value: &str) -> io::Result<()> {
    let path = format!("{FOLDER}/{kind}/{name}");
    fs::write(&path, value).map_err(|why| io::Error::new(why.kind(), format!("{path}: {why}")))
}
