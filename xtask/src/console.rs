//! Progress lines, in colour on terminals only.

use std::fmt::Display;
use std::io::{IsTerminal, stderr, stdout};

/// Whether programs that write to a pipe of this one should use colour.
pub(crate) fn colour() -> bool {
    std::env::var_os("NO_COLOR").is_none() && stdout().is_terminal() && stderr().is_terminal()
}

fn paint(code: &str, text: &dyn Display) -> String {
    if colour() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_string()
    }
}

/// A step begins.
pub(crate) fn step(text: &dyn Display) {
    eprintln!("{}", paint("1;36", &format_args!("==> {text}")));
}

/// What is done within a step.
pub(crate) fn detail(text: &dyn Display) {
    eprintln!("    {text}");
}

/// Something was left out: visible, but no failure.
pub(crate) fn skipped(text: &dyn Display) {
    println!("{}", paint("1;33", &format_args!("SKIPPED: {text}")));
}

pub(crate) fn error(text: &dyn Display) {
    eprintln!("{} {text}", paint("1;31", &"error:"));
}

/// A line of another program without its colour codes (ECMA-48 control sequences).
pub(crate) fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c == '\x1b' {
            // `ESC [ parameters letter`
            for c in rest.by_ref() {
                if c.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn colours_are_taken_out() {
        assert_eq!(
            super::plain("test result: \x1b[32mok\x1b[m. 3 passed"),
            "test result: ok. 3 passed"
        );
    }
}
