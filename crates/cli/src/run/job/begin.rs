//! How a job begins: on this machine alone, or as one host of several.

use std::io::IsTerminal;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{self, SigHandler, SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::{Rlimit, getpid};

use super::super::guard::{self, Guard};
use super::super::output::Sink;
use super::super::pmi_server::PmiServer;
use super::super::processes::{Ender, in_foreground, proc_is_ours};
use super::super::spawn::{Holders, Plan, Started, reserve_files};
use super::super::wire::{Start, Wire};
use super::super::{Args, RunError, binding, notice};
use super::launcher::Launcher;
use super::{Control, Job, Limits, Phase, Process, Rank, SIGNALS, nix_error, remote};

/// Runs the job that the command line describes; returns its exit code.
pub(crate) fn run(args: &Args) -> Result<u8, RunError> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let number = getpid().as_raw_nonzero();
    let name = format!("{}{number}_{:x}", guard::PREFIX, now.as_nanos());
    if !args.hosts.is_empty() {
        return remote::run(args, name);
    }
    let cpus = place(args.bind, args.ranks)?;
    let (signals, mask) = take_signals()?;
    let env = args.env.iter();
    let env: Vec<_> = env.map(|(key, value)| (key.into(), value.into())).collect();
    let are_read = args.label;
    let holders = Holders::Ranks { are_read };
    let plan = Plan {
        program: &args.program,
        env: &env,
        label: args.label,
        job: &name,
        mark: &name,
        ranks: 0..args.ranks,
        size: args.ranks,
        is_remote: false,
        mask,
        files: reserve_files(args.ranks as usize, holders)?,
        terminal: std::io::stdin().is_terminal() && in_foreground(),
    };
    let guard = adopt(&name)?;
    let server = PmiServer::new(name.clone(), &[args.ranks]);
    let mut job = Job {
        ender: Ender::new(guard.as_ref().map(Guard::pid)),
        ..Job::new(args.limits(), Control::Server(server), signals)?
    };
    let result = job.start(&plan, cpus);
    job.serve()?;
    result.map(|_input| job.failure.unwrap_or(0))
}

/// Runs the ranks of one host of several, as its launcher says. What fails is the launcher's to
/// tell.
pub(crate) fn run_host(start: &Start, wire: Wire) -> Result<(), RunError> {
    let mut launcher = Launcher::new(wire);
    let (cpus, files) = match prepare(start) {
        Ok(prepared) => prepared,
        Err(error) => {
            launcher.fail(&error);
            launcher.finish();
            return Ok(());
        }
    };
    let (signals, mask) = take_signals()?;
    // Hosts may be names for one machine: each has a mark of its own.
    let mark = format!("{}-{}", start.job, start.number);
    let plan = Plan {
        program: &start.program,
        env: &start.environment,
        label: start.label,
        job: &start.job,
        mark: &mark,
        ranks: start.first..start.first + start.count,
        size: start.size,
        is_remote: true,
        mask,
        files,
        terminal: false,
    };
    let guard = adopt(&mark)?;
    let limits = Limits {
        timeout: None,
        grace: start.grace,
        keep_going: false,
    };
    let mut job = Job {
        first: start.first,
        ender: Ender::new(guard.as_ref().map(Guard::pid)),
        sinks: [Sink::relayed(), Sink::relayed()],
        ..Job::new(limits, Control::Launcher(launcher), signals)?
    };
    let result = job.start(&plan, cpus);
    if let Control::Launcher(launcher) = &mut job.control
        && let Ok(input) = result
    {
        launcher.feed(input);
    }
    job.serve()
}

/// Enters the ranks' working directory, and lets this process hold their descriptors. Gives the CPU
/// of each rank, and the former limit on open files if it was raised.
fn prepare(start: &Start) -> Result<(Vec<Option<usize>>, Option<Rlimit>), RunError> {
    let directory = PathBuf::from(&start.directory);
    if let Err(source) = std::env::set_current_dir(&directory) {
        return Err(RunError::Directory { directory, source });
    }
    let cpus = place(start.bind, start.count)?;
    let holders = Holders::Ranks { are_read: true };
    Ok((cpus, reserve_files(start.count as usize, holders)?))
}

fn place(policy: Option<binding::Policy>, ranks: u32) -> Result<Vec<Option<usize>>, RunError> {
    binding::plan(policy, ranks).map_err(|source| RunError::Binding { source })
}

/// Takes the signals that are passed on as events, before the first rank starts, so that none is
/// lost. Returns the former mask, which is the ranks'.
///
/// A blocked signal comes even if it is ignored. So those that the parent had this process ignore
/// stay out, as nohup(1) means it. Only the ends of children have to come: where they are ignored,
/// wait(2) tells nothing.
pub(super) fn take_signals() -> Result<(SignalFd, SigSet), RunError> {
    // SAFETY: it sets no function to be called, and nothing here relies on SIGCHLD being ignored.
    unsafe { signal::signal(Signal::SIGCHLD, SigHandler::SigDfl) }
        .map_err(nix_error("taking note of the ends of children"))?;
    let all = SIGNALS.iter().map(|(signal, _)| *signal);
    let mask: SigSet = all.filter(|signal| !is_ignored(*signal)).collect();
    let former = mask.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let former = former.map_err(nix_error("blocking signals"))?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&mask, flags).map_err(nix_error("making a signalfd"))?;
    Ok((signals, former))
}

fn is_ignored(signal: Signal) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only reads, and writes the old one to a place of its
    // type.
    let code = unsafe { libc::sigaction(signal as i32, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: a call that succeeds has written it.
    code == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Makes what ranks leave behind this process's children, and starts what ends all that has this
/// mark if this process is killed.
fn adopt(mark: &str) -> Result<Option<Guard>, RunError> {
    nix::sys::prctl::set_child_subreaper(true).map_err(nix_error("becoming a child subreaper"))?;
    if proc_is_ours() {
        return Ok(Some(
            Guard::start(mark).map_err(failed("starting the job's guard"))?,
        ));
    }
    notice(format_args!(
        "/proc is not there, or is of another PID namespace: what ranks start may outlive the job; \
         mount a proc file system of this namespace"
    ));
    Ok(None)
}

pub(super) fn failed(step: &'static str) -> impl Fn(std::io::Error) -> RunError {
    move |source| RunError::System { step, source }
}

impl Args {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            timeout: self.timeout,
            grace: self.grace,
            keep_going: self.keep_going,
        }
    }
}

impl Job {
    /// A job without ranks and other hosts, which writes to the standard streams.
    pub(super) fn new(
        limits: Limits,
        control: Control,
        signals: SignalFd,
    ) -> Result<Self, RunError> {
        let sink_error = failed("duplicating the standard streams");
        Ok(Self {
            limits,
            first: 0,
            ranks: Vec::new(),
            control,
            remotes: Vec::new(),
            input: remote::Input::Closed,
            signals,
            sinks: [
                Sink::new(std::io::stdout()).map_err(&sink_error)?,
                Sink::new(std::io::stderr()).map_err(&sink_error)?,
            ],
            ender: Ender::new(None),
            phase: Phase::Running,
            end_at: limits
                .timeout
                .and_then(|limit| Instant::now().checked_add(limit)),
            interrupted: None,
            failure: None,
            ended_by_exit: false,
        })
    }

    /// Starts the ranks; returns the input of rank 0, if that comes through the launcher.
    fn start(
        &mut self,
        plan: &Plan<'_>,
        cpus: Vec<Option<usize>>,
    ) -> Result<Option<OwnedFd>, RunError> {
        let mut input = None;
        for (rank, cpu) in plan.ranks.clone().zip(cpus) {
            match plan.start(rank, cpu) {
                Ok(mut started) => {
                    input = input.or(started.input.take());
                    self.add(started);
                }
                Err(error) => {
                    // A host that is over has no more to say, so the reason comes first.
                    if let Control::Launcher(launcher) = &mut self.control {
                        launcher.fail(&error);
                    }
                    // Those that run already have nobody to work with.
                    self.kill();
                    return Err(error);
                }
            }
        }
        Ok(input)
    }

    fn add(&mut self, started: Started) {
        self.ender.add(started.pid, started.own_group);
        self.ranks.push(Rank {
            running: true,
            process: Some(Process {
                pid: started.pid,
                own_group: started.own_group,
                connection: Some(started.connection),
                outputs: started.outputs,
            }),
        });
    }
}
