//! The discrete-event simulation: messages cut into cells, which queue at one resource after the
//! other.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Picoseconds, so that the order of events does not hang on rounding.
pub(super) type Time = u64;

/// From microseconds.
pub(super) fn picoseconds(us: f64) -> Time {
    (us * 1e6).round() as Time
}

/// A resource of the simulation, by number.
pub(super) type Resource = usize;

/// A message, or a part of one, by number.
pub(super) type JobId = usize;

/// One station of a message's way: where its cells queue, and for how long each is served.
#[derive(Debug, Clone, Copy)]
pub(super) struct Station {
    pub(super) resource: Resource,
    pub(super) cell: Time,
    /// Further time for the first cell of a message.
    pub(super) start: Time,
    /// Further time if the cell served before belonged to another lane of the same kind, or was of
    /// another kind.
    pub(super) switch: Switch,
    /// Reads and writes of one resource are different kinds.
    pub(super) kind: u8,
}

/// When a station loses time by serving cells of different sorts in turn.
#[derive(Debug, Clone, Copy)]
pub(super) enum Switch {
    Never,
    /// After a cell of another kind.
    Kind(Time),
    /// After a cell of this kind from another lane, whatever was between them.
    Lane(Time),
}

/// A point in the life of a message that another one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    /// All cells have passed its first station.
    Sent,
    /// All cells have passed its last one.
    Arrived,
}

/// A message, or a part of one.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) way: Vec<Station>,
    pub(super) cells: u64,
    /// What its cells are told apart by: a queue pair.
    pub(super) lane: u32,
    /// It starts when all of these are there, each with its delay; without any, at once.
    pub(super) after: Vec<(JobId, Point, Time)>,
    /// A delay from the beginning.
    pub(super) delay: Time,
}

/// Cells of one message that are under way at a time: buffers between the stations.
const WINDOW: u64 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    job: JobId,
    station: usize,
    first: bool,
}

#[derive(Debug, Default)]
struct Server {
    waiting: VecDeque<Cell>,
    serving: Option<Cell>,
    last_kind: Option<u8>,
    /// The lane served last, of each kind.
    last_lane: [Option<u32>; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start(JobId),
    Served(Resource),
}

#[derive(Debug, Default)]
struct Progress {
    waits_for: usize,
    injected: u64,
    sent: u64,
    arrived: u64,
    earliest: Time,
    dependents: Vec<(JobId, Point, Time)>,
}

/// Runs all jobs; the time at which each has arrived.
pub(super) fn run(jobs: &[Job], resources: usize) -> Vec<Time> {
    let mut servers: Vec<Server> = (0..resources).map(|_| Server::default()).collect();
    let mut state: Vec<Progress> = jobs.iter().map(|_| Progress::default()).collect();
    let mut arrived = vec![0; jobs.len()];
    let mut calendar = Calendar::default();
    for (number, job) in jobs.iter().enumerate() {
        state[number].waits_for = job.after.len();
        for &(on, point, delay) in &job.after {
            state[on].dependents.push((number, point, delay));
        }
        if job.after.is_empty() {
            calendar.add(job.delay, Event::Start(number));
        }
    }
    while let Some((now, event)) = calendar.next() {
        match event {
            Event::Start(number) => {
                for _ in 0..WINDOW.min(jobs[number].cells) {
                    inject(number, jobs, &mut state, &mut servers, &mut calendar, now);
                }
            }
            Event::Served(resource) => {
                let Some(cell) = servers[resource].serving.take() else {
                    continue;
                };
                let job = &jobs[cell.job];
                if cell.station == 0 {
                    state[cell.job].sent += 1;
                    if state[cell.job].sent == job.cells {
                        reached(cell.job, Point::Sent, now, &mut state, &mut calendar);
                    }
                }
                if cell.station + 1 < job.way.len() {
                    let next = Cell {
                        station: cell.station + 1,
                        ..cell
                    };
                    enter(next, jobs, &mut servers, &mut calendar, now);
                } else {
                    state[cell.job].arrived += 1;
                    if state[cell.job].arrived == job.cells {
                        arrived[cell.job] = now;
                        reached(cell.job, Point::Arrived, now, &mut state, &mut calendar);
                    }
                    inject(cell.job, jobs, &mut state, &mut servers, &mut calendar, now);
                }
                serve(resource, jobs, &mut servers, &mut calendar, now);
            }
        }
    }
    arrived
}

/// Events in the order of their times, those of one time in the order of coming.
#[derive(Debug, Default)]
struct Calendar {
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    count: u64,
}

impl Calendar {
    fn add(&mut self, at: Time, event: Event) {
        self.events.push(Reverse((at, self.count, event)));
        self.count += 1;
    }

    fn next(&mut self) -> Option<(Time, Event)> {
        self.events.pop().map(|Reverse((at, _, event))| (at, event))
    }
}

/// Tells those that wait for this.
fn reached(
    number: JobId,
    point: Point,
    now: Time,
    state: &mut [Progress],
    calendar: &mut Calendar,
) {
    for (dependent, on, delay) in state[number].dependents.clone() {
        if on != point {
            continue;
        }
        let waiting = &mut state[dependent];
        waiting.earliest = waiting.earliest.max(now + delay);
        waiting.waits_for -= 1;
        if waiting.waits_for == 0 {
            calendar.add(waiting.earliest, Event::Start(dependent));
        }
    }
}

/// Puts the next cell of a message on its way, if one is left.
fn inject(
    number: JobId,
    jobs: &[Job],
    state: &mut [Progress],
    servers: &mut [Server],
    calendar: &mut Calendar,
    now: Time,
) {
    if state[number].injected == jobs[number].cells {
        return;
    }
    let cell = Cell {
        job: number,
        station: 0,
        first: state[number].injected == 0,
    };
    state[number].injected += 1;
    enter(cell, jobs, servers, calendar, now);
}

fn enter(cell: Cell, jobs: &[Job], servers: &mut [Server], calendar: &mut Calendar, now: Time) {
    let resource = jobs[cell.job].way[cell.station].resource;
    servers[resource].waiting.push_back(cell);
    serve(resource, jobs, servers, calendar, now);
}

/// Takes the next cell: one of another lane or kind than the last, so that all get their turn; else
/// the oldest.
fn serve(
    resource: Resource,
    jobs: &[Job],
    servers: &mut [Server],
    calendar: &mut Calendar,
    now: Time,
) {
    let server = &mut servers[resource];
    if server.serving.is_some() {
        return;
    }
    let sort = |cell: &Cell| (jobs[cell.job].way[cell.station].kind, jobs[cell.job].lane);
    let last = server
        .last_kind
        .and_then(|kind| Some((kind, server.last_lane[usize::from(kind & 1)]?)));
    let place = server
        .waiting
        .iter()
        .position(|cell| Some(sort(cell)) != last);
    let Some(cell) = server.waiting.remove(place.unwrap_or(0)) else {
        return;
    };
    let station = &jobs[cell.job].way[cell.station];
    let (kind, lane) = sort(&cell);
    let lane_before = server.last_lane[usize::from(kind & 1)];
    let lost = match station.switch {
        Switch::Kind(time) if server.last_kind.is_some_and(|last| last != kind) => time,
        Switch::Lane(time) if lane_before.is_some_and(|last| last != lane) => time,
        _ => 0,
    };
    server.last_kind = Some(kind);
    server.last_lane[usize::from(kind & 1)] = Some(lane);
    server.serving = Some(cell);
    let start = if cell.first { station.start } else { 0 };
    calendar.add(now + station.cell + start + lost, Event::Served(resource));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(resource: Resource, cell: Time) -> Station {
        Station {
            resource,
            cell,
            start: 0,
            switch: Switch::Never,
            kind: 0,
        }
    }

    fn job(way: Vec<Station>, cells: u64, lane: u32) -> Job {
        Job {
            way,
            cells,
            lane,
            after: Vec::new(),
            delay: 0,
        }
    }

    #[test]
    fn a_pipeline_takes_the_time_of_its_slowest_station() {
        let way = vec![station(0, 10), station(1, 30), station(2, 20)];
        assert_eq!(run(&[job(way, 100, 0)], 3), [10 + 100 * 30 + 20]);
    }

    #[test]
    fn two_messages_share_a_station_evenly() {
        let one = job(vec![station(0, 10)], 50, 0);
        let other = job(vec![station(0, 10)], 50, 1);
        assert_eq!(run(&[one, other], 1), [990, 1000]);
    }

    #[test]
    fn turns_cost_what_they_are_said_to() {
        let mut read = station(0, 10);
        read.switch = Switch::Kind(5);
        let mut write = read;
        write.kind = 1;
        let times = run(&[job(vec![read], 4, 0), job(vec![write], 4, 0)], 1);
        // All but the first of eight cells follow one of the other kind.
        assert_eq!(times.iter().max(), Some(&(8 * 10 + 7 * 5)));
    }

    #[test]
    fn messages_wait_for_others() {
        let first = job(vec![station(0, 10), station(1, 10)], 5, 0);
        let mut sent = job(vec![station(2, 1)], 1, 1);
        sent.after = vec![(0, Point::Sent, 7)];
        let mut arrived = job(vec![station(2, 1)], 1, 2);
        arrived.after = vec![(0, Point::Arrived, 7), (1, Point::Arrived, 0)];
        assert_eq!(run(&[first, sent, arrived], 3), [60, 58, 68]);
    }
}
