//! Two network namespaces as two machines: ranks there share no memory, and a link of two Ethernet
//! ends is between them.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::skip;

/// Set in a rank that has entered its namespace.
const INSIDE: &str = "LIMIC_TEST_NAMESPACE";

/// The namespaces of one test, as long as it runs.
#[derive(Debug)]
pub struct Namespaces {
    names: [String; 2],
}

impl Namespaces {
    /// In the process that `cargo test` runs: makes them. `None`, said aloud, where it may not.
    /// Ranks find them by the process that has started them, and the name of the test.
    #[must_use]
    pub fn make(test: &str) -> Option<Self> {
        let made = Self {
            names: names(std::process::id(), test),
        };
        match made.set_up() {
            Ok(()) => Some(made),
            Err(why) => {
                skip(&format!("two network namespaces: {why}"));
                None
            }
        }
    }

    fn set_up(&self) -> Result<(), String> {
        let [a, b] = &self.names;
        ip(&["netns", "add", a])?;
        ip(&["netns", "add", b])?;
        ip(&[
            "link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b,
        ])?;
        for (number, name) in (1..).zip(&self.names) {
            let inside = |words: &[&str]| ip(&[&["-n", name], words].concat());
            inside(&[
                "addr",
                "add",
                &format!("10.77.0.{number}/24"),
                "dev",
                "eth0",
            ])?;
            let six = format!("fd77::{number}/64");
            inside(&["addr", "add", &six, "dev", "eth0", "nodad"])?;
            inside(&["link", "set", "lo", "up"])?;
            inside(&["link", "set", "eth0", "up"])?;
        }
        Ok(())
    }

    /// The names of both, as `ip netns` has them.
    #[must_use]
    pub fn names(&self) -> &[String; 2] {
        &self.names
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
        let name = &names(parent.unsigned_abs(), test)[node];
        let program = std::env::current_exe().expect("the test binary has a path");
        let error = Command::new("ip")
            .args(["netns", "exec", name])
            .arg(program)
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
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            // It may not have been made.
            let _ = ip(&["netns", "del", name]);
        }
    }
}

fn names(parent: u32, test: &str) -> [String; 2] {
    [0, 1].map(|node| format!("limic-{parent}-{test}-{node}"))
}

fn ip(words: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(words).output();
    let output = output.map_err(|error| format!("there is no program ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {}: {}", words.join(" "), said.trim()))
}
