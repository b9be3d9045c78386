//! Progress lines, in colour on terminals only.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

const STEP: Style = AnsiColor::Cyan.on_default().bold();
const SKIPPED: Style = AnsiColor::Yellow.on_default().bold();
const ERROR: Style = AnsiColor::Red.on_default().bold();

/// A step begins.
pub fn step(text: &dyn Display) {
    anstream::eprintln!("{STEP}==> {text}{STEP:#}");
}

/// A detail of a step.
pub fn detail(text: &dyn Display) {
    eprintln!("    {text}");
}

/// A check was left out: visible, but no failure.
pub(crate) fn skipped(text: &dyn Display) {
    anstream::println!("{SKIPPED}SKIPPED: {text}{SKIPPED:#}");
}

/// Something failed.
pub fn error(text: &dyn Display) {
    anstream::eprintln!("{ERROR}error:{ERROR:#} {text}");
}
