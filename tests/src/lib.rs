//! Tests of limic as a whole.
//!
//! - [`conformance`](mod@conformance): what every [`Endpoint`](limic::Endpoint) has to do,
//!   run over each implementation by naming it once: [`conformance!`](macro@conformance).
//! - [`Cast`]: tests with real processes. The test binary starts itself again, once per rank, with
//!   a watchdog over all of them; a [`Link`] lets the ranks exchange addresses and meet beside
//!   limic.
//! - [`namespaces`]: two network namespaces as two nodes, for tests of what goes between machines.
//! - [`stepped`]: processes that go on by single instructions, to be ended or held anywhere.
//! - [`soundness`]: programs that must not compile.
//!
//! Whole-system tests lie in `tests/`, one file per subject.

mod all_to_all;
pub mod attacker;
mod cast;
pub mod conformance;
mod content;
pub mod failing;
pub mod forgery;
mod hub;
mod link;
pub mod namespaces;
mod nodes;
mod party;
pub mod process;
pub mod soundness;
pub mod stepped;
mod watch;

use core::time::Duration;

pub use all_to_all::all_to_all;
pub use cast::{Cast, Ended, Rank, Report};
pub use content::{Random, check, content};
pub use link::Link;
pub use party::{Case, Party};

/// For cases that run on every machine: see [`conformance!`](macro@conformance).
#[doc(hidden)]
#[must_use]
pub fn everywhere() -> bool {
    true
}

/// How long tests keep a network away, or a peer silent: 3 seconds, or `LIMIC_TEST_AWAY` seconds.
///
/// # Panics
/// That is no number.
#[must_use]
pub fn away() -> Duration {
    let away = std::env::var("LIMIC_TEST_AWAY").ok();
    let seconds = away.map_or(3, |away| {
        away.parse().expect("LIMIC_TEST_AWAY is in seconds")
    });
    Duration::from_secs(seconds)
}

/// Says visibly that a check cannot run here.
pub fn skip(reason: &str) {
    println!("SKIPPED: {reason}");
    eprintln!("SKIPPED: {reason}");
}
