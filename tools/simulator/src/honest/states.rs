//! What is counted of a run: which states it has reached.

use core::fmt::Display;

use limic::counters::Event;
use limic::settings::Path;
use limic::{Endpoint, Error, HybridEndpoint};

use crate::sim;

/// What an endpoint counts of itself that a run can reach.
const EVENTS: [Event; 12] = [
    Event::Unexpected,
    Event::OverBudget,
    Event::Waited,
    Event::Sleeps,
    Event::WakeUps,
    Event::SkewChanges,
    Event::Demotions,
    Event::Attached,
    Event::PrivateRings,
    Event::PeersFailed,
    Event::Refused,
    Event::Violations,
];

/// A state was reached once more.
pub(super) fn reached(kind: &str, what: impl Display) {
    sim::with(|sim| sim.counts.state(kind, what, 1));
}

/// By which paths the messages of an endpoint went, what else it has counted, and the reasons that
/// it gives for what is not as one may expect.
pub(super) fn of_endpoint(endpoint: &HybridEndpoint) {
    let counters = endpoint.counters();
    sim::with(|sim| {
        for (path, traffic) in &counters.paths {
            if !matches!(path, Path::Kmod | Path::Network | Path::NetworkRead) {
                sim.counts.state("path", path, traffic.messages);
            }
        }
        for event in EVENTS {
            let times = counters.event(event);
            sim.counts.state("event", event.name(), times);
        }
        for reason in &counters.reasons {
            let text = reason.text.replace(|c: char| c.is_ascii_digit(), "#");
            let words = text.split([':', ';', '(']).next().unwrap_or("");
            sim.counts.state("reason", words.trim(), reason.times);
        }
    });
}

/// An operation failed.
pub(super) fn of_error(error: &Error) {
    let what = match error {
        Error::PeerFailed { why, .. } => {
            // Without what it says of itself.
            let why = format!("{why:?}");
            let kind = why.split([' ', '(']).next().unwrap_or("");
            return reached("error", format_args!("peer failed: {kind}"));
        }
        Error::Cancelled => "cancelled",
        Error::NoMemory(_) => "no memory",
        Error::RegionInUse { .. } => "region in use",
        Error::UnknownRequest => "unknown request",
        _ => "other",
    };
    reached("error", what);
}
