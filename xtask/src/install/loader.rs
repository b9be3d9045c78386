//! Whether programs find the shared libraries, and what to do if they do not.

use std::path::Path;

use limic_runner::{Job, console};
use rustix::process::geteuid;

/// Says what is left to do before programs find the libraries in a folder.
pub(super) fn tell(lib: &Path, is_of_the_system: bool) {
    if is_of_the_system {
        refresh();
    }
    let wanted = format!("=> {}", lib.join("liblimic.so.1").display());
    let known = ldconfig().arg("-p").capture_quietly();
    if known.is_some_and(|list| list.lines().any(|line| line.ends_with(&wanted))) {
        return;
    }
    console::detail(&format_args!(
        "programs do not find liblimic.so.1 by themselves: set LD_LIBRARY_PATH={lib}, or as root \
         write {lib} into /etc/ld.so.conf.d/limic.conf and run ldconfig",
        lib = lib.display()
    ));
}

/// Has the loader's cache written anew, if this process may. Where it cannot, [`tell`] says so.
pub(super) fn refresh() {
    if geteuid().is_root()
        && let Err(why) = ldconfig().run()
    {
        console::detail(&why);
    }
}

/// It is often outside of PATH.
fn ldconfig() -> Job {
    let usual = "/sbin/ldconfig";
    let there = Path::new(usual).exists();
    Job::new(if there { usual } else { "ldconfig" }, 1)
}
