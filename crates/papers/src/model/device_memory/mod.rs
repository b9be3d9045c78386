//! `limic model device-memory`: what memory on the adapter is worth, by simulation.
//!
//! [`events`] is the simulation, [`cluster`] says which stations a message passes, [`scenario`]
//! what is sent, [`machine`] how fast everything is, and [`paper`] compares the model with what was
//! measured in 2004.

mod cluster;
mod events;
mod machine;
mod paper;
mod scenario;

use std::path::PathBuf;

use comfy_table::{CellAlignment, Table, presets};
use limic::settings::ByteSize;
use limic_measure::numbers::significant;
use limic_measure::outputs::Outputs;
use limic_measure::sizes::SizeList;
use limic_measure::{MeasureError, plot};

use self::cluster::Buffer;
use self::machine::Machine;
use self::paper::Quoted;
use self::scenario::{Chain, Ends, Upload, bandwidth, local};

/// What memory on the adapter is worth: forwarding chains, bandwidth and hot spots in a
/// discrete-event model
///
/// The model moves messages in cells through host buses, memory on the adapter, the adapter's
/// processor and links. It is fed with the figures of section 3 of "Can NIC Memory in InfiniBand
/// Benefit Communication Performance?" (2004) and says what that paper's forwarding chains take
/// (its figures 12 to 14); with --machine or --set it is fed with an adapter of today. Nothing is
/// measured: for that see `limic perf chain`, which uses the adapter that is there.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A TOML file with numbers of the machine; those that it lacks are the paper's
    #[arg(long, value_name = "FILE.toml")]
    machine: Option<PathBuf>,

    /// Replace one number of the machine; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Print the machine's numbers as a file for --machine, and do nothing else
    #[arg(long)]
    print_machine: bool,

    /// Nodes of the chain
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(3..=64))]
    nodes: u16,

    /// Message sizes, as limic perf takes them
    #[arg(long, value_name = "LIST", default_value = "4K,64K,1M", value_parser = parse_sizes)]
    sizes: SizeList,

    /// Nodes pass on pieces of this size as they come [default: whole messages]
    #[arg(long, value_name = "SIZE")]
    chunk: Option<ByteSize>,

    /// When nodes between copy the message to their own host memory
    #[arg(long, value_enum, default_value = "after")]
    upload: Upload,

    #[command(flatten)]
    outputs: Outputs,
}

const AFTER_HELP: &str = "\
Examples:
  limic model device-memory                              the paper's machine, and the paper beside it
  limic model device-memory --print-machine > mine.toml  then change what differs
  limic model device-memory --machine mine.toml --sizes 1K..1M --plot chain.svg
  limic model device-memory --set ports=1 --set bus_duplex=true

docs/decisions/0021-memory-on-the-adapter.md in limic's sources explains the numbers.";

/// The longest message that is simulated.
const LONGEST: usize = 16 << 20;

fn parse_sizes(text: &str) -> Result<SizeList, String> {
    let sizes: SizeList = text.parse().map_err(|error| format!("{error}"))?;
    match sizes.as_slice() {
        list if list.contains(&0) => Err("a message has at least 1 byte".into()),
        _ if sizes.longest() > LONGEST => Err("at most 16M are simulated".into()),
        _ => Ok(sizes),
    }
}

/// A chain at one size.
#[derive(Debug, serde::Serialize)]
struct ChainRow {
    bytes: u64,
    ports: u8,
    nodes: u16,
    host_us: f64,
    device_us: f64,
    /// The whole chain.
    gain: f64,
    /// What the last node between gains.
    node_gain: f64,
    /// Nodes pass on pieces of this size.
    piece_bytes: u64,
}

/// One combination of buffers.
#[derive(Debug, serde::Serialize)]
struct Rates {
    ends: &'static str,
    local_mb_s: f64,
    /// One way over one port, then over all; both ways the same.
    one_way_mb_s: [f64; 2],
    both_ways_mb_s: [f64; 2],
}

#[derive(Debug, serde::Serialize)]
struct Outcome {
    machine: Machine,
    upload: Upload,
    rates: Vec<Rates>,
    chains: Vec<ChainRow>,
    paper: Vec<Quoted>,
}

/// Simulates, and shows it as asked for.
pub(super) fn execute(args: &Args) -> Result<(), MeasureError> {
    args.outputs.check()?;
    let machine = match &args.machine {
        Some(path) => Machine::read(path),
        None => Ok(Machine::PAPER),
    };
    let machine = machine
        .and_then(|machine| machine.with(&args.set))
        .and_then(Machine::check)
        .map_err(MeasureError::Usage)?;
    if args.print_machine {
        super::print(&machine.text());
        return Ok(());
    }
    let outcome = simulate(args, machine);
    args.outputs.show(
        &outcome,
        || text(args, &outcome),
        |path| draw(&outcome, path),
    )
}

fn simulate(args: &Args, machine: Machine) -> Outcome {
    let rates = |ends: Ends| Rates {
        ends: ends.name(),
        local_mb_s: local(&machine, ends),
        one_way_mb_s: [1, machine.ports].map(|ports| bandwidth(&machine, ends, ports, false)),
        both_ways_mb_s: [1, machine.ports].map(|ports| bandwidth(&machine, ends, ports, true)),
    };
    let mut chains = Vec::new();
    for ports in 1..=machine.ports {
        for &bytes in args.sizes.as_slice() {
            let bytes = bytes as u64;
            let chain = Chain {
                nodes: args.nodes.into(),
                ports,
                bytes,
                chunk: args.chunk.map_or(bytes, |chunk| chunk.0),
                upload: args.upload,
            };
            let host_us = chain.run(&machine, Buffer::Host);
            let device_us = chain.run(&machine, Buffer::Device);
            chains.push(ChainRow {
                bytes,
                ports,
                nodes: args.nodes,
                host_us,
                device_us,
                gain: host_us / device_us,
                node_gain: paper::hop_gain(&machine, chain),
                piece_bytes: chain.piece(&machine),
            });
        }
    }
    Outcome {
        machine,
        upload: args.upload,
        rates: Ends::ALL.into_iter().map(rates).collect(),
        chains,
        paper: if machine == Machine::PAPER {
            paper::all()
        } else {
            Vec::new()
        },
    }
}

fn text(args: &Args, outcome: &Outcome) -> String {
    let whose = if outcome.paper.is_empty() {
        "the machine given"
    } else {
        "the paper's machine (MT23108, PCI-X 133)"
    };
    let mut out =
        format!("limic model device-memory: {whose}; a simulation, nothing is measured\n");
    out.push_str("\nbandwidth in MB/s\n");
    out.push_str(&rates_table(outcome));
    out.push_str(&format!(
        "\nforwarding chain of {} nodes: microseconds until the last one has the message\n",
        args.nodes
    ));
    out.push_str(&chains_table(outcome));
    if outcome.paper.is_empty() {
        return out;
    }
    out.push_str("\nthe paper beside the model\n");
    out.push_str(&paper_table(&outcome.paper));
    let sizes = [8, 2048, 64 << 10, 1 << 20];
    let gains = sizes.map(|bytes| {
        let gain = paper::latency_gain(&outcome.machine, bytes);
        format!("{:.0} % at {}", (gain - 1.0) * 100.0, ByteSize(bytes))
    });
    out.push_str(&format!(
        "note: figure 4 has latency gains of 7 to 14 % between device memories; the model: {}\n",
        gains.join(", ")
    ));
    out.push_str(
        "note: '*' was fed to the model. The paper does not say at which size and length 2.2 x was found; a whole chain's \
         first and last hop cross a bus in any case, so it gains less than each node between (column 'per node')\n",
    );
    out
}

fn rates_table(outcome: &Outcome) -> String {
    let mut table = plain_table();
    let ports = outcome.machine.ports;
    let two = ports > 1;
    let mut header = vec!["buffers", "in a node", "1 port", "both ways"];
    header.extend(if two {
        &["2 ports", "both ways"][..]
    } else {
        &[]
    });
    table.set_header(header);
    for row in &outcome.rates {
        let mut cells = vec![row.ends.to_owned(), format!("{:.0}", row.local_mb_s)];
        for port in 0..usize::from(ports) {
            cells.push(format!("{:.0}", row.one_way_mb_s[port]));
            cells.push(format!("{:.0}", row.both_ways_mb_s[port]));
        }
        table.add_row(cells);
    }
    finished(table, &[0])
}

fn chains_table(outcome: &Outcome) -> String {
    let mut table = plain_table();
    table.set_header([
        "bytes",
        "ports",
        "host memory",
        "device memory",
        "gain",
        "per node",
        "pieces of",
    ]);
    for row in &outcome.chains {
        table.add_row([
            ByteSize(row.bytes).to_string(),
            row.ports.to_string(),
            significant(row.host_us),
            significant(row.device_us),
            format!("{:.2}", row.gain),
            format!("{:.2}", row.node_gain),
            ByteSize(row.piece_bytes).to_string(),
        ]);
    }
    finished(table, &[])
}

fn paper_table(quoted: &[Quoted]) -> String {
    let mut table = plain_table();
    table.set_header(["figure", "what", "paper", "model", "off"]);
    for row in quoted {
        let number = |value: f64| match row.unit {
            "x" => format!("{value:.2} x"),
            _ => format!("{value:.0}"),
        };
        table.add_row([
            row.figure.to_owned(),
            row.what.clone(),
            format!("{}{}", number(row.paper), if row.fed { " *" } else { "" }),
            number(row.model),
            format!("{:+.1} %", row.off() * 100.0),
        ]);
    }
    finished(table, &[1])
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// The text of a table; all columns but `left` are aligned to the right.
fn finished(mut table: Table, left: &[usize]) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        if !left.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}

fn draw(outcome: &Outcome, path: &std::path::Path) -> Result<(), MeasureError> {
    let mut lines = plot::Lines::new();
    for row in &outcome.chains {
        for (name, us) in [("host", row.host_us), ("device", row.device_us)] {
            let line = format!("{name} memory, {} port(s)", row.ports);
            lines.entry(line).or_default().push((row.bytes as f64, us));
        }
    }
    let nodes = outcome.chains.first().map_or(0, |row| row.nodes);
    let axes = plot::Axes {
        title: format!("limic model device-memory: a forwarding chain of {nodes} nodes"),
        x: "message size in bytes",
        y: "us until the last node has it",
        x_is_bytes: true,
    };
    plot::draw(&lines, &axes, path)?;
    Ok(())
}
