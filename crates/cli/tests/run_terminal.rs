//! `limic run` on a terminal.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod launcher;

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use launcher::login::{HERE, Login};
use launcher::*;
use rustix::process::Signal;

/// A terminal: its window, and the end of the programs in it.
fn terminal() -> (File, OwnedFd) {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NOCTTY);
    let window = options.open("/dev/ptmx").unwrap();
    // SAFETY: the call reads a number, which is there.
    let code = unsafe { libc::ioctl(window.as_raw_fd(), libc::TIOCSPTLCK, &raw const UNLOCKED) };
    assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the call takes numbers alone.
    let end = unsafe { libc::ioctl(window.as_raw_fd(), libc::TIOCGPTPEER, flags) };
    assert!(end >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the call has just made it, for nobody else.
    (window, unsafe { OwnedFd::from_raw_fd(end) })
}

static UNLOCKED: libc::c_int = 0;

/// As after Ctrl-S. The rank is at a pipe of the launcher's.
#[test]
fn the_time_limit_holds_where_nobody_reads_the_terminal() {
    let (window, end) = terminal();
    ends_in_time("no-reader-terminal", &["-l"], "exec yes", (window, end));
}

/// The launcher is stopped, goes on in the background, while the shell reads the terminal, and
/// comes back.
#[test]
fn the_terminal_is_read_in_the_foreground_alone() {
    let (mut window, end) = terminal();
    let fifo = Fifo::new("terminal");
    let rank = "echo ready; read a <$FIFO; echo rank $a; read b; echo rank $b";
    let login = Login::new(HERE);
    let launcher = login.run_script(&["--hosts=a", "-n1", &fifo.variable()], rank);
    let shell = "trap go=1 USR1; \"$@\"; bg >/dev/null; echo back; \
                 until [ $go ]; do sleep 0.02; done; fg";
    let mut command = undisturbed("setsid");
    command.args(["--ctty", "sh", "-mc", shell, "sh"]);
    command
        .arg(launcher.get_program())
        .args(launcher.get_args());
    command.stdin(end);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = Lines::of(&mut child);
    assert_eq!(lines.next(), "ready");
    // Ctrl-Z.
    window.write_all(b"\x1a").unwrap();
    assert_eq!(lines.next(), "back");
    window.write_all(b"two\n").unwrap();
    fifo.write("one\n");
    assert_eq!(lines.next(), "rank one");
    signal(&child, Signal::USR1);
    let rest = lines.rest();
    assert!(rest.contains(&"rank two".to_owned()), "{rest:?}");
    assert_eq!(collect(child).status.code(), Some(0));
}
