//! Starts one rank: its environment, its descriptors, its CPU, and its tie to the launcher's life.

use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::signal::SigSet;
use rustix::io::{Errno, FdFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpid, getppid, getrlimit, set_parent_process_death_signal,
    setrlimit,
};
use rustix::thread::sched_setaffinity;

use super::connection::Connection;
use super::output::Output;
use super::{RunError, binding, guard, system};

/// A rank that runs, and the launcher's ends of what it was given.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) pid: Pid,
    /// Whether it leads a process group of its own.
    pub(super) own_group: bool,
    pub(super) connection: Connection,
    /// Its standard output and standard error, where they go through the launcher.
    pub(super) outputs: [Option<Output>; 2],
    /// Its standard input, where that comes through the launcher.
    pub(super) input: Option<OwnedFd>,
}

/// What all ranks that one launcher starts share.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) program: &'a [OsString],
    /// Variables of the ranks beside those of the launcher.
    pub(super) env: &'a [(OsString, OsString)],
    pub(super) label: bool,
    /// The job's name, of which there is no other.
    pub(super) job: &'a str,
    /// What marks its processes on this machine.
    pub(super) mark: &'a str,
    /// The ranks to be started here, of `size` in all.
    pub(super) ranks: Range<u32>,
    pub(super) size: u32,
    /// The job has several hosts: the ranks' streams are those of a launcher elsewhere.
    pub(super) is_remote: bool,
    /// The signals that were blocked when the launcher started.
    pub(super) mask: SigSet,
    /// The limit on open files as the launcher found it, if it had to be raised.
    pub(super) files: Option<Rlimit>,
    /// Rank 0 stays in the launcher's process group, because it may read from the terminal: a
    /// process of another group would be stopped at its first read.
    pub(super) terminal: bool,
}

/// How many endpoints libfabric makes room for. Its own number, 1024, is more than some adapters
/// have room for, and takes locked memory.
const UNIVERSE: &str = "FI_UNIVERSE_SIZE";
/// The number for small jobs, whose ranks may have several endpoints each.
const LEAST_UNIVERSE: u32 = 64;

/// What the launcher holds descriptors of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Holders {
    /// Ranks on this machine, whose output it reads or not.
    Ranks { are_read: bool },
    /// Other hosts.
    Hosts,
}

/// Makes sure that the launcher may hold the descriptors of so many; returns the former limit if it
/// was raised, for the ranks to go back to.
pub(super) fn reserve_files(count: usize, of: Holders) -> Result<Option<Rlimit>, RunError> {
    let (what, each) = match of {
        Holders::Ranks { are_read: false } => ("ranks", 1),
        Holders::Ranks { are_read: true } => ("ranks", 3),
        Holders::Hosts => ("hosts", 2),
    };
    // Beside theirs: the standard streams, the signals, the library's, one of them being made.
    let needed = count as u64 * each + 64;
    let old = getrlimit(Resource::Nofile);
    if old.current.is_none_or(|current| current >= needed) {
        return Ok(None);
    }
    if let Some(allowed) = old.maximum.filter(|&maximum| maximum < needed) {
        return Err(RunError::Descriptors {
            count,
            what,
            needed,
            allowed,
        });
    }
    let new = Rlimit {
        current: Some(needed),
        maximum: old.maximum,
    };
    setrlimit(Resource::Nofile, new).map_err(system("raising the limit on open files"))?;
    Ok(Some(old))
}

/// In a child, before its program: the kernel sends it this signal when its parent has ended.
pub(crate) fn end_with(parent: Pid, signal: Signal) -> rustix::io::Result<()> {
    set_parent_process_death_signal(Some(signal))?;
    // If it died before this line, the parent is another process already.
    if getppid() == Some(parent) {
        Ok(())
    } else {
        Err(Errno::SRCH)
    }
}

impl Plan<'_> {
    /// Starts a rank; `cpu` binds it.
    pub(super) fn start(&self, rank: u32, cpu: Option<usize>) -> Result<Started, RunError> {
        let flags = SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (mine, theirs) = pair.map_err(system("making a rank's PMI socket"))?;

        let own_group = !(self.terminal && rank == 0);
        let mut command = self.command(rank, &theirs);
        if own_group {
            command.process_group(0);
        }
        let outputs = match self.label || self.is_remote {
            true => [
                Some(self.output(rank, &mut command, false)?),
                Some(self.output(rank, &mut command, true)?),
            ],
            false => [None, None],
        };
        let input = match self.is_remote && rank == 0 {
            true => Some(input(&mut command)?),
            false => None,
        };
        let launcher = getpid();
        let set = cpu.map(binding::only);
        let files = self.files;
        let mask = self.mask;
        let prepare = move || {
            // Ranks must not outlive a launcher that is killed.
            end_with(launcher, Signal::KILL)?;
            rustix::io::fcntl_setfd(&theirs, FdFlags::empty())?;
            mask.thread_set_mask()?;
            if let Some(set) = &set {
                sched_setaffinity(None, set)?;
            }
            if let Some(files) = files {
                setrlimit(Resource::Nofile, files)?;
            }
            Ok(())
        };
        // SAFETY: the closure runs between fork and exec. It makes system calls alone, without
        // allocation or locks; and the launcher has a single thread, so no lock can be held.
        unsafe { command.pre_exec(prepare) };

        let child = command
            .spawn()
            .map_err(|source| self.failed(rank, source))?;
        Ok(Started {
            // The handle has no use: the job waits for all children alike.
            pid: Pid::from_child(&child),
            own_group,
            connection: Connection::new(mine),
            outputs,
            input,
        })
    }

    fn command(&self, rank: u32, socket: &OwnedFd) -> Command {
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]);
        for name in std::env::vars_os()
            .map(|(name, _)| name)
            .filter(of_launchers)
        {
            command.env_remove(name);
        }
        let number = rank.to_string();
        let local = (rank - self.ranks.start).to_string();
        let local_size = self.ranks.len().to_string();
        for (name, value) in [
            ("PMI_FD", &socket.as_raw_fd().to_string()),
            ("PMI_RANK", &number),
            ("PMI_SIZE", &self.size.to_string()),
            ("PMI_SPAWNED", &"0".to_owned()),
            ("PMI_JOBID", &self.job.to_owned()),
            ("MPI_LOCALRANKID", &local),
            ("MPI_LOCALNRANKS", &local_size),
            ("LIMIC_LOCAL_RANK", &local),
            ("LIMIC_LOCAL_SIZE", &local_size),
        ] {
            command.env(name, value);
        }
        if std::env::var_os(UNIVERSE).is_none() {
            command.env(UNIVERSE, self.size.max(LEAST_UNIVERSE).to_string());
        }
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        command.env(guard::JOB, self.mark);
        if rank != 0 {
            command.stdin(Stdio::null());
        }
        command
    }

    /// Gives the command a pipe as its standard output or standard error.
    fn output(&self, rank: u32, command: &mut Command, error: bool) -> Result<Output, RunError> {
        let step = "making a rank's output pipe";
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(system(step))?;
        // The reading end alone: the two ends of a pipe are separate files.
        rustix::io::ioctl_fionbio(&read, true).map_err(system(step))?;
        if error {
            command.stderr(Stdio::from(write));
        } else {
            command.stdout(Stdio::from(write));
        }
        Ok(Output::new(read, self.label.then_some(rank)))
    }

    fn failed(&self, rank: u32, source: Error) -> RunError {
        let program = self.program[0].to_string_lossy().into_owned();
        match Errno::from_io_error(&source) {
            Some(Errno::NOENT | Errno::NOTDIR) => RunError::NotFound { program },
            Some(
                Errno::ACCESS | Errno::NOEXEC | Errno::ISDIR | Errno::LOOP | Errno::NAMETOOLONG,
            ) => RunError::NotExecutable { program, source },
            _ if source.kind() == ErrorKind::InvalidInput => {
                RunError::NotExecutable { program, source }
            }
            _ => RunError::Spawn { rank, source },
        }
    }
}

/// Whether a variable is what a launcher around this one told about itself, which does not hold for
/// the ranks.
pub(super) fn of_launchers(name: &OsString) -> bool {
    let text = name.to_string_lossy();
    ["PMI_", "PMIX_", "HYDI_"]
        .iter()
        .any(|prefix| text.starts_with(prefix))
}

/// Gives the command a pipe as its standard input.
fn input(command: &mut Command) -> Result<OwnedFd, RunError> {
    let step = "making a rank's input pipe";
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(system(step))?;
    rustix::io::ioctl_fionbio(&write, true).map_err(system(step))?;
    command.stdin(Stdio::from(read));
    Ok(write)
}
