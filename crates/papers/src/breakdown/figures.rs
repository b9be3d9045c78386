//! The module's figures in debugfs: `measure` turns them on, `breakdown` holds them.

use std::cell::Cell;
use std::{fs, io};

use limic_measure::MeasureError;

const FOLDER: &str = "/sys/kernel/debug/limic";

/// The longest message that has a row of its own; longer ones share one.
const LONGEST: usize = 4 << 20;
/// The shortest row.
const SHORTEST: usize = 64;

/// Nanoseconds of one call in each step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) calls: u64,
    pub(super) list: u64,
    pub(super) queue: u64,
    pub(super) pin: u64,
    pub(super) map: u64,
    pub(super) copy: u64,
    pub(super) complete: u64,
}

/// The right to measure. It ends with this object.
#[derive(Debug)]
pub(super) struct Measuring {
    /// The session that is measured: with its end, which a kill is too, the module stops by itself.
    session: u64,
    disturbed: Cell<bool>,
}

impl Measuring {
    /// Makes sure that nobody else measures: the figures are the module's, and there is one set.
    pub(super) fn open(session: u64) -> Result<Self, MeasureError> {
        if read("measure")?.trim() == "1" {
            return Err(MeasureError::Module(format!(
                "somebody measures already: wait for that to end, or `echo 0 > {FOLDER}/measure`"
            )));
        }
        Ok(Self {
            session,
            disturbed: Cell::new(false),
        })
    }

    /// Sets all figures to 0, and measures from now on.
    pub(super) fn start(&self) -> Result<(), MeasureError> {
        switch(&format!("1 {}", self.session))
    }

    /// What so many messages of one length cost since the start: whoever came second, and first.
    pub(super) fn read(
        &self,
        bytes: usize,
        calls: u64,
    ) -> Result<(Figures, Figures), MeasureError> {
        let text = read("breakdown")?;
        switch("0")?;
        let row = |kind| {
            let found = figures(&text, kind, &class(bytes));
            found.ok_or_else(|| {
                MeasureError::Module(format!(
                    "{FOLDER}/breakdown has no row '{kind} {}' after {calls} such calls; it says:\n{text}",
                    class(bytes)
                ))
            })
        };
        let (transfer, post) = (row("transfer")?, row("post")?);
        if transfer.calls != calls || post.calls != calls {
            self.disturbed.set(true);
        }
        Ok((transfer, post))
    }

    /// Whether there were calls that were not this process's.
    pub(super) fn disturbed(&self) -> bool {
        self.disturbed.get()
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        // If it stays on, calls pay for the clock and the next measurement says so.
        let _ = switch("0");
    }
}

/// The row in which messages of this length are counted.
fn class(bytes: usize) -> String {
    if bytes > LONGEST {
        "more".to_owned()
    } else {
        bytes.max(SHORTEST).next_power_of_two().to_string()
    }
}

/// One row of the module's table, whose first line names the columns.
fn figures(text: &str, kind: &str, class: &str) -> Option<Figures> {
    let mut lines = text.lines();
    let names = lines.next()?.split_whitespace().skip(2);
    let row = lines.find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(kind) && words.next() == Some(class)).then_some(words)
    })?;
    let mut figures = Figures::default();
    for (name, number) in names.zip(row) {
        let number = number.parse().ok()?;
        match name {
            "calls" => figures.calls = number,
            "list_ns" => figures.list = number,
            "queue_ns" => figures.queue = number,
            "pin_ns" => figures.pin = number,
            "map_ns" => figures.map = number,
            "copy_ns" => figures.copy = number,
            "complete_ns" => figures.complete = number,
            _ => {}
        }
    }
    Some(figures)
}

fn read(name: &str) -> Result<String, MeasureError> {
    fs::read_to_string(format!("{FOLDER}/{name}")).map_err(|why| unreadable(name, &why))
}

fn switch(word: &str) -> Result<(), MeasureError> {
    fs::write(format!("{FOLDER}/measure"), word).map_err(|why| unreadable("measure", &why))
}

fn unreadable(name: &str, why: &io::Error) -> MeasureError {
    let advice = match why.kind() {
        io::ErrorKind::PermissionDenied => "the figures are for root: run this as root",
        io::ErrorKind::NotFound => {
            "is debugfs mounted? `mount -t debugfs debugfs /sys/kernel/debug`, as root"
        }
        _ => "debugfs does not answer",
    };
    MeasureError::Module(format!("{FOLDER}/{name}: {why}; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_by_the_names_of_its_columns() {
        let text = "call max_bytes calls list_ns queue_ns pin_ns map_ns copy_ns complete_ns later_ns\n\
                    transfer 64 10 1 2 0 3 4 5 9\n\
                    transfer 4096 7 11 12 0 13 14 15 9\n\
                    post more 3 21 22 23 0 0 25 9\n";
        let long = figures(text, "transfer", &class(4000));
        let wanted = Figures {
            calls: 7,
            list: 11,
            queue: 12,
            pin: 0,
            map: 13,
            copy: 14,
            complete: 15,
        };
        assert_eq!(long, Some(wanted));
        assert_eq!(
            figures(text, "post", &class(5 << 20)).map(|row| row.pin),
            Some(23)
        );
        assert_eq!(
            figures(text, "transfer", &class(1)).map(|row| row.calls),
            Some(10)
        );
        assert_eq!(figures(text, "post", &class(64)), None);
        assert_eq!(figures("", "post", "64"), None);
    }
}
