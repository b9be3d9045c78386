//! The kernel's fault injection: allocations and copies that fail for the threads that ask for it.

use std::fs;
use std::io;

const FOLDER: &str = "/sys/kernel/debug";
/// Allocations of small objects and of pages, and copies from and to user memory: of a hundred, so
/// many fail.
const KINDS: [(&str, &str); 3] = [
    ("failslab", "3"),
    ("fail_page_alloc", "3"),
    ("fail_usercopy", "1"),
];

/// Armed until dropped.
#[derive(Debug)]
pub(crate) struct Faults(());

impl Faults {
    /// Arms all kinds, for no thread yet.
    ///
    /// # Errors
    /// The kernel has no fault injection.
    pub(crate) fn arm() -> io::Result<Self> {
        let armed = Self(());
        for (kind, percent) in KINDS {
            // Without a stack trace for each.
            let settings = [
                ("task-filter", "Y"),
                ("verbose", "0"),
                ("interval", "1"),
                ("times", "-1"),
                ("probability", percent),
            ];
            for (name, value) in settings {
                set(kind, name, value)?;
            }
        }
        set("fail_page_alloc", "min-order", "0")?;
        // Also allocations that may sleep, which are all but a few.
        for kind in ["failslab", "fail_page_alloc"] {
            set(kind, "ignore-gfp-wait", "N")?;
        }
        Ok(armed)
    }

    /// Allocations and copies of this thread's calls may fail from now on.
    pub(crate) fn hit_this_thread(&self) {
        // In a process that is meant to perish: without it, fewer allocations fail, and the test
        // counts them.
        let _ = fs::write("/proc/thread-self/make-it-fail", "1");
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        for (kind, _) in KINDS {
            // Nothing asks for it any more but what is about to end.
            let _ = set(kind, "probability", "0");
        }
    }
}

fn set(kind: &str, name: &str, value: &str) -> io::Result<()> {
    let path = format!("{FOLDER}/{kind}/{name}");
    fs::write(&path, value).map_err(|why| io::Error::new(why.kind(), format!("{path}: {why}")))
}
