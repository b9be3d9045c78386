//! Two network namespaces as two machines: processes there share no memory, and a link of two
//! Ethernet ends is between them.

use std::ffi::OsStr;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a link may take to come up.
const LONGEST: Duration = Duration::from_secs(10);

/// Two namespaces, as long as this lives.
#[derive(Debug)]
pub struct Namespaces {
    names: [String; 2],
}

impl Namespaces {
    /// The addresses of the two machines, on the link between them.
    pub const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

    /// Makes them, with names of this process.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn make(name: &str) -> Result<Self, String> {
        let made = Self {
            names: Self::names_of(std::process::id(), name),
        };
        made.set_up().map(|()| made)
    }

    /// The names of those that another process has made.
    #[must_use]
    pub fn names_of(process: u32, name: &str) -> [String; 2] {
        [0, 1].map(|node| format!("limic-{process}-{name}-{node}"))
    }

    fn set_up(&self) -> Result<(), String> {
        let [a, b] = &self.names;
        ip(&["netns", "add", a])?;
        ip(&["netns", "add", b])?;
        ip(&[
            "link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b,
        ])?;
        for (at, name) in self.names.iter().enumerate() {
            let inside = |words: &[&str]| ip(&[&["-n", name], words].concat());
            let four = format!("{}/24", Self::ADDRESSES[at]);
            inside(&["addr", "add", &four, "dev", "eth0"])?;
            let six = format!("fd77::{}/64", at + 1);
            inside(&["addr", "add", &six, "dev", "eth0", "nodad"])?;
            inside(&["link", "set", "lo", "up"])?;
            inside(&["link", "set", "eth0", "up"])?;
        }
        self.names.iter().try_for_each(|name| wait_for_link(name))
    }

    /// The names of both, as `ip netns` has them.
    #[must_use]
    pub fn names(&self) -> &[String; 2] {
        &self.names
    }

    /// A command that runs a program on one of the machines.
    pub fn command(&self, node: usize, program: impl AsRef<OsStr>) -> Command {
        within(&self.names[node], program)
    }
}

/// The kernel says a little later that a link is there, and programs that ask before miss it.
fn wait_for_link(name: &str) -> Result<(), String> {
    let since = Instant::now();
    while !said_by(&["-n", name, "link", "show", "eth0"])?.contains("state UP") {
        if since.elapsed() > LONGEST {
            return Err(format!("the link in {name} does not come up"));
        }
        std::thread::yield_now();
    }
    Ok(())
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            // It may not have been made.
            let _ = ip(&["netns", "del", name]);
        }
    }
}

/// A command that runs a program in the namespace of this name.
pub fn within(namespace: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

/// Runs the program `ip`.
///
/// # Errors
/// What it says, if it fails.
pub fn ip(words: &[&str]) -> Result<(), String> {
    said_by(words).map(drop)
}

fn said_by(words: &[&str]) -> Result<String, String> {
    let output = Command::new("ip").args(words).output();
    let output = output.map_err(|error| format!("there is no program ip: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {}: {}", words.join(" "), said.trim()))
}
