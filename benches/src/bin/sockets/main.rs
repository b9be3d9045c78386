//! limic over TCP beside raw sockets: the same bytes between the same two processes, in turn.
//!
//! `cargo run --release -p limic-benches --bin sockets`, and behind `--` perhaps `--in NAMESPACE`,
//! `--at ADDRESS`, `--size BYTES`.
//!
//! The second process is a child of the first one, in another network namespace if one is named.
//! `--at` is the address of this side that both kinds of connections use. Raw sockets are polled,
//! as a loop in C would do it that has a processor of its own; so are limic's endpoints.

mod raw;

use std::error::Error;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use limic::settings::FabricUse;
use limic::{ADDRESS_LEN, Endpoint, HybridEndpoint, Peer, Settings, Tag};
use raw::Raw;

type Outcome<T> = Result<T, Box<dyn Error>>;

const TAG: Tag = Tag(7);
const SIZES: [usize; 10] = [
    8, 64, 512, 4096, 16_384, 65_536, 131_072, 262_144, 1_048_576, 4_194_304,
];
/// Times that each size has its turn over each kind of connection.
const ROUNDS: usize = 15;
/// Messages that are under way together in a stream.
const WINDOW: usize = 16;

/// Exchanges and messages of one turn.
fn exchanges(size: usize) -> usize {
    (16 << 20) / (size + 16_384)
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).cloned()
    };
    let sizes = match after("--size") {
        Some(size) => vec![size.parse()?],
        None => SIZES.to_vec(),
    };
    match after("--child") {
        Some(place) => second(&place, &sizes),
        None => first(after("--at"), after("--in").as_deref(), &sizes),
    }
}

fn endpoint(at: Option<&str>) -> Outcome<HybridEndpoint> {
    let settings = Settings::builder().fabric(FabricUse::TcpOnly);
    let settings = match at {
        Some(at) => settings.tcp_interface(at),
        None => settings,
    };
    Ok(HybridEndpoint::with(settings.build()?)?)
}

/// The two kinds of connections with the other process.
struct Both {
    raw: Raw,
    endpoint: HybridEndpoint,
    peer: Peer,
    out: Vec<u8>,
    into: Vec<u8>,
}

/// A turn: its pattern, over which kind of connection.
#[derive(Clone, Copy)]
enum Turn {
    RawPingPong,
    PingPong,
    RawStream,
    Stream,
}

impl Both {
    fn new(
        stream: TcpStream,
        endpoint: HybridEndpoint,
        address: &[u8],
        longest: usize,
    ) -> Outcome<Self> {
        Ok(Self {
            raw: Raw::new(stream)?,
            peer: endpoint.connect(address)?,
            endpoint,
            out: vec![1; longest],
            into: vec![0; longest * WINDOW],
        })
    }

    /// One turn; the time of one message.
    fn turn(&mut self, turn: Turn, first: bool, size: usize) -> Outcome<Duration> {
        let count = exchanges(size).max(WINDOW);
        let (out, into) = (&self.out[..size], &mut self.into[..]);
        let begin = Instant::now();
        let messages = match (turn, first) {
            (Turn::RawPingPong, _) => {
                for _ in 0..count {
                    if first {
                        self.raw.send(out)?;
                    }
                    self.raw.receive(&mut into[..size])?;
                    if !first {
                        self.raw.send(out)?;
                    }
                }
                2 * count
            }
            (Turn::PingPong, _) => {
                for _ in 0..count {
                    if first {
                        self.endpoint.send(self.peer, TAG, out)?;
                    }
                    self.endpoint.recv((self.peer, TAG), &mut into[..size])?;
                    if !first {
                        self.endpoint.send(self.peer, TAG, out)?;
                    }
                }
                2 * count
            }
            (Turn::RawStream, true) => {
                for _ in 0..count {
                    self.raw.send(out)?;
                }
                self.raw.receive(&mut into[..1])?;
                count
            }
            (Turn::RawStream, false) => {
                for at in 0..count {
                    self.raw.receive(&mut into[at % WINDOW * size..][..size])?;
                }
                self.raw.send(&out[..1])?;
                count
            }
            (Turn::Stream, true) => {
                for _ in 0..count / WINDOW {
                    self.endpoint.scope(|scope| {
                        for _ in 0..WINDOW {
                            scope.isend(self.peer, TAG, out)?;
                        }
                        Ok(())
                    })?;
                }
                self.endpoint.recv((self.peer, TAG), &mut into[..1])?;
                count / WINDOW * WINDOW
            }
            (Turn::Stream, false) => {
                for _ in 0..count / WINDOW {
                    self.endpoint.scope(|scope| {
                        for room in into.chunks_exact_mut(size).take(WINDOW) {
                            scope.irecv((self.peer, TAG), room)?;
                        }
                        Ok(())
                    })?;
                }
                self.endpoint.send(self.peer, TAG, &out[..1])?;
                count / WINDOW * WINDOW
            }
        };
        Ok(begin.elapsed() / messages as u32)
    }

    /// All turns of a size, one after the other and again: the times of each.
    fn turns(&mut self, first: bool, size: usize) -> Outcome<[Vec<Duration>; 4]> {
        let mut times = [const { Vec::new() }; 4];
        for round in 0..=ROUNDS {
            let turns = [
                Turn::RawPingPong,
                Turn::PingPong,
                Turn::RawStream,
                Turn::Stream,
            ];
            for (times, turn) in times.iter_mut().zip(turns) {
                let time = self.turn(turn, first, size)?;
                if round > 0 {
                    times.push(time);
                }
            }
        }
        Ok(times)
    }
}

fn start_second(place: &str, namespace: Option<&str>, sizes: &[usize]) -> Outcome<Child> {
    let program = std::env::current_exe()?;
    let mut command = match namespace {
        Some(name) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", name]).arg(program);
            command
        }
        None => Command::new(program),
    };
    let command = command.args(["--child", place]);
    if let [size] = sizes {
        command.args(["--size", &size.to_string()]);
    }
    Ok(command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?)
}

fn first(at: Option<String>, namespace: Option<&str>, sizes: &[usize]) -> Outcome<()> {
    let ip = match &at {
        Some(at) => at.parse()?,
        None => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let listener = TcpListener::bind((ip, 0))?;
    let place = listener.local_addr()?.to_string();
    let endpoint = endpoint(at.as_deref())?;
    let mut child = start_second(&place, namespace, sizes)?;
    let (Some(mut to), Some(mut from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the child has no pipes".into());
    };
    to.write_all(&endpoint.address().to_bytes())?;
    let mut address = [0; ADDRESS_LEN];
    from.read_exact(&mut address)?;
    let (stream, _) = listener.accept()?;
    let mut both = Both::new(stream, endpoint, &address, longest(sizes))?;
    println!("   bytes | ping-pong, one way, us         | stream, a message, us");
    println!("         |      raw    limic  ratio       |      raw    limic  ratio");
    for size in sizes.iter().copied() {
        let [raw, limic, raw_stream, stream] = both.turns(true, size)?.map(median);
        println!(
            "{size:8} | {raw:8.2} {limic:8.2} {:6.2}       | {raw_stream:8.2} {stream:8.2} {:6.2}",
            limic / raw,
            stream / raw_stream
        );
    }
    drop(both);
    if !child.wait()?.success() {
        return Err("the second process failed".into());
    }
    Ok(())
}

fn second(place: &str, sizes: &[usize]) -> Outcome<()> {
    let stream = TcpStream::connect(place)?;
    let endpoint = endpoint(None)?;
    let mut address = [0; ADDRESS_LEN];
    std::io::stdin().read_exact(&mut address)?;
    std::io::stdout().write_all(&endpoint.address().to_bytes())?;
    std::io::stdout().flush()?;
    let mut both = Both::new(stream, endpoint, &address, longest(sizes))?;
    for size in sizes.iter().copied() {
        both.turns(false, size)?;
    }
    Ok(())
}

fn longest(sizes: &[usize]) -> usize {
    sizes.iter().copied().max().unwrap_or(0)
}

/// In microseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times
        .get(times.len() / 2)
        .map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}
