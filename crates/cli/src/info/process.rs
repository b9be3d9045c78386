//! `limic info --pid`: the counters of a process that runs, read without disturbing it.

use std::fmt::Write;

use limic::counters::{Found, OutsideError, of_process};

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProcessError {
    #[error("--pid: {0}")]
    Outside(#[from] OutsideError),

    #[error(
        "--pid: process {0} has no endpoint of limic: it does not use limic, has not opened one yet, or has closed all"
    )]
    None(u32),

    #[error("JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// All endpoints of a process, by descriptor.
pub(super) fn text(pid: u32, json: bool) -> Result<String, ProcessError> {
    let found = of_process(pid)?;
    if found.is_empty() {
        return Err(ProcessError::None(pid));
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

/// The name of the process's program, as far as the kernel tells. The process chose it, so no control sequences.
fn program(pid: u32) -> String {
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    match name.trim_end() {
        "" => String::new(),
        name => format!(", {}", name.escape_default()),
    }
}
