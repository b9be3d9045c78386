//! Whether a process lives.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whether the process of a pidfd has ended.
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
