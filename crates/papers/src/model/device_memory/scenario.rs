//! What the paper measured, in the model: movement within a node, latency, bandwidth, hot spots,
//! forwarding chains.

use super::cluster::{Buffer, Cluster, Message};
use super::events::Point;
use super::machine::Machine;

/// Where data comes from and goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends(pub(super) Buffer, pub(super) Buffer);

impl Ends {
    pub(super) const ALL: [Self; 4] = [
        Self(Buffer::Host, Buffer::Host),
        Self(Buffer::Device, Buffer::Device),
        Self(Buffer::Device, Buffer::Host),
        Self(Buffer::Host, Buffer::Device),
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self(Buffer::Host, Buffer::Host) => "host to host",
            Self(Buffer::Host, Buffer::Device) => "host to device",
            Self(Buffer::Device, Buffer::Host) => "device to host",
            Self(Buffer::Device, Buffer::Device) => "device to device",
        }
    }
}

/// Long enough that its beginning and end do not count.
const STREAM: u64 = 4 << 20;

/// MB/s of the adapter's own copies within one node (figure 2).
pub(super) fn local(machine: &Machine, ends: Ends) -> f64 {
    let mut cluster = Cluster::new(*machine, 1);
    let lanes = cluster.lanes(1);
    let message = cluster.write((0, ends.0), (0, ends.1), STREAM, &lanes, &[]);
    STREAM as f64 / cluster.run().of(&message)
}

/// MB/s between two nodes over some ports, both directions together if both send (figures 5 to 8).
pub(super) fn bandwidth(machine: &Machine, ends: Ends, ports: u8, both: bool) -> f64 {
    let mut cluster = Cluster::new(*machine, 2);
    let lanes = cluster.lanes(ports);
    let there = cluster.write((0, ends.0), (1, ends.1), STREAM, &lanes, &[]);
    let lanes = cluster.lanes(ports);
    let back = both.then(|| cluster.write((1, ends.0), (0, ends.1), STREAM, &lanes, &[]));
    let times = cluster.run();
    let there_us = times.of(&there);
    match back {
        None => STREAM as f64 / there_us,
        Some(back) => STREAM as f64 / there_us + STREAM as f64 / times.of(&back),
    }
}

/// Microseconds of one message, one way (figure 3).
pub(super) fn latency(machine: &Machine, ends: Ends, bytes: u64, ports: u8) -> f64 {
    let mut cluster = Cluster::new(*machine, 2);
    let lanes = cluster.lanes(ports);
    let message = cluster.write((0, ends.0), (1, ends.1), bytes, &lanes, &[]);
    cluster.delay(&message, machine.fixed_us);
    cluster.run().of(&message)
}

/// Microseconds until the last of some nodes has its message from the one master (figure 9).
pub(super) fn hotspot(machine: &Machine, ends: Ends, bytes: u64, slaves: usize) -> f64 {
    let mut cluster = Cluster::new(*machine, slaves + 1);
    let messages: Vec<Message> = (1..=slaves)
        .map(|slave| {
            let lanes = cluster.lanes(1);
            let message = cluster.write((0, ends.0), (slave, ends.1), bytes, &lanes, &[]);
            cluster.delay(&message, machine.fixed_us);
            message
        })
        .collect();
    let times = cluster.run();
    messages.iter().map(|m| times.of(m)).fold(0.0, f64::max)
}

/// When a node that forwards takes its own copy out of the adapter's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Upload {
    /// When the message has been passed on
    After,
    /// While it is passed on
    Beside,
}

/// A chain of nodes that pass a message on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    pub(super) nodes: usize,
    pub(super) ports: u8,
    pub(super) bytes: u64,
    /// Nodes pass on parts of this size as they come; the whole message if it is as long.
    pub(super) chunk: u64,
    pub(super) upload: Upload,
}

/// Most pieces that a message of a chain is cut into.
const MOST_CHUNKS: u64 = 4096;

impl Chain {
    /// The size of a piece: no more than half of the adapter's memory, so that one may come while
    /// another goes. Chains through host memory use the same, or the two would not be compared but
    /// pieces with whole messages.
    pub(super) fn piece(&self, machine: &Machine) -> u64 {
        let wanted = self.chunk.clamp(1, self.bytes.max(1));
        let fits = match machine.memory_bytes / 2 {
            0 => wanted,
            room => wanted.min(room),
        };
        fits.max(self.bytes.div_ceil(MOST_CHUNKS)).max(1)
    }

    /// Microseconds until the last node has all, if those between keep it in `through` (figures 12
    /// to 14).
    pub(super) fn run(&self, machine: &Machine, through: Buffer) -> f64 {
        let piece = self.piece(machine);
        let pieces = self.bytes.div_ceil(piece).max(1);
        let hops = self.nodes - 1;
        // Pieces that fit into the adapter's memory at a time; host memory holds all.
        let slots = match (through, machine.memory_bytes) {
            (Buffer::Host, _) | (_, 0) => u64::MAX,
            (Buffer::Device, bytes) => (bytes / piece).max(2),
        };
        let mut cluster = Cluster::new(*machine, self.nodes);
        let lanes: Vec<_> = (0..hops).map(|_| cluster.lanes(self.ports)).collect();
        let upload_lanes: Vec<_> = (0..hops).map(|_| cluster.lanes(1)).collect();
        // By piece and hop; and by piece and node between, what makes room again.
        let mut sent: Vec<Vec<Message>> = Vec::new();
        let mut freed: Vec<Vec<Message>> = Vec::new();
        for number in 0..pieces {
            let bytes = piece.min(self.bytes - number * piece);
            let (mut hops_sent, mut room): (Vec<Message>, Vec<Message>) = (Vec::new(), Vec::new());
            for hop in 0..hops {
                let from = if hop == 0 { Buffer::Host } else { through };
                let to = if hop + 1 == hops {
                    Buffer::Host
                } else {
                    through
                };
                let mut waits = Vec::new();
                if let Some(before) = number.checked_sub(1) {
                    waits.push((&sent[before as usize][hop][..], Point::Sent, 0.0));
                }
                if hop > 0 {
                    // The node sees that it has come, and posts.
                    waits.push((&hops_sent[hop - 1][..], Point::Arrived, machine.fixed_us));
                }
                if to == Buffer::Device
                    && let Some(before) = number.checked_sub(slots)
                {
                    waits.push((&freed[before as usize][hop][..], Point::Arrived, 0.0));
                }
                let message = cluster.write((hop, from), (hop + 1, to), bytes, &lanes[hop], &waits);
                if hop == 0 && number == 0 {
                    cluster.delay(&message, machine.fixed_us);
                }
                if from == Buffer::Device {
                    let begin = match self.upload {
                        Upload::After => (&message[..], Point::Sent, 0.0),
                        Upload::Beside => (&hops_sent[hop - 1][..], Point::Arrived, 0.0),
                    };
                    let own = cluster.write(
                        (hop, Buffer::Device),
                        (hop, Buffer::Host),
                        bytes,
                        &upload_lanes[hop],
                        &[begin],
                    );
                    room.push(message.iter().chain(&own).copied().collect());
                }
                hops_sent.push(message);
            }
            sent.push(hops_sent);
            freed.push(room);
        }
        let last: Vec<_> = sent.iter().filter_map(|hops| hops.last()).collect();
        let times = cluster.run();
        last.iter().map(|m| times.of(m)).fold(0.0, f64::max)
    }
}
