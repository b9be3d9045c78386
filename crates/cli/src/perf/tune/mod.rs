//! `limic tune`: measures the crossovers of this host, and writes a profile that every later run
//! loads.
//!
//! The life of a tuning: [`places`] finds a pair of CPUs for each locality that the host has, a job
//! of two ranks [`measure`]s all paths there over all sizes, [`choice`] decides which rows are
//! worth a change, the same ranks compare the built-in table with the new one, and here everything
//! is collected, shown ([`show`]) and written ([`profile`]).

mod choice;
mod measure;
mod places;
mod profile;
mod show;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path as FilePath, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use limic::settings::{ByteSize, CopyInstructions, LineLatency, Settings, default_profile};
use limic_measure::outputs::Outputs;
use limic_measure::{MeasureError, ranks};
use limic_shm::processor::near_below_ns;
use rustix::process::{Signal, getpid};

use super::floor;
use crate::run::end_with;
use measure::Findings;
use places::Pair;

/// Measure which path is best at which size on this host, and write a profile that later runs load
///
/// Every locality that the host has (common cache, one package, two packages) is measured with two
/// real processes, over all paths and sizes, in ping-pong and in streams. A path replaces the
/// built-in one only where it wins clearly. The profile is loaded by every run on this machine, and
/// refused on any other.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Where to write the profile [default: limic/HOST.toml in $XDG_CONFIG_HOME or ~/.config]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,

    /// Seconds for each locality, about
    #[arg(long, value_name = "SECONDS", default_value = "14", value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,

    #[command(flatten)]
    outputs: Outputs,

    /// Be a rank of a measurement: the CPUs of both; rank 0 prints what it found
    #[arg(long, hide = true, value_name = "CPU,CPU", value_delimiter = ',')]
    on_cpus: Option<Vec<u32>>,

    /// What decides on the rows that hold between these CPUs
    #[arg(long, hide = true, value_name = "NS", default_value_t)]
    line_latency: LineLatency,

    /// The instructions for long copies that the profile will ask for
    #[arg(long, hide = true, value_name = "INSTRUCTIONS", default_value_t, value_parser = instructions)]
    copy: CopyInstructions,

    /// The pipeline's fragment that the profile will have [default: the best one that is measured]
    #[arg(long, hide = true, value_name = "BYTES")]
    fragment: Option<u32>,
}

/// Instructions whose copies take so much less time than others' replace what suits the processor.
const CLEARLY: f64 = 1.07;

const AFTER_HELP: &str = "\
Run it once on an idle host; again where a virtual machine shows other distances at other times: the new rows come beside those
of other localities. LIMIC_PROFILE=off ignores the profile, LIMIC_PROFILE=FILE loads another one, and
limic info shows its rows. docs/profile.md in limic's sources describes the format.

Exit code: 0, 1 if something failed, 2 for a bad command line.";

fn instructions(text: &str) -> Result<CopyInstructions, &'static str> {
    text.parse().map_err(|()| "auto, vector or rep-movsb")
}

/// Tunes; errors are printed.
pub(crate) fn execute(args: &Args) -> ExitCode {
    match perform(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            notice(format_args!("{error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

fn perform(args: &Args) -> Result<(), MeasureError> {
    if let Some(cpus) = &args.on_cpus {
        return measure::as_rank(cpus, args);
    }
    if let Some(launcher) = ranks::launcher() {
        return Err(MeasureError::Usage(format!(
            "tune starts its own processes, but {launcher} is set: run it without a launcher"
        )));
    }
    let target = target(args)?;
    args.outputs.check()?;
    let pairs = places::find()?;
    let copy = copy(&pairs)?;
    let copies = copy.unwrap_or_default();
    let mut all: Vec<Findings> = Vec::new();
    let mut places = Vec::new();
    for (index, pair) in pairs.iter().enumerate() {
        let line_latency = pair.line_latency()?;
        let locality = line_latency.locality(pair.locality, None, near_below_ns());
        notice(format_args!(
            "{} of {}: {locality}{}, CPUs {} and {}{}",
            index + 1,
            pairs.len(),
            if locality == pair.locality {
                String::new()
            } else {
                format!(
                    " by the hand-over of a cache line ({line_latency} ns), though {} by the topology",
                    pair.locality
                )
            },
            pair.cpus[0],
            pair.cpus[1],
            if pair.shares_a_cpu() {
                " (one for both: thresholds of more ranks than cores)"
            } else {
                ""
            }
        ));
        if all.iter().any(|found| found.locality == locality.name()) {
            notice(format_args!("left out: {locality} is measured already"));
            continue;
        }
        all.push(start(args, pair, line_latency, copies, None)?);
        places.push((pair, line_latency));
    }
    let mut kept = match &target {
        Some(path) => profile::Kept::of(path, &all),
        None => profile::Kept::default(),
    };
    if let Some(copy) = copy {
        kept.set_copy(copy);
    }
    let fragment = kept.fragment(&all);
    kept.set_fragment(fragment);
    for (findings, (pair, line_latency)) in all.iter_mut().zip(places) {
        if findings.fragment_bytes != fragment {
            notice(format_args!(
                "{} again: all localities have fragments of {}",
                findings.locality,
                ByteSize(fragment.into())
            ));
            *findings = start(args, pair, line_latency, copies, Some(fragment))?;
        }
    }
    if !kept.localities().is_empty() {
        notice(format_args!(
            "the rows of {} were measured before, and stay",
            kept.localities().join(", ")
        ));
    }
    let text = profile::text(&all, &kept);
    let written = match &target {
        Some(path) => profile::write(path, &text),
        None => Ok(()),
    };
    // What was measured is shown also where the profile could not be written.
    let path = target.as_deref().filter(|_| written.is_ok());
    let page = || {
        let outcome = outcome(path, Settings::from_environment().ok().as_ref(), &text);
        format!("{}{outcome}", show::table(&all))
    };
    args.outputs
        .show(&all, page, |path| show::plot(&all, path))?;
    written
}

/// The instructions for long copies, where one kind wins clearly between the nearest CPUs; `None`
/// if they cannot be compared here.
fn copy(pairs: &[Pair]) -> Result<Option<CopyInstructions>, MeasureError> {
    let Some(pair) = pairs.first().filter(|pair| !pair.shares_a_cpu()) else {
        return Ok(None);
    };
    let Some(ratio) = floor::vector_time(pair.cpus)? else {
        return Ok(None);
    };
    let copy = if ratio >= CLEARLY {
        CopyInstructions::RepMovsb
    } else if ratio * CLEARLY <= 1.0 {
        CopyInstructions::Vector
    } else {
        CopyInstructions::Auto
    };
    notice(format_args!(
        "long copies: vectors take {ratio:.2} of the time of rep movsb; copy = {copy}"
    ));
    Ok(Some(copy))
}

/// The file to write, if one is to be written; that it can be is found before minutes of measuring
/// rather than after them.
fn target(args: &Args) -> Result<Option<PathBuf>, MeasureError> {
    if args.dry_run {
        return Ok(None);
    }
    let target = args.output.clone().or_else(default_profile);
    let target = target.ok_or_else(|| {
        MeasureError::Usage(
            "neither XDG_CONFIG_HOME nor HOME says where profiles lie: give --output FILE".into(),
        )
    })?;
    profile::prepare(&target).map(Some)
}

/// Starts the two ranks of one measurement, and reads what they found.
fn start(
    args: &Args,
    pair: &Pair,
    line_latency: LineLatency,
    copy: CopyInstructions,
    fragment: Option<u32>,
) -> Result<Findings, MeasureError> {
    let failed = |step| move |source| MeasureError::System { step, source };
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let seconds = args.seconds.to_string();
    let mut command = Command::new(&program);
    command
        .args(["run", "-n", "2", "--bind", "none", "--"])
        .arg(&program)
        .args(["tune", "--seconds", &seconds, "--on-cpus"])
        .arg(format!("{},{}", pair.cpus[0], pair.cpus[1]))
        .args(["--line-latency", &line_latency.to_string()])
        .args(["--copy", copy.name()])
        .args(fragment.map(|bytes| format!("--fragment={bytes}")))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let me = getpid();
    let prepare = move || Ok(end_with(me, Signal::TERM)?);
    // SAFETY: the closure runs between fork and exec. It makes system calls alone, without
    // allocation or locks.
    unsafe { command.pre_exec(prepare) };
    let output = command.output().map_err(failed("starting the ranks"))?;
    if !output.status.success() {
        return Err(MeasureError::Nothing(format!(
            "the ranks at {} ended with {}",
            pair.locality, output.status
        )));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| MeasureError::System {
        step: "reading what was measured",
        source: error.into(),
    })
}

/// What has come of the profile: the file that was written, if one was, and whether runs with
/// these settings load it.
fn outcome(written: Option<&FilePath>, settings: Option<&Settings>, text: &str) -> String {
    let Some(path) = written else {
        return format!("nothing written; the profile would be\n\n{text}");
    };
    let whole = |path: &FilePath| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let path = whole(path);
    let loaded = settings.and_then(Settings::profile).map(whole);
    let shown = path.display();
    if loaded.as_ref() == Some(&path) {
        format!("written to {shown}; later runs on this machine load it\n")
    } else {
        format!("written to {shown}; set LIMIC_PROFILE={shown} to load it\n")
    }
}

/// Tells the user something. A standard error that nobody reads any more is no reason to fail.
fn notice(text: std::fmt::Arguments<'_>) {
    let line = format!("limic tune: {text}\n");
    let _unread = std::io::stderr().lock().write_all(line.as_bytes());
}
