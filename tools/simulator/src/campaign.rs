//! Many runs, in a process of their own that may crash.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use fastrand::Rng;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::schedule::{self, stack};
use crate::script::{Malice, Script};
use crate::sim::{self, Counts, Faults, Process, Sim};
use crate::{honest, hostile, oracle, system};

/// What a panic of a simulated user says; it is expected.
pub(crate) const A_USERS_PANIC: &str = "a buffer of the user";
/// Accesses after which a run is taken to have no end.
const MOST_ACCESSES: u64 = 6_000_000;
/// Seconds after which a run is taken to hang without an access.
const RUN_SECONDS: u32 = 120;
/// Runs of one worker: what killed processes leave behind is gone with it.
const BATCH: u64 = 200;

/// Whole endpoints in one thread, under a seeded scheduler, with faults and hostile peers.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask simulate")]
struct Arguments {
    /// Runs; without --seconds, 2000
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Seconds after which no further run begins
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// The first seed
    #[arg(long, value_name = "X", default_value_t = 1)]
    first: u64,
    /// Only this seed
    #[arg(long, value_name = "X")]
    seed: Option<u64>,
    /// Print what happens, a line each
    #[arg(long)]
    trace: bool,
    /// Runs of a worker, which prints what it found
    #[arg(long, hide = true)]
    worker: bool,
}

pub(crate) fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.seed {
        return one(seed, arguments.trace);
    }
    if arguments.worker {
        return work(&arguments);
    }
    lead(&arguments)
}

/// One run that people look at.
fn one(seed: u64, trace: bool) -> ExitCode {
    prepare();
    let (failure, counts) = run(seed, trace);
    println!(
        "{} accesses, {} turns, {} messages",
        counts.accesses, counts.turns, counts.received
    );
    match failure {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            println!("seed {seed}: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a batch; prints a line for each run before and after it.
fn work(arguments: &Arguments) -> ExitCode {
    prepare();
    let begin = Instant::now();
    let limit = arguments.seconds.map(Duration::from_secs);
    let mut out = std::io::stdout().lock();
    for seed in arguments.first..arguments.first + arguments.seeds.unwrap_or(BATCH) {
        if limit.is_some_and(|limit| begin.elapsed() >= limit) {
            break;
        }
        let _ = writeln!(out, "begin {seed}");
        let _ = out.flush();
        // A loop without an access ends here.
        // SAFETY: sets a timer, whose signal ends this process.
        unsafe { libc::alarm(RUN_SECONDS) };
        let (failure, counts) = run(seed, false);
        let _ = writeln!(
            out,
            "end {} {} {} {}",
            counts.accesses, counts.turns, counts.sent, counts.received
        );
        for (name, count) in &counts.named {
            let _ = writeln!(out, "count {count} {name}");
        }
        if let Some(failure) = failure {
            let _ = writeln!(out, "failure {}", failure.replace('\n', " | "));
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// What all workers have done, and what is left.
struct Done {
    /// The seed that the next worker begins with.
    next: u64,
    runs: u64,
    numbers: [u64; 4],
    /// Faults, and what else happened, by kind and name.
    named: BTreeMap<String, u64>,
    /// What a worker found first: the others end.
    failure: Option<String>,
}

/// Starts workers, one on each processor at a time, until one finds something or all is done.
fn lead(arguments: &Arguments) -> ExitCode {
    let begin = Instant::now();
    let limit = arguments.seconds.map(Duration::from_secs);
    let all = match (arguments.seeds, limit) {
        (Some(seeds), _) => seeds,
        (None, Some(_)) => u64::MAX / 2,
        (None, None) => 2000,
    };
    let end = arguments.first + all;
    let done = Mutex::new(Done {
        next: arguments.first,
        runs: 0,
        numbers: [0; 4],
        named: BTreeMap::new(),
        failure: None,
    });
    let lane = |cpu: usize| {
        // Its workers stay where they begin.
        let _ = sched_setaffinity(None, &only(cpu));
        loop {
            let mut now = lock(&done);
            let left = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
            if now.failure.is_some() || now.next >= end || left == Some(Duration::ZERO) {
                break;
            }
            let first = now.next;
            let seeds = BATCH.min(end - first);
            now.next += seeds;
            drop(now);
            let found = batch(first, seeds, left.map(|left| left.as_secs() + 1), &done);
            let mut now = lock(&done);
            now.failure = now.failure.take().or(found);
        }
    };
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| only(sched_getcpu()));
    thread::scope(|scope| {
        // Fewer where the time of all of them is not granted.
        let granted = thread::available_parallelism().map_or(1, usize::from);
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        for cpu in cpus.take(granted) {
            scope.spawn(move || lane(cpu));
        }
    });
    let seconds = begin.elapsed().as_secs_f64();
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let [accesses, turns, sent, received] = done.numbers;
    println!(
        "{} runs in {seconds:.1} s: {accesses} accesses, {turns} turns",
        done.runs
    );
    println!("{sent} messages sent, {received} received and checked");
    for (name, count) in &done.named {
        println!("{count:>12}  {name}");
    }
    match done.failure {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn lock(done: &Mutex<Done>) -> MutexGuard<'_, Done> {
    done.lock().unwrap_or_else(PoisonError::into_inner)
}

fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

/// Starts a worker. Gives what it found.
fn batch(first: u64, seeds: u64, seconds: Option<u64>, done: &Mutex<Done>) -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let mut command = Command::new(program);
    command.args([
        "--worker",
        "--first",
        &first.to_string(),
        "--seeds",
        &seeds.to_string(),
    ]);
    if let Some(seconds) = seconds {
        command.args(["--seconds", &seconds.to_string()]);
    }
    let worker = command.stdout(Stdio::piped()).spawn();
    let mut worker = match worker {
        Ok(worker) => worker,
        Err(error) => return Some(format!("a worker does not start: {error}")),
    };
    let mut seed = first;
    let mut failure = None;
    for line in BufReader::new(worker.stdout.take()?)
        .lines()
        .map_while(Result::ok)
    {
        let mut done = lock(done);
        if done.failure.is_some() {
            let _ = worker.kill();
            let _ = worker.wait();
            return None;
        }
        match line.split_once(' ') {
            Some(("begin", number)) => seed = number.parse().unwrap_or(seed),
            Some(("end", numbers)) => {
                done.runs += 1;
                for (sum, number) in done.numbers.iter_mut().zip(numbers.split(' ')) {
                    *sum += number.parse().unwrap_or(0);
                }
            }
            Some(("count", rest)) => {
                if let Some((count, name)) = rest.split_once(' ') {
                    *done.named.entry(name.to_owned()).or_default() += count.parse().unwrap_or(0);
                }
            }
            Some(("failure", what)) => failure = Some(what.replace(" | ", "\n")),
            _ => println!("{line}"),
        }
    }
    let status = worker.wait().ok()?;
    if status.success() {
        return None;
    }
    let what = failure.unwrap_or_else(|| format!("the engine crashed: {status}"));
    Some(format!(
        "seed {seed}: {what}\nagain, with all that happens: cargo xtask simulate --seed {seed} --trace"
    ))
}

/// The processor and the panics of this process.
fn prepare() {
    // Where a thread runs is one of the things that an endpoint looks at.
    let _ = sched_setaffinity(None, &only(sched_getcpu()));
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload();
        let words = payload.downcast_ref::<String>();
        let expected = payload.is::<honest::send::PanicsToo>()
            || words.is_some_and(|words| words == A_USERS_PANIC);
        if !expected {
            usual(panic);
        }
    }));
    system::install();
}

/// One run. Gives what was wrong, and what happened.
fn run(seed: u64, trace: bool) -> (Option<String>, Counts) {
    let mut rng = Rng::with_seed(seed);
    let malice = match rng.u32(0..8) {
        0 => Malice::Forges,
        1 => Malice::Scribbles,
        _ => Malice::None,
    };
    let faulty = rng.bool();
    let kills = faulty && rng.u32(0..3) == 0;
    let script = Rc::new(Script::draw(&mut rng, kills, malice));
    let processes = script.processes;
    let mut run = Sim::new(rng.u64(..), MOST_ACCESSES, trace);
    run.guarded = malice != Malice::None;
    run.switch = [1, 2, 4, 10, 40, 200][rng.usize(0..6)];
    if faulty {
        let mut chance = |of: &[u32]| of[rng.usize(0..of.len())];
        run.faults = Faults {
            call: chance(&[0, 0, 10, 100]),
            copy: chance(&[0, 2, 10]),
            stop: chance(&[0, 300, 3000]),
            delay: chance(&[0, 0, 500]),
            kill: None,
            children_live: false,
        };
        if kills {
            let when = 1_u64 << rng.u32(4..18);
            // A hostile process ends as it likes.
            let who = rng.usize(0..script.honest());
            run.faults.kill = Some((who, when + rng.u64(0..when)));
            run.faults.children_live = rng.bool();
        }
    }
    run.board.addresses = vec![None; processes];
    run.board.reached = vec![0; processes];
    run.board.keys = vec![0; processes];
    run.board.sent_as = vec![0; script.messages.len()];
    run.board.words = vec![None; script.messages.len()];
    for process in 0..processes {
        let script = Rc::clone(&script);
        let hostile = script.hostile[process];
        let program = move || {
            if hostile {
                hostile::live(process, &script);
            } else {
                honest::live(process, &script);
            }
        };
        run.processes.push(Process::new(hostile, program, stack()));
    }
    sim::begin(run);
    if trace {
        println!("{script:#?}");
    }
    schedule::run();
    let mut run = sim::end();
    if run.failure.is_none()
        && malice != Malice::Scribbles
        && let Err(what) = oracle::order(&run, &script)
    {
        run.failure = Some(what);
    }
    (run.failure, run.counts)
}
