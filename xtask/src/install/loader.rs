//! Whether programs find the shared libraries, and what to do if they do not.

use std::path::Path;

use limic_runner::{Job, console};
use rustix::process::geteuid;

/// Says what is left to do before programs find the libraries in a folder.
pub(super) fn tell(lib: &Path, is_of_the_system: bool) {
    if is_of_the_system {
        refresh();
    }
    let known = ldconfig().arg("-p").capture_quietly();
    if known.is_some_and(|list| names(&list, &lib.join("liblimic.so.1"))) {
        return;
    }
    console::detail(&format_args!(
        "programs do not find liblimic.so.1 by themselves: set LD_LIBRARY_PATH={lib}, or as root \
         write {lib} into /etc/ld.so.conf.d/limic.conf and run ldconfig",
        lib = lib.display()
    ));
}

/// Whether the loader's list has a library, by this name of its folder or another one: `/lib` may
/// be a link to `/usr/lib`.
fn names(list: &str, library: &Path) -> bool {
    let real = |path: &Path| {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    let Some(wanted) = real(library) else {
        return false;
    };
    let mut paths = list.lines().filter_map(|line| line.split_once("=> "));
    paths.any(|(_, path)| real(Path::new(path)).is_some_and(|path| path == wanted))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_known_by_another_name_of_its_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        std::fs::create_dir_all(folder.join("usr/lib")).expect("a folder");
        std::os::unix::fs::symlink("usr/lib", folder.join("lib")).expect("a link");
        let line = |path: &str| {
            let path = folder.join(path);
            format!(
                "1 libs\n\tliblimic.so.1 (libc6,x86-64) => {}\n",
                path.display()
            )
        };
        let installed = folder.join("usr/lib/liblimic.so.1");
        assert!(names(&line("lib/liblimic.so.1"), &installed));
        assert!(!names(&line("lib/liblimic.so.2"), &installed));
        assert!(!names(&line("lib64/liblimic.so.1"), &installed));
    }
}
