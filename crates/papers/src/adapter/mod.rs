//! What `limic perf` measures over verbs: connections that stay small, and messages that
//! rest in an area on their way.
//!
//! [`connect`] times the start of a job; `movement` and `staged` go to the adapter itself, by the
//! links that `bench` makes. [`sheet`] shows their rows.

#[cfg(feature = "ibverbs")]
mod bench;
mod connect;
#[cfg(feature = "ibverbs")]
mod movement;
mod sheet;
#[cfg(feature = "ibverbs")]
mod staged;

use std::process::ExitCode;

use limic_measure::control::Control;
use limic_measure::options::{Grouping, Ranks};
#[cfg(feature = "ibverbs")]
use limic_measure::options::{Rounds, Sizes};
use limic_measure::outputs::Outputs;
use limic_measure::{MeasureError, ranks};

use sheet::Sheet;

/// What is measured over an adapter alone.
#[derive(Debug, clap::Subcommand)]
pub enum Measurement {
    /// Over verbs: how long a job takes until its ranks are connected; any number of ranks
    Connect(connect::Args),
    /// Over verbs: bytes between host and adapter memory in all combinations
    #[cfg(feature = "ibverbs")]
    #[command(mut_arg("sizes", |sizes| sizes.default_value("4K,64K,1M")))]
    Hostdev(Args),
    /// Over verbs: bandwidth one way and both ways, striped over two devices where there are two
    #[cfg(feature = "ibverbs")]
    #[command(mut_arg("sizes", |sizes| sizes.default_value("4K,64K,1M")))]
    Ports(Args),
    /// Over verbs: one rank writes to all others; any number of ranks
    #[cfg(feature = "ibverbs")]
    #[command(mut_arg("sizes", |sizes| sizes.default_value("2K")))]
    Hotspot(Args),
    /// Over verbs: messages of 8 pieces, packed or gathered, with 0 to 100 % of their buffers
    /// registered already; sizes are those of a piece
    #[cfg(feature = "ibverbs")]
    #[command(mut_arg("sizes", |sizes| sizes.default_value("8K..64K")))]
    Noncontig(Args),
    /// Over verbs: ranks pass a message on, one to the next; any number of ranks
    #[cfg(feature = "ibverbs")]
    #[command(mut_arg("sizes", |sizes| sizes.default_value("4K,64K,1M")))]
    Chain(Args),
}

/// What measurements of the adapter itself take.
#[cfg(feature = "ibverbs")]
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    sizes: Sizes,

    #[command(flatten)]
    ranks: Ranks,

    #[command(flatten)]
    rounds: Rounds,

    #[command(flatten)]
    outputs: Outputs,
}

#[cfg(feature = "ibverbs")]
impl Args {
    /// Messages as they are sent to the adapter, which has nothing to move for those without bytes.
    fn perform(
        &self,
        name: &'static str,
        grouping: Grouping,
        start: impl FnOnce(&Ranks) -> ExitCode,
        measure: impl FnOnce(&Self, &mut Sheet, &Control) -> Result<(), MeasureError>,
    ) -> Result<ExitCode, MeasureError> {
        self.sizes.check(name)?;
        in_job(
            name,
            grouping,
            &self.ranks,
            &self.outputs,
            start,
            |control| {
                let mut sheet = Sheet::new(name, control.size());
                measure(self, &mut sheet, control)?;
                Ok(sheet)
            },
        )
    }
}

impl Measurement {
    /// Measures as one of the ranks of a job, of which rank 0 shows it; or starts the job.
    pub(crate) fn perform(
        &self,
        start: impl FnOnce(&Ranks) -> ExitCode,
    ) -> Result<ExitCode, MeasureError> {
        match self {
            Self::Connect(args) => in_job(
                connect::NAME,
                Grouping::All,
                &args.ranks,
                &args.outputs,
                start,
                |control| connect::as_rank(args, control),
            ),
            #[cfg(feature = "ibverbs")]
            Self::Hostdev(args) => {
                args.perform("hostdev", Grouping::Pairs, start, movement::hostdev)
            }
            #[cfg(feature = "ibverbs")]
            Self::Ports(args) => args.perform("ports", Grouping::Pairs, start, movement::ports),
            #[cfg(feature = "ibverbs")]
            Self::Hotspot(args) => args.perform("hotspot", Grouping::All, start, movement::hotspot),
            #[cfg(feature = "ibverbs")]
            Self::Noncontig(args) => {
                args.perform("noncontig", Grouping::Pairs, start, staged::noncontig)
            }
            #[cfg(feature = "ibverbs")]
            Self::Chain(args) => args.perform("chain", Grouping::All, start, staged::chain),
        }
    }
}

fn in_job(
    name: &str,
    grouping: Grouping,
    ranks: &Ranks,
    outputs: &Outputs,
    start: impl FnOnce(&Ranks) -> ExitCode,
    measure: impl FnOnce(&Control) -> Result<Sheet, MeasureError>,
) -> Result<ExitCode, MeasureError> {
    grouping.check(name, ranks.ranks.unwrap_or(2))?;
    if !ranks::is_rank(outputs)? {
        return Ok(start(ranks));
    }
    let (control, _cpus) = ranks::join(name, grouping, ranks)?;
    let sheet = measure(&control)?;
    let rank = control.rank();
    control
        .leave()
        .map_err(|source| MeasureError::Rank { rank, source })?;
    if rank == 0 {
        sheet.finish(outputs)
    } else {
        Ok(ExitCode::SUCCESS)
    }
}
