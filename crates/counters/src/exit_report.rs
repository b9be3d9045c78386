//! An endpoint's counters are written down when it closes, or else when its process ends normally:
//! the setting `LIMIC_STATS`.

use core::fmt;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use limic_bootstrap::launcher;
use limic_shm::process::{LockHere, OnceHere, Process};
use limic_shm::ring::Mapped;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::Page;
use crate::recorder::{Recorder, read_words};

/// Where counters go.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// Standard error, as text.
    Stderr,
    /// The end of a file; as JSON if its name says so.
    File(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stderr => f.write_str("stderr"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl Target {
    /// What the setting says, for this process: `%p` is its number, `%r` its rank, `%%` a percent
    /// sign.
    fn of_setting(text: &str) -> Self {
        if text == "stderr" {
            return Self::Stderr;
        }
        let mut name = String::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match (c, rest.clone().next()) {
                ('%', Some('p')) => name.push_str(&std::process::id().to_string()),
                ('%', Some('r')) => name.push_str(&launcher::rank().unwrap_or(0).to_string()),
                ('%', Some('%')) => name.push('%'),
                _ => {
                    name.push(c);
                    continue;
                }
            }
            rest.next();
        }
        let name = PathBuf::from(name);
        // Of the folder where the endpoint was opened, whatever the program enters later.
        Self::File(std::path::absolute(&name).unwrap_or(name))
    }

    /// Whether it can be written: better said when the endpoint opens than when it closes.
    fn check(&self) -> Result<(), String> {
        match self {
            Self::Stderr => Ok(()),
            Self::File(path) => open(path)
                .map(drop)
                .map_err(|why| format!("LIMIC_STATS: {}: {why}", path.display())),
        }
    }

    fn write(&self, page: &Page) {
        let written = match self {
            Self::Stderr => {
                let text = format!("limic counters: {page}");
                std::io::stderr().lock().write_all(text.as_bytes())
            }
            Self::File(path) => {
                let json = path.extension().is_some_and(|end| end == "json");
                let text = if json {
                    page.to_json() + "\n"
                } else {
                    format!("limic counters: {page}")
                };
                // By one write, at the end: ranks and endpoints may share a file.
                open(path).and_then(|mut file| file.write_all(text.as_bytes()))
            }
        };
        if let Err(why) = written {
            limic_settings::warning::say(&format!("LIMIC_STATS: {self}: {why}: counters are lost"));
        }
    }
}

/// Opens a file to be written at its end. A pipe that nobody reads is an error; a reader that is
/// slow is waited for.
fn open(path: &std::path::Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.append(true).create(true);
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Endpoints that are to be reported and are not closed.
struct Open {
    endpoint: u64,
    process: Process,
    page: Mapped,
    target: Target,
}

static OPEN: LockHere<Vec<Open>> = LockHere::new(Vec::new());

/// An endpoint opens whose counters are to be reported: `stderr`, or the end of a file, as JSON if
/// its name ends in `.json`. `%p` in the name is the process, `%r` its rank, `%%` a percent sign.
///
/// # Errors
/// The target cannot be written, for this reason.
pub fn watch(recorder: &Recorder, endpoint: u64, target: &str) -> Result<(), String> {
    let target = Target::of_setting(target);
    target.check()?;
    static REGISTER: OnceHere = OnceHere::new();
    REGISTER.call(|| {
        // SAFETY: `at_exit` is a function of the right type, for the whole life of the process.
        // (Whoever unloads a library that holds this code unloads what was registered with it:
        // glibc runs a library's own first.)
        let refused = unsafe { libc::atexit(at_exit) } != 0;
        if refused {
            tracing::warn!(
                "no room for an exit function: endpoints that are not closed are not reported"
            );
        }
    });
    OPEN.lock().push(Open {
        endpoint,
        process: Process::current(),
        page: recorder.memory(),
        target,
    });
    Ok(())
}

/// An endpoint has closed. Without one that is watched, nothing happens.
pub fn report(endpoint: u64) {
    let mut open = OPEN.lock();
    if let Some(index) = open.iter().position(|open| open.endpoint == endpoint) {
        let closed = open.swap_remove(index);
        drop(open);
        closed.write();
    }
}

impl Open {
    fn write(&self) {
        // A forked child has the parent's endpoints, and they are not its own to report.
        if self.process.is_current() {
            self.target.write(&Page::of_words(&read_words(&self.page)));
        }
    }
}

/// The process ends by `exit` or by returning from `main`: endpoints that nobody closed are
/// reported as they are.
extern "C" fn at_exit() {
    // A thread that ends the process while another one is here must not wait for it. What cannot be
    // written is said, which waits for threads that say something else at the moment.
    let Some(mut open) = OPEN.try_lock() else {
        return;
    };
    for open in open.drain(..) {
        // A panic must not leave a function that C calls.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| open.write()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in() {
        assert_eq!(Target::of_setting("stderr"), Target::Stderr);
        let pid = std::process::id();
        let wanted = Target::File(format!("/a%b%{pid}%").into());
        assert_eq!(Target::of_setting("/a%b%%%p%"), wanted);
    }

    #[test]
    fn a_name_is_that_of_the_folder_in_which_it_was_given() {
        let here = std::env::current_dir().expect("a folder");
        let wanted = Target::File(here.join("a.json"));
        assert_eq!(Target::of_setting("a.json"), wanted);
    }

    /// A pipe with a name, in a folder that goes when it is dropped.
    fn pipe() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("a pipe");
        (folder, pipe)
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_an_error_and_no_wait() {
        let (_folder, pipe) = pipe();
        Target::File(pipe).check().expect_err("nobody reads");
    }

    /// More than the pipe holds is written whole.
    #[test]
    fn a_pipe_that_is_read_slowly_is_waited_for() {
        let (_folder, pipe) = pipe();
        let both = File::options().read(true).write(true).open(&pipe);
        let mut reader = both.expect("a reader");
        let writer = std::thread::spawn(move || open(&pipe)?.write_all(&[7; 300_000]));
        let mut got = vec![0; 300_000];
        std::io::Read::read_exact(&mut reader, &mut got).expect("all of it");
        writer.join().expect("no panic").expect("it was waited for");
    }

    #[test]
    fn a_forked_child_ends_though_another_thread_reports() {
        use crate::child::{beside, holds_in_child};
        let reporting = |stay: &dyn Fn()| {
            let _list = OPEN.lock();
            stay();
        };
        assert!(beside(reporting, || holds_in_child(|| {
            at_exit();
            report(1);
            true
        })));
    }

    #[test]
    fn a_target_that_cannot_be_written_is_said_at_once() {
        let target = Target::of_setting("/dev/null/none");
        let why = target.check().expect_err("no directory");
        assert!(why.starts_with("LIMIC_STATS: /dev/null/none: "), "{why}");
    }
}
