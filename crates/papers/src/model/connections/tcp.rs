//! Connections over TCP: memory, packets of the start, and keep-alive; by calculation, and of real
//! endpoints that are connected to each other.

use core::ops::Range;
use core::time::Duration;
use std::time::Instant;

use comfy_table::{Table, presets};
use limic::settings::FabricUse;
use limic::{Endpoint, Error, HybridEndpoint, Selector, Settings, Tag};
use limic_measure::numbers::significant;
use rustix::process::{Resource, getrlimit};

use super::right;
use crate::memory::{kernel, resident};

/// What one end of a connection takes in its process and in the kernel, and what goes over the
/// connection; packets of IP.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(super) struct Each {
    process_kb: f64,
    kernel_kb: f64,
    /// Until the first message of 8 bytes has come.
    start_packets: f64,
    start_bytes: f64,
    /// In each period in which nothing is sent: both ends ask, and answer.
    alive_packets: f64,
}

/// Of a connection that one side has begun: three packets of TCP, the greeting, the answer and the
/// message, each with one that says that it has come. If both begin at once, there are two calls.
const MODEL: Each = Each {
    process_kb: 0.85,
    kernel_kb: 4.0,
    start_packets: 9.0,
    start_bytes: 720.0,
    alive_packets: 4.0,
};

/// Header of IP and of TCP with timestamps, which is all of a packet that keeps a connection alive.
const HEADER_BYTES: f64 = 52.0;

/// One rank that is connected to all others.
#[derive(Debug, serde::Serialize)]
struct Row {
    processes: u32,
    connections: u32,
    process_mb: f64,
    kernel_mb: f64,
    /// Sent and received by this rank.
    start_packets: f64,
    start_kb: f64,
    alive_packets_per_s: f64,
    alive_kb_per_s: f64,
}

#[derive(Debug, serde::Serialize)]
pub(super) struct Tcp {
    model: Each,
    rows: Vec<Row>,
    /// Endpoints that were connected to each other, and what was found; or why nothing was.
    endpoints: u32,
    measured: Option<Each>,
    not_measured: Option<String>,
}

impl Tcp {
    pub(super) fn of(processes: &[u32], endpoints: u32) -> Self {
        let measured = match endpoints {
            0..3 => Err(format!("not asked for (--endpoints {endpoints})")),
            _ => measure(endpoints),
        };
        let (measured, not_measured) = match measured {
            Ok(measured) => (Some(measured), None),
            Err(why) => (None, Some(why)),
        };
        let period = Settings::default().tcp().timeout / 2;
        Self {
            model: MODEL,
            rows: processes.iter().map(|n| row(*n, period)).collect(),
            endpoints,
            measured,
            not_measured,
        }
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::from("\nOver TCP: a rank that is connected to all others\n");
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header([
            "processes",
            "connections",
            "process MB",
            "kernel MB",
            "start: packets",
            "KB",
            "idle: packets/s",
            "KB/s",
        ]);
        for row in &self.rows {
            let rest = [
                row.process_mb,
                row.kernel_mb,
                row.start_packets,
                row.start_kb,
                row.alive_packets_per_s,
                row.alive_kb_per_s,
            ];
            let counts = [row.processes, row.connections].map(|count| count.to_string());
            table.add_row(counts.into_iter().chain(rest.map(significant)));
        }
        out.push_str(&right(table));
        out.push_str(&format!(
            "note: one end of a connection: {}\n",
            MODEL.words()
        ));
        match (&self.measured, &self.not_measured) {
            (Some(measured), _) => out.push_str(&format!(
                "note: of {} endpoints here: {}; packets are those of this network namespace\n",
                self.endpoints,
                measured.words()
            )),
            (None, Some(why)) => {
                out.push_str(&format!("note: no endpoints were measured: {why}\n"));
            }
            (None, None) => {}
        }
        out
    }
}

impl Each {
    fn words(&self) -> String {
        format!(
            "{:.2} KB in the process, {:.2} KB in the kernel; {:.1} packets and {:.0} bytes until \
             its first message has come; {:.1} packets in a period without messages",
            self.process_kb,
            self.kernel_kb,
            self.start_packets,
            self.start_bytes,
            self.alive_packets
        )
    }
}

/// `period`: after so much silence, each end of a connection asks whether the other is there.
fn row(processes: u32, period: Duration) -> Row {
    let connections = processes.saturating_sub(1);
    let all = |each: f64| each * f64::from(connections);
    let alive = all(MODEL.alive_packets) / period.as_secs_f64();
    Row {
        processes,
        connections,
        process_mb: all(MODEL.process_kb) / 1000.0,
        kernel_mb: all(MODEL.kernel_kb) / 1000.0,
        start_packets: all(MODEL.start_packets),
        start_kb: all(MODEL.start_bytes) / 1000.0,
        alive_packets_per_s: alive,
        alive_kb_per_s: alive * HEADER_BYTES / 1000.0,
    }
}

/// Connects so many endpoints to each other, and looks at what they take.
fn measure(endpoints: u32) -> Result<Each, String> {
    // The shortest time between two questions.
    const PERIOD: Duration = Duration::from_secs(1);
    let failed = |error: Error| error.to_string();
    // Each end of a connection has a descriptor; and an endpoint has some of its own.
    let files = u64::from(endpoints) * u64::from(endpoints + 32);
    if getrlimit(Resource::Nofile)
        .current
        .is_some_and(|most| most < files)
    {
        return Err(format!("{files} descriptors are needed (ulimit -n)"));
    }
    let settings = Settings::builder()
        .without_environment()
        .fabric(FabricUse::TcpOnly)
        .tcp_timeout(2 * PERIOD);
    let settings = settings.build().map_err(|error| error.to_string())?;
    let open = |_| HybridEndpoint::with(settings.clone()).map_err(failed);
    let all: Vec<HybridEndpoint> = (0..endpoints).map(open).collect::<Result<_, _>>()?;
    // What an endpoint takes once is there when a message has come.
    let last = all.len().saturating_sub(1);
    meet(&all, last..all.len()).map_err(failed)?;
    let before = (resident(), kernel(), Traffic::now());
    meet(&all, 0..last).map_err(failed)?;
    let (process, kernel, met) = (resident(), kernel(), Traffic::now());
    let ends = |n: usize| (n * n.saturating_sub(1)) as f64;
    let made = ends(last).max(1.0);
    let kb_of_an_end =
        |before: u64, after: u64| after.saturating_sub(before) as f64 / made / 1000.0;
    let idle = Instant::now();
    // Each end asks twice.
    let wanted = met.asked + 2 * ends(all.len()) as u64;
    while Traffic::now().asked < wanted && idle.elapsed() < 5 * PERIOD {
        std::thread::sleep(PERIOD / 100);
    }
    let (later, idle) = (Traffic::now(), idle.elapsed());
    let start = met.without_alive(before.2);
    Ok(Each {
        process_kb: kb_of_an_end(before.0, process),
        kernel_kb: kb_of_an_end(before.1, kernel),
        start_packets: 2.0 * start.0 / made,
        start_bytes: 2.0 * start.1 / made,
        alive_packets: 2.0 * (later.packets - met.packets) as f64
            / ends(all.len())
            / idle.div_duration_f64(PERIOD),
    })
}

/// Sends a message from each of these endpoints to all before it.
fn meet(all: &[HybridEndpoint], from: Range<usize>) -> Result<(), Error> {
    for at in from {
        let one = &all[at];
        for other in &all[..at] {
            let to = one.connect(&other.address().to_bytes())?;
            let mut send = one.isend(to, 0, vec![0; 8])?;
            let mut receive = other.irecv(Selector::any_source(Tag(0)), vec![0; 8])?;
            while !(send.test() && receive.test()) {
                one.progress();
                other.progress();
            }
            send.wait()?;
            receive.wait()?;
        }
    }
    Ok(())
}

/// What TCP of this network namespace has sent.
#[derive(Debug, Clone, Copy, Default)]
struct Traffic {
    packets: u64,
    bytes: u64,
    /// Questions whether the other end is there.
    asked: u64,
}

impl Traffic {
    fn now() -> Self {
        let [snmp, netstat] = ["snmp", "netstat"].map(|name| {
            let path = format!("/proc/self/net/{name}");
            std::fs::read_to_string(path).unwrap_or_default()
        });
        Self {
            packets: field(&snmp, "Tcp:", "OutSegs"),
            bytes: field(&netstat, "IpExt:", "OutOctets"),
            asked: field(&netstat, "TcpExt:", "TCPKeepAlive"),
        }
    }

    /// Packets and bytes since an earlier time, but for questions and their answers.
    fn without_alive(self, before: Self) -> (f64, f64) {
        let alive = 2.0 * (self.asked - before.asked) as f64;
        (
            (self.packets - before.packets) as f64 - alive,
            (self.bytes - before.bytes) as f64 - alive * HEADER_BYTES,
        )
    }
}

/// A number out of a table of the kernel: a line of names, then a line of numbers.
fn field(text: &str, table: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(table));
    let (names, numbers) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let mut pairs = names.split_whitespace().zip(numbers.split_whitespace());
    let number = pairs.find(|(found, _)| *found == name);
    number
        .and_then(|(_, number)| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_has_a_connection_with_each_other_one() {
        let period = Duration::from_secs(15);
        assert_eq!(row(2, period).connections, 1);
        let most = row(100_000, period);
        assert_eq!(most.connections, 99_999);
        assert!((most.alive_packets_per_s * 15.0 / 99_999.0 - MODEL.alive_packets).abs() < 1e-9);
    }

    #[test]
    fn the_kernels_tables_are_read() {
        let text = "Ip: OutSegs\nIp: 1\nTcp: InSegs OutSegs\nTcp: 2 3\n";
        assert_eq!(field(text, "Tcp:", "OutSegs"), 3);
        assert_eq!(field(text, "Tcp:", "Other"), 0);
    }
}
