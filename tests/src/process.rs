//! What a test wants to know about processes.

use std::os::fd::RawFd;
use std::time::Duration;

/// Nanoseconds of the clock that all processes share.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Lets time pass where the passing of time is what is tested.
pub fn pass(time: Duration) {
    std::thread::sleep(time);
}

/// Ends the calling process at once, as a crash or `kill -9` does.
pub fn die() -> ! {
    // It cannot fail for the own process; the exit is for the compiler.
    let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::SIGKILL);
    std::process::abort()
}

/// Ends the calling process as abruptly as a crash, but with success for the test.
pub fn vanish() -> ! {
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(0) }
}

/// Forks a child that holds all descriptors for a minute, if nobody ends it before. Gives its
/// number.
pub fn idle_child() -> i32 {
    // SAFETY: the child makes plain system calls only, which is allowed after a fork of a process
    // with threads. It closes the standard streams, so that the test does not wait for it.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            for descriptor in 0..3 {
                libc::close(descriptor);
            }
            libc::alarm(60);
            libc::pause();
            libc::_exit(0);
        }
        assert!(child > 0, "fork");
        child
    }
}

/// Bytes of memory that can be had without swapping.
#[must_use]
pub fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    let system = kib.unwrap_or(0) * 1024;
    // Inside a control group its limit counts too.
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    match (read("memory.max"), read("memory.current")) {
        (Some(most), Some(used)) => system.min(most.saturating_sub(used)),
        _ => system,
    }
}

/// Whether a socket with this abstract name exists.
#[must_use]
pub fn abstract_socket_exists(name: &str) -> bool {
    let text = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let wanted = format!("@{name}");
    text.lines()
        .any(|line| line.split_whitespace().last() == Some(&wanted))
}

/// The abstract name of an endpoint's socket, from its address.
#[must_use]
pub fn socket_name(address: &limic::Address) -> String {
    format!("limic/{}", endpoint_id(address))
}

/// The id of an endpoint, as its warnings print it.
#[must_use]
pub fn endpoint_id(address: &limic::Address) -> String {
    let text = address.to_string();
    let id = text
        .strip_prefix("limic:")
        .and_then(|text| text.split('@').next());
    id.unwrap_or_default().to_owned()
}

/// Bytes of memory that this process has, as `VmRSS` counts them.
#[must_use]
pub fn resident_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Mappings of this process.
#[must_use]
pub fn mappings() -> usize {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    text.lines().count()
}

/// How many descriptors of this process are open.
#[must_use]
pub fn open_descriptors() -> usize {
    descriptors().len()
}

/// The numbers of all open descriptors of this process, and of the one that reads them.
#[must_use]
pub fn descriptor_numbers() -> Vec<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("a list");
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.collect()
}

/// What the open descriptors of this process are, for people.
#[must_use]
pub fn descriptors() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let named = entries.flatten().map(|entry| {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        format!("{} {}", entry.file_name().display(), target.display())
    });
    named.collect()
}
