//! `limic info --why`: how one message goes, and why.

use limic::networks;
use limic::settings::{ByteSize, LineLatency, Settings};
use limic_policy::{History, Locality, Question, Receiver, ReceiverPace, SendMemory};

use super::paths::{self, Refusals};

/// What is said of the message beside its receiver and its length.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Message {
    /// For --why: the receiver lags behind and has said so
    #[arg(long, requires = "why")]
    slow_receiver: bool,

    /// For --why: the message lies in a buffer that peers may read
    #[arg(long, requires = "why")]
    peer_readable: bool,

    /// For --why: the message is a loan
    #[arg(long, requires = "why", conflicts_with = "peer_readable")]
    loan: bool,

    /// For --why: the message lies in so many slices
    #[arg(long, requires = "why", conflicts_with = "loan", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    slices: Option<u32>,
}

/// What cannot be explained.
#[derive(Debug, thiserror::Error)]
pub(super) enum WhyError {
    #[error(
        "'{0}' is not a receiver; accepted: self, same-process, shared-cache, same-package, \
         other-package, tcp, ofi, verbs, kernel"
    )]
    Receiver(String),

    #[error("{0}")]
    Size(#[from] limic::settings::ParseByteSizeError),

    #[error("this build has no verbs (feature ibverbs)")]
    NotBuilt,

    #[error("--slow-receiver is for receivers in shared memory, and {0} is none")]
    Slow(String),
}

/// The engine's answer, for a pair that can do what this machine lets processes do.
pub(super) fn text(
    settings: &Settings,
    to: &str,
    size: &str,
    message: &Message,
) -> Result<String, WhyError> {
    let to = to.trim();
    let refusals = Refusals::find_out();
    let receiver = receiver(settings, to, message.slow_receiver, &refusals)?;
    let ByteSize(bytes) = size.parse()?;
    let question = Question {
        slices: message.slices.unwrap_or(1) as usize,
        memory: match (message.peer_readable, message.loan) {
            (true, _) => SendMemory::PeerReadable,
            (_, true) => SendMemory::Loan,
            _ => SendMemory::Private,
        },
        ..Question::new(bytes, receiver)
    };
    let explanation = settings.explain(&question);
    let mut text = format!("{to}: {explanation}");
    for history in [History::Reply, History::Stream] {
        let other = settings.explain(&Question {
            history,
            ..question
        });
        if other.path != explanation.path {
            text.push_str(&format!("{to}: {other}"));
        }
    }
    if let Receiver::Near { locality, .. } = receiver {
        text.push_str(&about_the_pair(settings, locality, message));
    }
    if let Receiver::Network(_) = receiver {
        let mut networks = paths::network_states(settings, &refusals).into_iter();
        let network = networks.find(|network| network.network == to);
        if let Some(reason) = network.and_then(|network| network.reason) {
            text.push_str(&format!("  {to} is off here: {reason}\n"));
        }
    }
    let needs_module = receiver == Receiver::Module;
    let refused = explanation
        .refused
        .iter()
        .map(|refused| refused.path.name());
    for state in paths::states(settings, &refusals) {
        let concerns = (needs_module && state.path == "kmod")
            || refused.clone().any(|path| path == state.path);
        if let (true, Some(reason)) = (concerns, &state.reason) {
            text.push_str(&format!("  {} is off here: {reason}\n", state.path));
        }
    }
    Ok(text)
}

fn receiver(
    settings: &Settings,
    to: &str,
    slow: bool,
    refusals: &Refusals,
) -> Result<Receiver, WhyError> {
    let receiver = match to {
        "kernel" => Receiver::Module,
        "tcp" | "ofi" | "verbs" => {
            Receiver::Network(networks::limits(settings, to).ok_or(WhyError::NotBuilt)?)
        }
        _ => {
            let locality = to.parse();
            let locality = locality.map_err(|_| WhyError::Receiver(to.to_owned()))?;
            let pace = match slow {
                true => ReceiverPace::Slow,
                false => ReceiverPace::Steady,
            };
            return Ok(Receiver::Near {
                locality,
                pace,
                capabilities: paths::capabilities(settings, locality, refusals),
            });
        }
    };
    match slow {
        true => Err(WhyError::Slow(to.to_owned())),
        false => Ok(receiver),
    }
}

/// Which settings say how the two ends stand to each other.
fn about_the_pair(settings: &Settings, locality: Locality, message: &Message) -> String {
    let mut text = String::new();
    if message.slow_receiver && !settings.skew() {
        text.push_str("  LIMIC_SKEW is off: the rows for usual hold also while a receiver lags\n");
    }
    if Locality::BETWEEN_PROCESSES.contains(&locality) {
        text.push_str(match settings.line_latency() {
            LineLatency::Measured => {
                "  whether a pair is at shared-cache follows from the measured latency of a cache line\n\
                 \x20 too, not from the topology alone (LIMIC_LINE_LATENCY)\n"
            }
            LineLatency::Topology => {
                "  where a pair is follows from the topology alone (LIMIC_LINE_LATENCY)\n"
            }
            LineLatency::Nanoseconds(_) => "  where a pair is follows from LIMIC_LINE_LATENCY\n",
        });
    }
    text
}
