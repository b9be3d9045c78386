//! What `limic perf` measures over verbs: connections that stay small, and messages that
//! rest in an area on their way.
//!
//! [`lanes`] goes into the patterns of messages. The others have an order of their own: [`connect`]
//! times the start of a job, [`movement`] and [`staged`] go to the adapter itself, by the links
//! that [`bench`] makes. [`sheet`] shows their rows.

#[cfg(feature = "ibverbs")]
mod bench;
pub(crate) mod connect;
pub(super) mod lanes;
#[cfg(feature = "ibverbs")]
mod movement;
mod sheet;
#[cfg(feature = "ibverbs")]
mod staged;

use std::process::ExitCode;

use super::args::{Args, Pattern};
use super::{PerfError, measure};

/// Measures as one of the ranks of a job; rank 0 shows it.
pub(super) fn as_rank(args: &Args) -> Result<ExitCode, PerfError> {
    let (control, _cpus) = measure::join(args)?;
    let sheet = match args.pattern {
        Pattern::Connect => connect::as_rank(args, &control)?,
        pattern => adapter(pattern, args, &control)?,
    };
    let rank = control.rank();
    control
        .leave()
        .map_err(|source| PerfError::Rank { rank, source })?;
    match sheet {
        Some(sheet) => sheet.finish(args),
        None => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(feature = "ibverbs")]
fn adapter(
    pattern: Pattern,
    args: &Args,
    control: &super::control::Control,
) -> Result<Option<sheet::Sheet>, PerfError> {
    match pattern {
        Pattern::Hostdev => movement::hostdev(args, control),
        Pattern::Ports => movement::ports(args, control),
        Pattern::Hotspot => movement::hotspot(args, control),
        Pattern::Noncontig => staged::noncontig(args, control),
        _ => staged::chain(args, control),
    }
}

#[cfg(not(feature = "ibverbs"))]
fn adapter(
    pattern: Pattern,
    _args: &Args,
    _control: &super::control::Control,
) -> Result<Option<sheet::Sheet>, PerfError> {
    Err(PerfError::Usage(format!(
        "{} goes to the adapter, and {}",
        pattern.name(),
        limic::verbs::VerbsOff::NotBuilt
    )))
}
