//! Options that several measurements have.

use crate::MeasureError;
use crate::sizes::SizeList;

/// Message sizes; each measurement has a default of its own.
#[derive(Debug, Clone, clap::Args)]
pub struct Sizes {
    /// Message sizes in bytes: a list (8,64,1K), ranges of powers of two (1..4M), or both
    #[arg(long, value_name = "LIST", default_value = "1..4M")]
    pub sizes: SizeList,
}

impl Sizes {
    /// Refuses messages without bytes.
    ///
    /// # Errors
    /// There are some.
    pub fn check(&self, name: &str) -> Result<(), MeasureError> {
        if self.sizes.as_slice().contains(&0) {
            return Err(MeasureError::Usage(format!("{name} moves at least 1 byte")));
        }
        Ok(())
    }
}

/// The ranks, and the CPUs that they are bound to.
#[derive(Debug, Clone, clap::Args)]
pub struct Ranks {
    /// Number of ranks [default: 2, or what the launcher started]
    #[arg(short = 'n', long, visible_alias = "np", value_name = "N")]
    pub ranks: Option<u32>,

    /// Pin rank i to the i-th CPU, round robin [default: if there are enough CPUs]
    #[arg(long, conflicts_with = "no_bind")]
    pub bind: bool,

    /// Leave the placement of ranks to the kernel
    #[arg(long)]
    pub no_bind: bool,
}

/// How ranks measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// Rank i with rank i + n/2.
    Pairs,
    /// All together.
    All,
    /// One sender and one receiver.
    Two,
}

impl Grouping {
    /// Refuses numbers of ranks that cannot measure this way.
    ///
    /// # Errors
    /// This one cannot.
    pub fn check(self, name: &str, ranks: u32) -> Result<(), MeasureError> {
        let wrong = match self {
            Self::All if ranks < 2 => format!("{name} takes at least 2 ranks"),
            Self::Pairs if ranks < 2 || !ranks.is_multiple_of(2) => format!(
                "{ranks} ranks cannot form pairs: an even number of ranks is needed, at least 2"
            ),
            Self::Two if ranks != 2 => {
                format!(
                    "{name} is measured with one sender and one receiver, not with {ranks} ranks"
                )
            }
            _ => return Ok(()),
        };
        Err(MeasureError::Usage(wrong))
    }
}

/// Rounds, and what one is made of.
#[derive(Debug, Clone, clap::Args)]
pub struct Rounds {
    /// Round trips, windows or requests of one round [default: what suits the measurement]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: Option<u64>,

    /// Rounds; the median counts
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
}

/// Rounds that last as long as they may.
#[derive(Debug, Clone, clap::Args)]
pub struct Timed {
    /// How many.
    #[command(flatten)]
    pub rounds: Rounds,

    /// Time for one size over one path, all rounds together, which says how many iterations a round
    /// has
    #[arg(long, value_name = "SECONDS", default_value = "0.25", value_parser = parse_seconds, conflicts_with = "iterations")]
    seconds_per_point: f64,
}

impl Timed {
    /// Seconds of one round.
    pub fn round(&self) -> f64 {
        self.seconds_per_point / f64::from(self.rounds.rounds)
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds")?;
    if seconds > 0.0 && seconds <= 3600.0 {
        Ok(seconds)
    } else {
        Err("expected more than 0 and at most 3600 seconds".into())
    }
}
