//! A row of equal nodes behind one switch: which stations a message passes between two of them.

use super::events::{Job, JobId, Point, Resource, Station, Switch, Time, picoseconds, run};
use super::machine::Machine;

/// Where a buffer lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Buffer {
    /// In the node's memory, behind the bus.
    Host,
    /// On the adapter.
    Device,
}

/// Kinds at a resource that serves both.
const READ: u8 = 0;
const WRITE: u8 = 1;

/// Resources of a node: the bus one way and the other (one resource if it is not duplex), the
/// memory of the adapter, its processor for what goes out and for what comes in, two ports out and
/// two in.
const PER_NODE: usize = 9;

/// Nodes, and the messages between them so far.
#[derive(Debug)]
pub(super) struct Cluster {
    machine: Machine,
    nodes: usize,
    jobs: Vec<Job>,
    lanes: u32,
}

/// A message that may go over several ports: its parts.
pub(super) type Message = Vec<JobId>;

/// What a message waits for: another one's point, and a delay after that in microseconds.
pub(super) type Wait<'a> = (&'a [JobId], Point, f64);

impl Cluster {
    pub(super) fn new(machine: Machine, nodes: usize) -> Self {
        Self {
            machine,
            nodes,
            jobs: Vec::new(),
            lanes: 0,
        }
    }

    fn resource(&self, node: usize, which: usize) -> Resource {
        node * PER_NODE + which
    }

    /// The time that a cell takes at a rate.
    fn cell(&self, mb_s: f64) -> Time {
        picoseconds(f64::from(self.machine.cell_bytes) / mb_s)
    }

    fn bus(&self, node: usize, kind: u8) -> Station {
        let m = &self.machine;
        let read = kind == READ;
        let side = if m.bus_duplex { usize::from(kind) } else { 0 };
        Station {
            resource: self.resource(node, side),
            cell: self.cell(if read {
                m.bus_read_mb_s
            } else {
                m.bus_write_mb_s
            }),
            start: if read {
                picoseconds(m.read_start_us)
            } else {
                0
            },
            switch: if read {
                Switch::Lane(picoseconds(m.read_switch_us))
            } else {
                Switch::Never
            },
            kind,
        }
    }

    fn memory(&self, node: usize, kind: u8) -> Station {
        Station {
            resource: self.resource(node, 2),
            cell: self.cell(self.machine.memory_mb_s),
            start: 0,
            switch: Switch::Kind(picoseconds(self.machine.memory_turn_us)),
            kind,
        }
    }

    fn plain(&self, node: usize, which: usize, mb_s: f64) -> Station {
        Station {
            resource: self.resource(node, which),
            cell: self.cell(mb_s),
            start: 0,
            switch: Switch::Never,
            kind: READ,
        }
    }

    fn buffer(&self, node: usize, buffer: Buffer, kind: u8) -> Station {
        match buffer {
            Buffer::Host => self.bus(node, kind),
            Buffer::Device => self.memory(node, kind),
        }
    }

    /// A new queue pair for each port that messages between two nodes are striped over.
    pub(super) fn lanes(&mut self, ports: u8) -> Vec<(u32, u8)> {
        let first = self.lanes;
        self.lanes += u32::from(ports);
        (0..ports)
            .map(|port| (first + u32::from(port), port))
            .collect()
    }

    /// An RDMA write from one node to another; within one node it is local. It is striped evenly
    /// over the lanes.
    pub(super) fn write(
        &mut self,
        from: (usize, Buffer),
        to: (usize, Buffer),
        bytes: u64,
        lanes: &[(u32, u8)],
        after: &[Wait<'_>],
    ) -> Message {
        let mut parts = Vec::new();
        let share = bytes.div_ceil(lanes.len() as u64).max(1);
        for &(lane, port) in lanes {
            let m = &self.machine;
            let mut way = vec![
                self.buffer(from.0, from.1, READ),
                self.plain(from.0, 3, m.engine_mb_s),
            ];
            if from.0 != to.0 {
                way.push(self.plain(from.0, 5 + usize::from(port), m.link_mb_s));
                // The switch does not store cells; a port that receives from several shares its
                // time.
                way.push(self.plain(to.0, 7 + usize::from(port), m.link_mb_s));
                way.push(self.plain(to.0, 4, m.engine_mb_s));
            }
            way.push(self.buffer(to.0, to.1, WRITE));
            let waits = after.iter().flat_map(|(message, point, us)| {
                message.iter().map(|job| (*job, *point, picoseconds(*us)))
            });
            let job = Job {
                way,
                cells: share.div_ceil(u64::from(m.cell_bytes)),
                lane,
                after: waits.collect(),
                delay: 0,
            };
            parts.push(self.jobs.len());
            self.jobs.push(job);
        }
        parts
    }

    /// Delays messages that wait for nothing.
    pub(super) fn delay(&mut self, message: &[JobId], us: f64) {
        for part in message {
            self.jobs[*part].delay = picoseconds(us);
        }
    }

    /// Runs everything; microseconds after which each message has arrived.
    pub(super) fn run(self) -> Times {
        let times = run(&self.jobs, self.nodes * PER_NODE);
        Times(times)
    }
}

/// When messages arrived.
#[derive(Debug)]
pub(super) struct Times(Vec<Time>);

impl Times {
    /// The last part of a message, in microseconds.
    pub(super) fn of(&self, message: &[JobId]) -> f64 {
        let last = message.iter().map(|part| self.0[*part]).max();
        last.unwrap_or(0) as f64 / 1e6
    }
}
