//! The test programs of UCX and libfabric: a server and a client, one pair for each size.

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use limic_peers::{Machines, Tool, without_foreign_settings};
use limic_runner::namespaces::Namespaces;
use limic_runner::timeout::{self, Ended};

use super::outcome::Outcome;
use super::pattern::{Pattern, Plan, Portion, WINDOW};

/// How long a server may take to listen.
const LISTEN: Duration = Duration::from_secs(10);

/// How long one size may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Runs the tool's own test of a pattern for each size.
pub(super) fn measure(
    tool: Tool,
    portion: &Portion,
    plan: &Plan,
    cpus: &[usize],
    machines: Option<&Machines>,
) -> Outcome {
    let pattern = portion.pattern;
    let mut outcome = Outcome::default();
    for bytes in portion.sizes.iter().copied() {
        // Its messages have at least one byte.
        if tool == Tool::Libfabric && bytes == 0 {
            continue;
        }
        let ended = match exchange(tool, pattern, bytes, plan.seconds, cpus, machines) {
            Ok(ended) => ended,
            Err(why) => {
                outcome.failure = Some(why);
                return outcome;
            }
        };
        let time = match tool {
            Tool::Ucx => ucx_time(&ended.out),
            Tool::Libfabric => libfabric_time(&ended.out),
        };
        let failed = Outcome::of(&ended);
        match (failed.failure, time) {
            (None, Some(time)) => outcome.times.push((bytes, time)),
            (why, _) => {
                let why = why.unwrap_or_else(|| "no result was printed".to_owned());
                outcome.failure = Some(format!("{bytes} bytes: {why}"));
                outcome.hung = failed.hung;
                return outcome;
            }
        }
    }
    outcome
}

/// Runs one server and one client. Returns what the client printed.
fn exchange(
    tool: Tool,
    pattern: Pattern,
    bytes: u64,
    seconds: f64,
    cpus: &[usize],
    machines: Option<&Machines>,
) -> Result<Ended, String> {
    let port = free_port().map_err(|why| format!("no free port: {why}"))?;
    let port = port.to_string();
    let speed = usual_speed(tool, machines.is_some());
    let iterations = iterations(speed, pattern, bytes, seconds);
    let command = |node| match machines {
        Some(machines) => machines.namespaces().command(node, tool.program()),
        None => Command::new(tool.program()),
    };
    let (mut server, mut client) = (command(0), command(1));
    without_foreign_settings(&mut server);
    without_foreign_settings(&mut client);
    let at = machines.map_or("127.0.0.1", |_| Namespaces::ADDRESSES[0]);
    match tool {
        Tool::Ucx => {
            server.args(["-p", &port, "-c", &cpus[0].to_string()]);
            client.args([at, "-p", &port, "-c", &cpus[1].to_string(), "-v", "-f"]);
            if machines.is_some() {
                server.env("UCX_TLS", "tcp");
                client.env("UCX_TLS", "tcp");
            }
            client.args(["-s", &bytes.to_string(), "-n", &iterations.to_string()]);
            client.args(["-w", &iterations.div_ceil(10).to_string()]);
            match pattern {
                Pattern::Latency => client.args(["-t", "tag_lat"]),
                _ => client.args(["-t", "tag_bw", "-O", &WINDOW.to_string()]),
            };
        }
        Tool::Libfabric => {
            for command in [&mut server, &mut client] {
                let provider = if machines.is_some() { "tcp" } else { "shm" };
                command.args(["-p", provider, "-e", "rdm", "-m", "tagged"]);
                command.args(["-S", &bytes.to_string(), "-I", &iterations.to_string()]);
            }
            server.args(["-B", &port]);
            client.args(["-P", &port, at]);
        }
    }
    let started = timeout::start(server, &cpus[..1], LISTEN + LIMIT);
    let mut server = started.map_err(|why| format!("{}: {why}", tool.program()))?;
    let begin = Instant::now();
    while !listens(server.id(), &port) {
        if server.ended() || begin.elapsed() > LISTEN {
            let silent = !server.ended();
            let mut ended = server.kill();
            if silent {
                ended.failure = Some(format!("no server listens after {} s", LISTEN.as_secs()));
                ended.hung = true;
            } else if ended.failure.is_none() {
                ended.failure = Some("the server ended before its client came".to_owned());
            }
            return Ok(ended);
        }
        // Neither program says when it is ready, and the kernel's table cannot be waited for.
        std::thread::sleep(Duration::from_millis(2));
    }
    let ended = timeout::run(client, &cpus[1..], LIMIT);
    if ended.failure.is_some() {
        server.kill();
    } else {
        server.wait();
    }
    Ok(ended)
}

/// Seconds that a layer usually takes for a message, and bytes that it moves in one.
fn usual_speed(tool: Tool, over_tcp: bool) -> (f64, f64) {
    match tool {
        _ if over_tcp => (20e-6, 2e9),
        Tool::Ucx => (0.15e-6, 9e9),
        Tool::Libfabric => (2e-6, 3.5e9),
    }
}

/// The number of messages, or round trips, that takes about `seconds` at so many seconds a message
/// and bytes a second.
fn iterations(
    (overhead, per_second): (f64, f64),
    pattern: Pattern,
    bytes: u64,
    seconds: f64,
) -> u64 {
    let one_way = overhead + bytes as f64 / per_second;
    let each = if pattern == Pattern::Latency {
        2.0 * one_way
    } else {
        one_way
    };
    ((seconds / each) as u64).max(20)
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Whether somebody listens on a port, where a process runs. The kernel says it, because the server
/// would take a try to connect for its client.
fn listens(process: u32, port: &str) -> bool {
    let Ok(port) = port.parse::<u16>() else {
        return false;
    };
    let table = |name| std::fs::read_to_string(format!("/proc/{process}/net/{name}"));
    let texts = ["tcp", "tcp6"]
        .into_iter()
        .filter_map(|name| table(name).ok());
    texts.into_iter().any(|text| has_listener(&text, port))
}

/// `sl local_address rem_address st ...`, addresses as `0100007F:1F90`; state 0A is LISTEN.
fn has_listener(table: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1).is_some_and(|local| local.ends_with(&suffix)) && words.get(3) == Some(&"0A")
    })
}

/// Seconds of one message, as `ucx_perftest -v -f` prints it.
fn ucx_time(text: &str) -> Option<f64> {
    let mut lines = text.lines().map(str::trim);
    let header = lines.find(|line| line.starts_with("iterations,"))?;
    let column = header.split(',').position(|name| name == "overall_lat")?;
    let us: f64 = lines.next()?.split(',').nth(column)?.trim().parse().ok()?;
    (us > 0.0).then_some(us / 1e6)
}

/// Seconds one way, as `fi_pingpong` prints it.
fn libfabric_time(text: &str) -> Option<f64> {
    let mut lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let header = lines.find(|words| words.first() == Some(&"bytes"))?;
    let column = header.iter().position(|name| *name == "usec/xfer")?;
    let us: f64 = lines.next()?.get(column)?.parse().ok()?;
    (us > 0.0).then_some(us / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) {
        assert!(
            found.is_some_and(|f| (f / expected - 1.0).abs() < 1e-9),
            "{found:?}"
        );
    }

    #[test]
    fn what_the_programs_print_is_read() {
        let ucx = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n 300,0.3,80.5,386.79,1,2,3,4\n";
        close(ucx_time(ucx), 386.79e-6);
        assert_eq!(ucx_time("ERROR"), None);
        let libfabric = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n64      10k     =10k     1.2m        0.03s     36.65       1.75       0.57\n";
        close(libfabric_time(libfabric), 1.75e-6);
        assert_eq!(libfabric_time("bytes usec/xfer\n"), None);
    }

    #[test]
    fn listeners_are_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A x\n   1: 0100007F:1F91 0100007F:1F90 01 x\n";
        assert!(has_listener(table, 8080));
        assert!(!has_listener(table, 8081));
    }

    #[test]
    fn longer_messages_are_fewer() {
        let of = |bytes| iterations(usual_speed(Tool::Ucx, false), Pattern::Latency, bytes, 0.03);
        assert!(of(8) > 50_000 && of(4 << 20) >= 20 && of(4 << 20) < 100);
    }
}
