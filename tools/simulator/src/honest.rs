//! What a process does that keeps the rules.

mod fork;
mod leave;
mod one_sided;
mod receive;
mod room;
mod scoped;
pub(crate) mod send;
mod states;
mod wait;

use std::rc::Rc;

use limic::counters::Event;
use limic::raw::{Messages, Posted};
use limic::{Endpoint, Error, HybridEndpoint, Loaned, Peer, Tag};

use self::receive::Receiving;
use self::room::Room;
use self::send::Sending;
use self::states::reached;
use crate::schedule::{give_way, wait_for, wrong};
use crate::script::{BAIT, BAIT_LEN, Ending, MOST_KEPT, Malice, Script, Taking};
use crate::sim;

/// Where the number of an endpoint begins in its address.
const ID: usize = 12;

/// A peer is gone, as it may be in this run.
#[derive(Debug)]
struct Gone;

type Result<T> = core::result::Result<T, Gone>;

struct Honest<'a> {
    me: usize,
    script: &'a Script,
    endpoint: &'a HybridEndpoint,
    peers: Vec<Peer>,
    sends: Vec<Sending>,
    receives: Vec<Receiving>,
    posted: u64,
    reached: u32,
    /// Loans that are kept for a while.
    held: Vec<Loaned>,
    /// Room for a message of a hostile process.
    bait: Option<Room>,
}

/// A random choice.
fn one_in(many: u32) -> bool {
    sim::with(|sim| sim.chance(many))
}

/// Does something else for some time.
fn compute() {
    sim::with(|sim| {
        let current = sim.current.expect("a process");
        sim.processes[current].stopped_until = sim.now + sim.rng.u64(10_000..100_000);
    });
    give_way();
}

fn doing(what: impl FnOnce() -> String) {
    sim::with(|sim| {
        let current = sim.current.expect("a process");
        let what = format!("process {current} {}", what());
        sim.note(|| what.clone());
        sim.processes[current].doing = what;
    });
}

/// From here on others may find a process gone.
fn leaves(me: usize) {
    sim::with(|sim| sim.processes[me].leaves = true);
}

/// The life of a process.
pub(crate) fn live(me: usize, script: &Rc<Script>) {
    let script = Rc::clone(script);
    let endpoint = open(&script, me);
    sim::with(|sim| {
        let address = endpoint
            .as_ref()
            .map(|one| one.address().to_bytes().to_vec());
        sim.board.addresses[me] = Some(address);
    });
    let Some(endpoint) = endpoint else { return };
    wait_for("waits for addresses", |sim| {
        let processes = sim.processes.iter().zip(&sim.board.addresses);
        processes.fold(true, |all, (process, address)| {
            all && (address.is_some() || process.is_over())
        })
    });
    let addresses: Vec<Option<Vec<u8>>> = sim::with(|sim| {
        let addresses = sim.board.addresses.iter();
        addresses.map(|address| address.clone().flatten()).collect()
    });
    // A process that ended before it opened an endpoint is named by an address that nobody has.
    let peers = addresses.iter().enumerate().map(|(process, address)| {
        let mut nowhere = endpoint.address().to_bytes();
        nowhere[ID] ^= process as u8 + 1;
        endpoint.connect(address.as_deref().unwrap_or(&nowhere))
    });
    let peers = peers.collect::<core::result::Result<Vec<Peer>, Error>>();
    let peers = peers.unwrap_or_else(|error| wrong(error));
    let mut honest = Honest {
        me,
        script: &script,
        endpoint: &endpoint,
        peers,
        sends: Vec::new(),
        receives: Vec::new(),
        posted: 0,
        reached: 0,
        held: Vec::new(),
        bait: None,
    };
    match honest.work() {
        Ok(()) => leaves(me),
        Err(Gone) => {
            reached("end", "gives up");
            honest.give_up();
        }
    }
    honest.held.clear();
    doing(|| "closes".to_owned());
    states::of_endpoint(&endpoint);
    let bait = honest.bait.take();
    drop(honest);
    endpoint.close();
    if let Some(bait) = bait {
        bait.give_up();
    }
    drop(endpoint);
}

/// Opens an endpoint; tries again if the kernel refuses.
fn open(script: &Script, me: usize) -> Option<HybridEndpoint> {
    for _ in 0..8 {
        doing(|| "opens".to_owned());
        if let Ok(endpoint) = HybridEndpoint::with(script.settings[me].clone()) {
            return Some(endpoint);
        }
    }
    sim::with(|sim| sim.faults.call = 0);
    match HybridEndpoint::with(script.settings[me].clone()) {
        Ok(endpoint) => Some(endpoint),
        Err(error) => wrong(format!("it cannot be opened: {error}")),
    }
}

impl Honest<'_> {
    fn work(&mut self) -> Result<()> {
        self.take_bait();
        for number in 0..self.script.phases.len() {
            let last = number + 1 == self.script.phases.len();
            let hasty = last && self.script.ending == Ending::Hasty(self.me);
            self.phase(number, hasty)?;
            if hasty {
                self.leave_hastily();
                return Ok(());
            }
            if let Some(part) = self.script.phases[number].one_sided
                && !self.script.may_fail
            {
                self.one_sided(part)?;
            }
            if !last && one_in(2) {
                self.held.clear();
            }
        }
        self.held.clear();
        self.outlive_flood();
        if self.script.ending == Ending::Together {
            self.meet_all("waits for the end");
        }
        Ok(())
    }

    /// Stays until nobody floods this process with messages, and sees what it has kept of them.
    fn outlive_flood(&self) {
        doing(|| "outlives a flood".to_owned());
        while sim::with(|sim| sim.board.flooded == Some(self.me)) {
            self.endpoint.progress();
            self.endpoint.sleep(None);
        }
        let most = Event::UnexpectedDepthMost;
        let kept = self.endpoint.counters().event(most);
        if self.script.malice == Malice::Forges && kept > MOST_KEPT {
            wrong(format!("{kept} unexpected messages were kept"));
        }
    }

    /// Posts a receive for what a hostile process sends.
    fn take_bait(&mut self) {
        let Some(from) = self.script.hostile.iter().position(|hostile| *hostile) else {
            return;
        };
        let selector = limic::Selector::exact(self.peers[from], Tag(BAIT));
        let mut room = Room::new(BAIT_LEN);
        // SAFETY: the room is kept until the endpoint is closed.
        let posted = unsafe { self.endpoint.post_recv(&selector, &room.slices()) };
        if let Ok(Posted::Pending(_)) = posted {
            self.bait = Some(room);
        }
    }

    /// Messages of one phase.
    fn phase(&mut self, number: usize, hasty: bool) -> Result<()> {
        let (script, me) = (self.script, self.me);
        let phase = &script.phases[number];
        let mine = phase.messages.iter().copied();
        let mut sends = mine
            .filter(|one| script.messages[*one].from == me)
            .peekable();
        let mut receives = phase.receives[self.me].iter().peekable();
        let taking = phase.taking[self.me];
        loop {
            let posts = taking == Taking::Posted && receives.peek().is_some();
            match (sends.peek().is_some(), posts) {
                (false, false) => break,
                (true, receive) if !receive || one_in(2) => {
                    let message = sends.next().expect("one that is there");
                    self.post_send(message)?;
                }
                _ => {
                    let receive = *receives.next().expect("one that is there");
                    self.post_receive(receive)?;
                }
            }
            if one_in(8) {
                self.endpoint.progress();
            }
            if script.forks && one_in(40) {
                self.fork();
            }
        }
        if hasty {
            return Ok(());
        }
        if taking == Taking::Scoped {
            for some in phase.receives[me].chunks(8) {
                self.receive_in_scope(some)?;
            }
            return self.wait_for_all();
        }
        for receive in receives {
            if phase.lags && one_in(2) {
                compute();
            }
            if taking == Taking::InOrder && one_in(8) {
                self.post_receive(*receive)?;
            } else {
                self.take(*receive, taking)?;
            }
        }
        self.wait_for_all()
    }

    fn may_be_lost(&self, peer: Peer) -> bool {
        let process = self.peers.iter().position(|other| *other == peer);
        process.is_some_and(|process| sim::with(|sim| sim.processes[process].may_be_lost()))
    }

    /// An operation failed: that is wrong, unless the peer that it names may be gone.
    fn fails(&mut self, error: &Error) -> Result<()> {
        states::of_error(error);
        let was_short = sim::with(|sim| sim.processes[self.me].was_short);
        match error {
            // A message in an arena, for whose descriptor there was no room, is lost.
            Error::NoMemory(_) if was_short => Ok(()),
            _ if self.script.malice == Malice::Scribbles => Err(Gone),
            Error::PeerFailed { peer, .. } if self.script.may_fail && self.may_be_lost(*peer) => {
                doing(|| format!("gives up: {error}"));
                Err(Gone)
            }
            error => wrong(format!("an operation fails: {error}")),
        }
    }
}
