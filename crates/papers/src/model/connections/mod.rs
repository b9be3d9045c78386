//! `limic model connections`: what a rank's connections take, against the ranks of a job.
//!
//! Over verbs it is memory, by send entries too: [`formula`] is the paper's, and [`measured`] makes
//! real queue pairs where there is a device. [`tcp`] has memory and packets over TCP.

mod formula;
#[cfg(feature = "ibverbs")]
mod measured;
mod tcp;

use comfy_table::{CellAlignment, Table, presets};
use limic_measure::numbers::significant;
use limic_measure::outputs::Outputs;
use limic_measure::{MeasureError, plot};

use self::formula::{TABLE_2, connection_kb, process_mb};
use self::tcp::Tcp;

/// What the connections of a process take over verbs and over TCP, against processes
///
/// Over verbs, memory by send-queue entries: from the model of "Reducing Connection Memory
/// Requirements of MPI for InfiniBand Clusters" (2007), with that paper's table 2 and figure 1
/// beside it. Where this machine has an RDMA device (Soft-RoCE too), real queue pairs are made,
/// connected and looked at. Over TCP, memory, packets of the start and keep-alive, and what real
/// endpoints take that are connected to each other.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Send-queue entries of each connection
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "5,10,20,40,100,200", value_parser = clap::value_parser!(u16).range(2..=4096))]
    wqe: Vec<u16>,

    /// Processes of the job, each connected to all others
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "2,64,1024,8192,100000", value_parser = clap::value_parser!(u32).range(2..=10_000_000))]
    processes: Vec<u32>,

    /// Queue pairs to make for each measurement; 0 measures nothing
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(0..=16_384))]
    pairs: u32,

    /// Endpoints to connect to each other over TCP; fewer than 3 measure nothing
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(0..=256))]
    endpoints: u32,

    #[command(flatten)]
    outputs: Outputs,
}

const AFTER_HELP: &str = "\
Examples:
  limic model connections
  limic model connections --wqe 5,10 --processes 1024,65536 --plot memory.svg
  limic model connections --pairs 1024       measure with more queue pairs

In limic's sources docs/decisions/0018-few-send-entries.md explains the numbers of verbs, and
docs/tcp.md those of TCP.";

/// What a connection takes with so many entries.
#[derive(Debug, serde::Serialize)]
struct Row {
    wqe: u16,
    model_kb: f64,
    /// Table 2 of the paper, where it has this number.
    paper_kb: Option<f64>,
    measured: Option<Measured>,
    /// MB of a process, for each number of processes.
    process_mb: Vec<f64>,
    /// The same with what was measured here per connection.
    measured_process_mb: Option<Vec<f64>>,
}

/// What a real queue pair takes, in KB (1000 bytes, as the paper counts).
#[derive(Debug, Clone, Copy, serde::Serialize)]
struct Measured {
    /// In this process.
    process_kb: f64,
    /// In the kernel.
    kernel_kb: f64,
    /// Queue pairs that were there, as the kernel counts them; fewer than asked for where the
    /// device has no more.
    pairs: u32,
}

impl Measured {
    fn sum(&self) -> f64 {
        self.process_kb + self.kernel_kb
    }
}

#[derive(Debug, serde::Serialize)]
struct Outcome {
    processes: Vec<u32>,
    rows: Vec<Row>,
    /// The device that was measured.
    device: Option<String>,
    /// Why none was.
    not_measured: Option<String>,
    tcp: Tcp,
}

/// Calculates, measures, and shows it as asked for.
pub(super) fn execute(args: &Args) -> Result<(), MeasureError> {
    args.outputs.check()?;
    let device = if args.pairs == 0 {
        Err("not asked for (--pairs 0)".to_owned())
    } else {
        measure_all(args)
    };
    let rows = args.wqe.iter().enumerate().map(|(number, &wqe)| {
        let of = |process: f64| {
            args.processes
                .iter()
                .map(move |n| process_mb(*n, process))
                .collect()
        };
        let measured = device.as_ref().ok().map(|(_, all)| all[number]);
        Row {
            wqe,
            model_kb: connection_kb(wqe),
            paper_kb: TABLE_2.iter().find(|row| row.0 == wqe).map(|row| row.1),
            measured,
            process_mb: of(connection_kb(wqe)),
            measured_process_mb: measured.map(|measured| of(measured.sum())),
        }
    });
    let rows = rows.collect::<Vec<_>>();
    let (device, not_measured) = match device {
        Ok((name, _)) => (Some(name), None),
        Err(why) => (None, Some(why)),
    };
    let outcome = Outcome {
        processes: args.processes.clone(),
        rows,
        device,
        not_measured,
        tcp: Tcp::of(&args.processes, args.endpoints),
    };
    args.outputs
        .show(&outcome, || text(&outcome), |path| draw(&outcome, path))
}

#[cfg(feature = "ibverbs")]
fn measure_all(args: &Args) -> Result<(String, Vec<Measured>), String> {
    let bench = measured::Bench::open().map_err(|error| error.to_string())?;
    let all = args.wqe.iter().map(|wqe| bench.measure(*wqe, args.pairs));
    let all: Result<Vec<_>, _> = all.collect();
    Ok((bench.name(), all.map_err(|error| error.to_string())?))
}

#[cfg(not(feature = "ibverbs"))]
fn measure_all(_args: &Args) -> Result<(String, Vec<Measured>), String> {
    Err(limic::networks::NetworkOff::NotBuilt.to_string())
}

fn text(outcome: &Outcome) -> String {
    let measured = outcome.device.is_some();
    let mut out =
        String::from("limic model connections: KB of a connection (1000 bytes) by send entries\n");
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["entries", "model", "paper, table 2", "off"];
    header.extend(if measured {
        &["queue pair here: process", "kernel", "sum"][..]
    } else {
        &[]
    });
    table.set_header(header);
    for row in &outcome.rows {
        let mut cells = vec![
            row.wqe.to_string(),
            format!("{:.2}", row.model_kb),
            row.paper_kb
                .map(|kb| format!("{kb:.2}"))
                .unwrap_or_default(),
            row.paper_kb
                .map(|kb| format!("{:+.1} %", (row.model_kb / kb - 1.0) * 100.0))
                .unwrap_or_default(),
        ];
        if let Some(measured) = row.measured {
            let all = [measured.process_kb, measured.kernel_kb, measured.sum()];
            cells.extend(all.map(|kb| format!("{kb:.2}")));
        }
        table.add_row(cells);
    }
    out.push_str(&right(table));
    out.push_str("\nMB of a process that is connected to all others, by processes\n");
    out.push_str(&processes_table(outcome));
    out.push_str(
        "note: figure 1 of the paper: 8192 processes take around 1 GB with 200 entries, around 120 MB with 10, and less than 90 MB with 5\n",
    );
    if let Some(name) = &outcome.device {
        let pairs = outcome.rows.first().and_then(|row| row.measured);
        out.push_str(&format!(
            "note: measured on {name} with {} connected queue pairs that share their queues; a driver of hardware holds more in the process\n",
            pairs.map_or(0, |measured| measured.pairs)
        ));
    }
    if let Some(why) = &outcome.not_measured {
        out.push_str(&format!("note: no queue pairs were measured: {why}\n"));
    }
    out.push_str(&outcome.tcp.text());
    out
}

fn processes_table(outcome: &Outcome) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let counts = outcome.processes.iter().map(u32::to_string);
    table.set_header(
        ["entries".to_owned(), String::new()]
            .into_iter()
            .chain(counts),
    );
    for row in &outcome.rows {
        let cells = |name: &str, all: &[f64]| {
            let begin = [row.wqe.to_string(), name.to_owned()];
            let rest = all.iter().map(|mb| significant(*mb));
            begin.into_iter().chain(rest).collect::<Vec<_>>()
        };
        table.add_row(cells("model", &row.process_mb));
        if let Some(here) = &row.measured_process_mb {
            table.add_row(cells("measured", here));
        }
    }
    right(table)
}

fn right(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{}\n", table.trim_fmt())
}

fn draw(outcome: &Outcome, path: &std::path::Path) -> Result<(), MeasureError> {
    let mut lines = plot::Lines::new();
    for row in &outcome.rows {
        let mut add = |name: &str, all: &[f64]| {
            let points = outcome.processes.iter().zip(all);
            let points = points.map(|(count, mb)| (f64::from(*count), *mb)).collect();
            lines.insert(format!("{:>4} entries, {name}", row.wqe), points);
        };
        add("model", &row.process_mb);
        if let Some(here) = &row.measured_process_mb {
            add("measured", here);
        }
    }
    let axes = plot::Axes {
        title: "limic model connections: memory of a process that is connected to all".to_owned(),
        x: "processes",
        y: "MB",
        x_is_bytes: false,
    };
    plot::draw(&lines, &axes, path)?;
    Ok(())
}
