//! Tests whose ranks run in two network namespaces, which are two machines to them.

use std::os::unix::process::CommandExt;

use limic_runner::namespaces::{Namespaces, ip, within};

use crate::skip;

/// Set in a rank that has entered its namespace.
const INSIDE: &str = "LIMIC_TEST_NAMESPACE";

/// In the process that `cargo test` runs: makes two namespaces. `None`, said aloud, where it may
/// not. Ranks find them by the process that has started them, and the name of the test.
#[must_use]
pub fn make(test: &str) -> Option<Namespaces> {
    let made = Namespaces::make(test);
    made.map_err(|why| skip(&format!("two network namespaces: {why}")))
        .ok()
}

/// In a rank: enters the namespace of this node. The program begins again there, once.
///
/// # Panics
/// If there is no such namespace.
pub fn enter(test: &str, node: usize) {
    if std::env::var_os(INSIDE).is_some() {
        return;
    }
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let name = &Namespaces::names_of(parent.unsigned_abs(), test)[node];
    let program = std::env::current_exe().expect("the test binary has a path");
    let error = within(name, program)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, name)
        .exec();
    panic!("ip netns exec {name}: {error}");
}

/// In a rank: takes the end of the link in this namespace down, or up again.
///
/// # Panics
/// If it may not.
pub fn set_link(up: bool) {
    let state = if up { "up" } else { "down" };
    ip(&["link", "set", "eth0", state]).expect("the link is this test's");
}
