//! The shared libraries of a program, as the dynamic linker finds them here.

use std::path::{Path, PathBuf};

use limic_runner::{Failure, Job};

/// The loader and all libraries that `ldd` names, by the paths at which the program looks for them.
/// A static program or a script has none.
pub(crate) fn of(program: &Path) -> Result<Vec<PathBuf>, Failure> {
    let Some(listed) = Job::new("ldd", 1).arg(program).capture_quietly() else {
        return Ok(Vec::new());
    };
    let missing: Vec<&str> = listed
        .lines()
        .filter(|line| line.contains("not found"))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    if missing.is_empty() {
        Ok(listed.lines().filter_map(path).collect())
    } else {
        Err(Failure::Missing(format!(
            "{} needs libraries that are not on this machine: {}",
            program.display(),
            missing.join(", ")
        )))
    }
}

/// `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x0000)`, or `/lib64/ld-linux-x86-64.so.2
/// (0x0000)`
fn path(line: &str) -> Option<PathBuf> {
    let place = line.split_once("=>").map_or(line, |(_, place)| place);
    let place = place.split_whitespace().next()?;
    place.starts_with('/').then(|| PathBuf::from(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_out_of_the_list() {
        let found = |line| path(line).map(|path| path.display().to_string());
        assert_eq!(found("\tlinux-vdso.so.1 (0x00007ffd)"), None);
        assert_eq!(
            found("\tlibc.so.6 => /lib/libc.so.6 (0x00007f)"),
            Some("/lib/libc.so.6".to_owned())
        );
        assert_eq!(
            found("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)"),
            Some("/lib64/ld-linux-x86-64.so.2".to_owned())
        );
    }

    #[test]
    fn this_program_has_a_loader() {
        let here = std::env::current_exe().expect("a path");
        let found = of(&here).expect("all of them are here");
        assert!(
            found
                .iter()
                .any(|path| path.to_string_lossy().contains("ld-linux"))
        );
    }
}
