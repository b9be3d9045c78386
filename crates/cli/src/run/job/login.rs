//! How the launcher gets to a host.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::SigSet;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, getpid};

use super::super::spawn::{end_with, of_launchers};
use super::super::wire::Wire;
use super::super::{Args, RunError, system};

/// Logs in without questions, and notices within half a minute that a host is gone.
pub(crate) const SSH: &str = "ssh -x -o BatchMode=yes -o ServerAliveInterval=10";

/// Variables that are true of one host, or of one login there.
const LOCAL: [&str; 11] = [
    "DISPLAY", "HOME", "HOST", "HOSTNAME", "LOGNAME", "MAIL", "OLDPWD", "PWD", "SHELL", "USER", "_",
];

/// How the names of others begin.
const OF_LOGINS: [&str; 3] = ["DBUS_", "SSH_", "XDG_"];

/// The launcher's variables that ranks see in place of those of their hosts, and the directory in
/// which they run.
pub(super) fn environment(args: &Args, directory: &Path) -> Vec<(OsString, OsString)> {
    let is_local = |name: &OsString| {
        let text = name.to_string_lossy();
        let of_login = OF_LOGINS.iter().any(|prefix| text.starts_with(prefix));
        of_login || LOCAL.contains(&&*text) || of_launchers(name)
    };
    let own = std::env::vars_os().filter(|(name, _)| !is_local(name));
    let here = ("PWD".into(), directory.into());
    let added = args.env.iter();
    own.chain([here])
        .chain(added.map(|(key, value)| (key.into(), value.into())))
        .collect()
}

/// Whether a name is this machine's.
fn is_here(host: &str) -> bool {
    let uname = rustix::system::uname();
    let own = uname.nodename().to_string_lossy();
    let short = own.split('.').next();
    host == "localhost" || host == own || Some(host) == short
}

/// The command that starts `limic host` on a host: over the launcher's command, whose last word the
/// shell there reads.
fn command(launcher: &str, host: &str, program: &Path) -> Command {
    if is_here(host) {
        let mut command = Command::new(program);
        command.arg("host");
        return command;
    }
    let mut words = launcher.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("ssh"));
    let quoted = program.to_string_lossy().replace('\'', r"'\''");
    command.args(words).arg(host);
    command.arg(format!("exec '{quoted}' host"));
    command
}

/// Starts it; returns the process that has logged in, which leads a group, and the way to limic
/// behind it. `mask` has the signals that were blocked when the launcher started.
pub(super) fn log_in(
    launcher: &str,
    host: &str,
    program: &Path,
    mask: SigSet,
) -> Result<(Pid, Wire), RunError> {
    let step = "making a host's socket";
    let flags = SocketFlags::CLOEXEC;
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let (mine, theirs) = pair.map_err(system(step))?;
    let copy = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(system(step));
    let mut command = command(launcher, host, program);
    command.stdin(Stdio::from(copy(&theirs)?));
    command.stdout(Stdio::from(theirs));
    // What a terminal signals is passed on, and does not end the connection.
    command.process_group(0);
    let parent = getpid();
    let prepare = move || {
        end_with(parent, Signal::KILL)?;
        mask.thread_set_mask()?;
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec. It makes system calls alone, without
    // allocation or locks; and the launcher has a single thread, so no lock can be held.
    unsafe { command.pre_exec(prepare) };
    let child = command.spawn().map_err(|source| RunError::Launcher {
        command: command.get_program().to_string_lossy().into_owned(),
        source,
    })?;
    let wire = Wire::new(copy(&mine)?, mine).map_err(system(step))?;
    Ok((Pid::from_child(&child), wire))
}
