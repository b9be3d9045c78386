//! `limic info --pid`: the counters of a process that runs, read without disturbing it.

use std::fmt::Write;

use limic::counters::{CountersError, Found, of_process};

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProcessError {
    #[error("--pid: {0}")]
    Outside(#[from] CountersError),

    #[error(
        "--pid: process {pid} has no endpoint of limic: it does not use limic, has not opened one yet, or has closed all{}",
        below(descendants)
    )]
    None { pid: u32, descendants: Vec<u32> },

    #[error("JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// All endpoints of a process, by descriptor.
pub(super) fn text(pid: u32, json: bool) -> Result<String, ProcessError> {
    let found = of_process(pid)?;
    if found.is_empty() {
        // Most likely it is the launcher.
        let mut descendants = descendants(pid);
        descendants.retain(|pid| of_process(*pid).is_ok_and(|found| !found.is_empty()));
        return Err(ProcessError::None { pid, descendants });
    }
    if json {
        return self::json(pid, &found);
    }
    let mut text = format!("process {pid}{}\n", program(pid));
    for found in &found {
        // Writing to a string cannot fail.
        let _ = match &found.page {
            Ok(page) if found.inherited => write!(
                text,
                "\ninherited from process {}, which opened it:\n{page}",
                page.process
            ),
            Ok(page) => write!(text, "\n{page}"),
            Err(why) => writeln!(
                text,
                "\ndescriptor {} is named like a page of counters, and is none: {why}",
                found.descriptor
            ),
        };
    }
    Ok(text)
}

fn json(pid: u32, found: &[Found]) -> Result<String, ProcessError> {
    let mut endpoints = Vec::new();
    for found in found {
        let mut endpoint = match &found.page {
            Ok(page) => serde_json::from_str(&page.to_json())?,
            Err(why) => serde_json::json!({ "error": why.to_string() }),
        };
        endpoint["descriptor"] = found.descriptor.into();
        endpoint["inherited"] = found.inherited.into();
        endpoints.push(endpoint);
    }
    let all = serde_json::json!({
        "limic": env!("CARGO_PKG_VERSION"),
        "process": pid,
        "endpoints": endpoints,
    });
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

/// Which processes to ask instead.
fn below(descendants: &[u32]) -> String {
    let list: Vec<String> = descendants
        .iter()
        .map(|pid| format!("{pid}{}", program(*pid)))
        .collect();
    if list.is_empty() {
        return String::new();
    }
    format!("; processes that it has started have: {}", list.join("; "))
}

/// The processes that a process has started, and those that these have, ascending.
fn descendants(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = numbers
        .filter_map(|child| {
            let stat = std::fs::read(format!("/proc/{child}/stat")).ok()?;
            Some((child, parent(&String::from_utf8_lossy(&stat))?))
        })
        .collect();
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        // Processes come and go while the list is read: a number may be used twice.
        for (child, of) in &parents {
            if *of == parent && !found.contains(child) {
                found.push(*child);
            }
        }
        at += 1;
    }
    found.remove(0);
    found.sort_unstable();
    found
}

/// `pid (name) state parent ...`; the name may hold anything.
fn parent(stat: &str) -> Option<u32> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(1)?.parse().ok()
}

/// The name of the process's program, as far as the kernel tells. The process chose it, so no
/// control sequences.
fn program(pid: u32) -> String {
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    match name.trim_end() {
        "" => String::new(),
        name => format!(", {}", name.escape_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_read_whatever_the_name() {
        assert_eq!(parent("12 (a) S 7 1 2"), Some(7));
        assert_eq!(parent("12 (a) S 9) R 8 1 2"), Some(8));
        assert_eq!(parent("12 a"), None);
    }

    #[test]
    fn this_process_is_among_those_of_its_parent() {
        let parent = std::os::unix::process::parent_id();
        assert!(descendants(parent).contains(&std::process::id()));
        assert!(!descendants(std::process::id()).contains(&parent));
    }
}
