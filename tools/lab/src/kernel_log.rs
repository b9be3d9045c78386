//! The messages of the guest's kernel, and the complaints among them.

use std::time::{Duration, Instant};

/// Beginnings of messages that a healthy kernel does not print (behind the time stamp).
const COMPLAINTS: [&str; 17] = [
    "WARNING:",
    "BUG:",
    "Oops",
    "Kernel panic",
    "general protection fault",
    "kernel BUG at",
    "UBSAN:",
    "INFO: task ",
    "INFO: possible ",
    "INFO: suspicious ",
    "INFO: trying to register non-static key",
    "rcu: INFO:",
    "watchdog: BUG",
    "unreferenced object",
    "rust_kernel: panicked at",
    "kmemleak: Cannot allocate a kmemleak_object",
    "kmemleak: Kernel memory leak detector disabled",
];

/// The lines of the kernel, and the first complaint in them.
#[derive(Debug, Default)]
pub(crate) struct KernelLog {
    partial: Vec<u8>,
    lines: Vec<String>,
    /// The step that runs, as the guest's first program says.
    step: String,
    complaint: Option<Complaint>,
}

#[derive(Debug)]
struct Complaint {
    text: String,
    at: Instant,
    step: String,
}

/// The line of the guest's first program before each step.
const BEGIN: &str = "limic-lab: begin ";

impl KernelLog {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            self.line(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
    }

    fn line(&mut self, line: String) {
        let text = behind_stamp(&line);
        let complains = COMPLAINTS.iter().any(|start| text.starts_with(start));
        if complains && self.complaint.is_none() {
            self.complaint = Some(Complaint {
                text: text.to_owned(),
                at: Instant::now(),
                step: self.step.clone(),
            });
        }
        if let Some(step) = text.strip_prefix(BEGIN) {
            self.step = step.to_owned();
        }
        self.lines.push(line);
    }

    /// The first complaint, once there was time to print its report.
    pub(crate) fn complaint(&self) -> Option<&str> {
        let complaint = self.complaint.as_ref()?;
        let told = complaint.at.elapsed() > Duration::from_secs(2);
        told.then_some(complaint.text.as_str())
    }

    /// The first complaint, however fresh, if it came while the step of this name ran.
    pub(crate) fn complaint_in(&self, step: &str) -> Option<&str> {
        let complaint = self.complaint.as_ref()?;
        (complaint.step == step).then_some(complaint.text.as_str())
    }

    /// Forgets the complaint, which was expected. The next one counts anew.
    pub(crate) fn pardon(&mut self) {
        self.complaint = None;
    }

    /// The first complaint, however fresh, for a machine that has ended.
    pub(crate) fn last_word(&self) -> Option<&str> {
        self.complaint
            .as_ref()
            .map(|complaint| complaint.text.as_str())
    }

    /// Whether there is a complaint to wait for.
    pub(crate) fn is_unwell(&self) -> bool {
        self.complaint.is_some()
    }

    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }
}

/// `[    1.234567] text`, or `[    1.234567][    T1] text`.
fn behind_stamp(line: &str) -> &str {
    let mut rest = line.trim_start();
    while let Some((stamp, text)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        if !stamp
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || " .".contains(c))
        {
            break;
        }
        rest = text.trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> Option<String> {
        let mut log = KernelLog::default();
        log.feed(text.as_bytes());
        log.last_word().map(str::to_owned)
    }

    #[test]
    fn complaints_are_told_from_chatter() {
        let none =
            "[    0.100000] Linux version 7.2\n[    1.0] limic: WARNING is only a word here\n";
        assert_eq!(complaint(none), None);
        let warning = "[    3.141592][   T77] WARNING: CPU: 0 PID: 77 at kernel/fork.c:1\n";
        assert_eq!(
            complaint(warning).as_deref(),
            Some("WARNING: CPU: 0 PID: 77 at kernel/fork.c:1")
        );
        let leak = "unreferenced object 0xffff (size 64):\n";
        assert_eq!(
            complaint(leak).as_deref(),
            Some("unreferenced object 0xffff (size 64):")
        );
        let first = "[ 1.0] WARNING: first\n[ 1.1] BUG: second\n";
        assert_eq!(complaint(first).as_deref(), Some("WARNING: first"));
    }

    #[test]
    fn complaints_belong_to_the_step_that_ran() {
        let mut log = KernelLog::default();
        log.feed(b"[ 1.0][   T1] limic-lab: begin 00003\n[ 1.1] BUG: KASAN: first\n");
        log.feed(b"[ 2.0][   T1] limic-lab: begin 00004\n");
        assert_eq!(log.complaint_in("00003"), Some("BUG: KASAN: first"));
        assert_eq!(log.complaint_in("00004"), None);
        log.pardon();
        log.feed(b"[ 2.1] BUG: second\n");
        assert_eq!(log.complaint_in("00004"), Some("BUG: second"));
    }
}
