//! A host of a job of several: the launcher of the job has started this command here, and says over
//! its standard input what to do.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};

use super::wire::{GREETING, Order, Start, Wire};
use super::{RunError, job, notice, system};

/// A launcher that has logged in says at once what to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Run the ranks of one host of a job, as `limic run --hosts` says on the standard input
#[derive(Debug, clap::Args)]
pub(crate) struct Args;

/// Runs them; the launcher hears of errors, and the standard error of those before it listens.
pub(crate) fn execute(_: &Args) -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            notice(format_args!("{error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

fn run() -> Result<(), RunError> {
    let step = "talking to the launcher";
    let input = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3).map_err(system(step))?;
    let output = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3).map_err(system(step))?;
    let mut wire = Wire::new(input, output).map_err(system(step))?;
    wire.greet(GREETING);
    match first_order(&mut wire).map_err(system(step))? {
        Some(start) => job::run_host(&start, wire),
        // The job ends before it began here.
        None => Ok(()),
    }
}

/// Waits for it, bounded. None if something else comes, or nothing.
fn first_order(wire: &mut Wire) -> Result<Option<Box<Start>>, rustix::io::Errno> {
    let end = Instant::now() + PATIENCE;
    loop {
        match wire.next() {
            Ok(Some(Order::Start(start))) => return Ok(Some(start)),
            Ok(None) => {}
            _ => return Ok(None),
        }
        let left = end.saturating_duration_since(Instant::now());
        let wanted = wire.interests(true);
        let mut fds = wanted.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags));
        if poll(&mut fds, Timespec::try_from(left).ok().as_ref())? == 0 {
            return Ok(None);
        }
        wire.flush();
        if !wire.read() {
            return Ok(None);
        }
    }
}
