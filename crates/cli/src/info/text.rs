//! What `limic info` shows to people: at most [`WIDTH`] columns, and without `--all` no more than
//! what is particular to this machine and these settings.

use comfy_table::{ContentArrangement, Table, presets};
use limic::settings::{ByteSize, Path, Variable};

use super::{Info, Threshold};

/// Columns of a line, but for words that are longer.
const WIDTH: usize = 100;

/// Of these, at the beginning of each line of a section.
const INDENT: usize = 2;

impl Info {
    pub(super) fn text(&self, all: bool) -> String {
        let mut text = format!("limic {}\n", self.limic);
        section(&mut text, "Topology", &self.topology.to_string());
        section(&mut text, "Paths", &self.paths());
        section(&mut text, "Networks", &self.networks());
        section(&mut text, "Memory", &self.placement.to_string());
        section(&mut text, "Copies", &self.copies.to_string());
        if all {
            section(&mut text, "Thresholds", &self.rows());
            section(&mut text, "Settings", &self.settings());
        } else {
            section(&mut text, "Thresholds", &self.thresholds());
            section(&mut text, "Settings", &self.set_here());
        }
        if !self.warnings.is_empty() {
            section(&mut text, "Warnings", &self.warnings.join("\n"));
        }
        text
    }

    fn paths(&self) -> String {
        let mut table = plain_table();
        let mut before = None;
        for state in &self.paths {
            let mut about = state.meaning.to_owned();
            if let (Some(reason), Some(remedy)) = (&state.reason, &state.remedy) {
                match before {
                    Some((path, same)) if same == reason => {
                        about.push_str(&format!("\nwhy, remedy: as {path}"));
                    }
                    _ => about.push_str(&format!("\nwhy: {reason}\nremedy: {remedy}")),
                }
                before = Some((state.path, reason));
            }
            table.add_row([state.path, state.state.name(), &about]);
        }
        table.trim_fmt()
    }

    /// What leads to other machines.
    fn networks(&self) -> String {
        let mut table = plain_table();
        for network in &self.networks {
            let about = match (&network.at, &network.reason, &network.remedy) {
                (_, Some(reason), Some(remedy)) => format!("why: {reason}\nremedy: {remedy}"),
                (Some(at), ..) => format!("peers on other machines reach this one at {at}"),
                _ => String::new(),
            };
            table.add_row([network.network, network.state.name(), &about]);
        }
        table.trim_fmt()
    }

    /// One line for each locality and pace of the receiver.
    fn thresholds(&self) -> String {
        let mut table = plain_table();
        table.set_header([
            "locality",
            "receiver",
            "path by length of a message, in bytes",
        ]);
        let pair = |row: &Threshold| (row.locality, row.when);
        for rows in self.thresholds.chunk_by(|a, b| pair(a) == pair(b)) {
            // A message to oneself has one path.
            if rows[0].path == Path::SelfCopy {
                continue;
            }
            let parts: Vec<String> = rows.iter().map(Threshold::part).collect();
            let locality = rows[0].locality.to_string();
            table.add_row([locality.as_str(), rows[0].when, &parts.join(", ")]);
        }
        format!(
            "{}\nlimic info --all: each row with its reason; --why: one message",
            table.trim_fmt()
        )
    }

    /// Each row, and below it its reason.
    fn rows(&self) -> String {
        let mut text = format!(
            "{:13}  {:13}  {:>9}  {:10}  from\n",
            "locality", "receiver", "up to", "path"
        );
        for row in &self.thresholds {
            let up_to = row.up_to_bytes.unwrap_or(u64::MAX);
            text.push_str(&format!(
                "{:13}  {:13}  {:>9}  {:10}  {}\n    {}\n",
                row.locality.to_string(),
                row.when,
                ByteSize(up_to).to_string(),
                row.path.name(),
                row.source,
                row.reason
            ));
        }
        text
    }

    /// Each setting, and below it what it means.
    fn settings(&self) -> String {
        let one = |variable: &Variable| {
            let value = spaced(&variable.value);
            let (name, source, meaning) = (variable.name, &variable.source, variable.meaning);
            format!("{name} = {value}  ({source})\n    {meaning}\n")
        };
        self.settings.iter().map(one).collect()
    }

    /// The settings that are not built in.
    fn set_here(&self) -> String {
        let mut table = plain_table();
        let set = self
            .settings
            .iter()
            .filter(|variable| variable.source != BUILT_IN);
        for variable in set {
            table.add_row([
                variable.name,
                &spaced(&variable.value),
                &format!("from {}", variable.source),
            ]);
        }
        let others = "limic info --all: every setting with its meaning";
        if table.is_empty() {
            return format!("none is set\n{others}");
        }
        format!("{}\n{others}", table.trim_fmt())
    }
}

/// Where values come from that nobody set.
const BUILT_IN: &str = "built-in";

impl Threshold {
    /// `eager to 64K`; with its source, if that is not limic itself.
    fn part(&self) -> String {
        let path = self.path.name();
        let mut part = match self.up_to_bytes {
            Some(bytes) => format!("{path} to {}", ByteSize(bytes)),
            None => format!("{path} beyond"),
        };
        if self.source != BUILT_IN {
            part.push_str(&format!(" ({})", self.source));
        }
        part
    }
}

/// A list that can be wrapped.
fn spaced(list: &str) -> String {
    list.replace(", ", ",").replace(',', ", ")
}

fn section(text: &mut String, title: &str, body: &str) {
    text.push_str(&format!("\n{title}\n"));
    for line in body.lines() {
        for part in wrapped(line.trim_end()) {
            text.push_str(&format!("{:INDENT$}{part}\n", ""));
        }
    }
}

/// A line in parts that fit; those after the first are indented.
fn wrapped(line: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = line.to_owned();
    while rest.len() > WIDTH - INDENT {
        let fits = rest.get(..=WIDTH - INDENT);
        let begin = rest.len() - rest.trim_start().len();
        let Some(space) = fits
            .and_then(|fits| fits.rfind(' '))
            .filter(|at| *at > begin)
        else {
            break;
        };
        let behind = rest.split_off(space);
        parts.push(std::mem::replace(
            &mut rest,
            format!("    {}", behind.trim_start()),
        ));
    }
    parts.push(rest);
    parts
}

/// A table without lines, whose cells are wrapped.
fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width((WIDTH - INDENT) as u16);
    table
}
