//! Calls of a case as they are made, and what each has to give.

use std::collections::HashMap;
use std::time::Duration;

use limic::{
    Endpoint, Error, HybridEndpoint, Loan, LoanSend, Loaned, OwnedRecv, OwnedSend, Peer, Region,
    Selector,
};
use limic_tests::{check, content};

use super::made_up::Regions;
use super::model::{Ask, Fate, Model};
use super::raw::Entries;
use super::{Asked, Call};

/// More than a case sends. Each adds its number to its length.
pub(super) const MOST_MESSAGES: usize = 4096;

/// The longest message of a burst.
pub(super) const SHORT: usize = 900;

/// A send under way.
pub(super) enum Sending<'e> {
    Bytes(OwnedSend<'e, HybridEndpoint>),
    Loan(LoanSend<'e, HybridEndpoint>),
}

/// With its message.
pub(super) struct Send<'e> {
    pub(super) handle: Sending<'e>,
    pub(super) message: usize,
    pub(super) cancelled: bool,
}

/// A receive under way.
pub(super) struct Receive<'e> {
    pub(super) handle: OwnedRecv<'e, HybridEndpoint>,
    pub(super) number: usize,
    pub(super) ask: Ask,
    pub(super) cancelled: bool,
}

/// What an endpoint exposes, and what is in there.
pub(super) struct Exposed<'e> {
    pub(super) at: usize,
    pub(super) region: Region<'e, HybridEndpoint>,
    pub(super) bytes: Vec<u8>,
}

/// A message where it lies, and its number.
pub(super) type Taken = (usize, Loaned);

pub(super) fn check_loaned((number, loaned): Taken) {
    check(number as u64, &loaned.to_vec());
}

/// The time in which the same endpoints are there.
pub(super) struct Era<'e> {
    endpoints: &'e [HybridEndpoint],
    /// By place: which of all endpoints of the case it is.
    names: &'e [usize],
    pub(super) model: &'e mut Model,
    pub(super) loaned: &'e mut Vec<Taken>,
    peers: HashMap<(usize, usize), Peer>,
    pub(super) sends: Vec<Send<'e>>,
    pub(super) receives: Vec<Receive<'e>>,
    pub(super) loans: Vec<(usize, Loan<'e, HybridEndpoint>)>,
    pub(super) exposed: Vec<Exposed<'e>>,
    /// By place: what was entered by number.
    pub(super) entries: Vec<Entries>,
    /// By place: what is exposed by number.
    pub(super) regions: Vec<Regions>,
    /// Short messages are at hand once they have arrived.
    pub(super) at_hand: bool,
}

/// Takes out the one that is meant, if there is any.
pub(super) fn pick<T>(all: &mut Vec<T>, which: usize) -> Option<T> {
    (!all.is_empty()).then(|| all.remove(which % all.len()))
}

impl<'e> Era<'e> {
    pub(super) fn new(
        endpoints: &'e [HybridEndpoint],
        names: &'e [usize],
        model: &'e mut Model,
        loaned: &'e mut Vec<Taken>,
        at_hand: bool,
    ) -> Self {
        Self {
            endpoints,
            names,
            model,
            loaned,
            peers: HashMap::new(),
            sends: Vec::new(),
            receives: Vec::new(),
            loans: Vec::new(),
            exposed: Vec::new(),
            entries: endpoints.iter().map(|_| Entries::default()).collect(),
            regions: endpoints.iter().map(|_| Regions::default()).collect(),
            at_hand,
        }
    }

    pub(super) fn places(&self) -> std::ops::Range<usize> {
        0..self.endpoints.len()
    }

    pub(super) fn name(&self, place: usize) -> usize {
        self.names[place]
    }

    pub(super) fn endpoint(&self, place: usize) -> &'e HybridEndpoint {
        &self.endpoints[place]
    }

    /// All endpoints make progress; whether anything moved.
    pub(super) fn progress(&self) -> bool {
        self.endpoints
            .iter()
            .fold(false, |moved, endpoint| endpoint.progress() | moved)
    }

    /// The peer that another endpoint is. `None`: this one is closed.
    pub(super) fn connect(&mut self, at: usize, to: usize) -> Option<Peer> {
        let address = self.endpoint(to).address();
        match self.endpoint(at).connect(&address.to_bytes()) {
            Ok(peer) => {
                let known = *self.peers.entry((at, to)).or_insert(peer);
                assert_eq!(known, peer, "one address, one peer");
                assert_eq!(self.endpoint(at).peer_address(peer), Ok(address));
                assert_eq!(at == to, peer == self.endpoint(at).myself());
                Some(peer)
            }
            Err(error) => {
                assert!(self.model.may_fail(&error), "{error}");
                None
            }
        }
    }

    /// The number of the endpoint that this one knows as a peer.
    pub(super) fn name_of(&self, at: usize, peer: Peer) -> usize {
        let address = self
            .endpoint(at)
            .peer_address(peer)
            .expect("a peer that has sent");
        self.model.name_of(address)
    }

    /// What is asked for, in the words of the model and in those of the endpoint.
    pub(super) fn ask(&mut self, at: usize, (from, tag): Asked) -> Option<(Ask, Selector)> {
        let peer = match from {
            Some(from) => Some(self.connect(at, from)?),
            None => None,
        };
        let ask = Ask {
            at: self.name(at),
            from: from.map(|from| self.name(from)),
            tag,
        };
        Some((ask, ask.selector(peer)))
    }

    fn place_of(&self, name: usize) -> usize {
        let place = self.names.iter().position(|other| *other == name);
        place.expect("an endpoint that is there")
    }

    /// Checks what a receive has become.
    pub(super) fn received(
        &mut self,
        receive: (usize, Ask),
        cancelled: bool,
        outcome: &limic::Outcome,
        bytes: &[u8],
    ) -> Option<usize> {
        let at = self.place_of(receive.1.at);
        let peer = match outcome {
            Ok(status) => Some(status.peer),
            Err(Error::Truncated { peer, .. }) => Some(*peer),
            Err(_) => None,
        };
        let from = peer.map(|peer| self.name_of(at, peer));
        self.model
            .received(receive, cancelled, outcome, from, bytes)
    }

    /// Checks that an error is one of an endpoint that has gone.
    pub(super) fn excused<T>(&self, result: limic::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                assert!(self.model.may_fail(&error), "{error}");
                None
            }
        }
    }

    pub(super) fn make(&mut self, call: &Call) {
        match *call {
            Call::Connect(at, to) => drop(self.connect(at, to)),
            Call::Send(at, (to, tag, len)) => self.send(at, to, tag, len),
            Call::Burst(at, (to, tag, len), count) => {
                (0..count).for_each(|_| self.send(at, to, tag, len.min(SHORT)));
            }
            Call::Receive(at, asked, room) => self.receive(at, asked, room),
            Call::TestSend(which) => {
                if let Some(send) = pick(&mut self.sends, which) {
                    self.test_send(send);
                }
            }
            Call::TestReceive(which) => {
                if let Some(receive) = pick(&mut self.receives, which) {
                    self.test_receive(receive);
                }
            }
            Call::CancelSend(which) => {
                if let Some(mut send) = pick(&mut self.sends, which) {
                    send.cancel();
                    self.sends.push(send);
                }
            }
            Call::CancelReceive(which) => {
                if let Some(mut receive) = pick(&mut self.receives, which) {
                    receive.cancel();
                    self.receives.push(receive);
                }
            }
            Call::DropSend(which) => {
                let send = pick(&mut self.sends, which);
                if let Some(send) = send.filter(|send| send.cancelled) {
                    // Nobody will know whether it was in time.
                    self.model.message(send.message).fate = Fate::Open;
                }
            }
            Call::DropReceive(which) => {
                if let Some(receive) = pick(&mut self.receives, which) {
                    self.model.give_up(receive.ask);
                }
            }
            Call::Probe(at, asked) => self.probe(at, asked),
            Call::Claim(at, asked, take) => self.claim(at, asked, take),
            Call::Borrow(at, len) => {
                if let Ok(loan) = self.endpoint(at).loan(len + MOST_MESSAGES) {
                    self.loans.push((at, loan));
                }
            }
            Call::SendLoan(which, to, tag) => self.send_loan(which, to, tag),
            Call::ReturnLoan(which) => drop(pick(&mut self.loans, which)),
            Call::TakeLoaned(at, asked) => self.take_loaned(at, asked),
            Call::DropLoaned(which) => {
                if let Some(taken) = pick(self.loaned, which) {
                    check_loaned(taken);
                }
            }
            Call::Expose(at, len) => {
                let bytes = content(at as u64, len);
                let region = self.endpoint(at).region(bytes.clone());
                if let Some(region) = self.excused(region) {
                    assert_eq!(region.len(), len as u64);
                    self.exposed.push(Exposed { at, region, bytes });
                }
            }
            Call::Access(at, which, (offset, len), write, way) => {
                self.access(at, which, (offset, len), write, way);
            }
            Call::WriteAt(which, offset, len) => self.write_at(which, offset, len),
            Call::CopyTo(which, offset, len) => self.copy_to(which, offset, len),
            Call::Revoke(which) => {
                if let Some(exposed) = pick(&mut self.exposed, which) {
                    exposed.revoke(self);
                }
            }
            Call::Progress(at) => drop(self.endpoint(at).progress()),
            Call::Sleep(at) => self.endpoint(at).sleep(Some(Duration::ZERO)),
            Call::Arm(at) => drop(self.endpoint(at).arm()),
            Call::Close(at) => {
                self.endpoint(at).close();
                self.model.leave(self.name(at));
            }
            Call::Scope(at, ref requests, ref calls, end) => self.scope(at, requests, calls, end),
            Call::Raw(at, raw, which) => self.raw(at, raw, which),
            Call::Waits(at, waits, asked, len) => self.waits(at, waits, asked, len),
            Call::MadeUp(at, call, asked, range) => self.made_up(at, call, asked, range),
        }
    }

    fn send(&mut self, at: usize, to: usize, tag: u64, len: usize) {
        let Some(peer) = self.connect(at, to) else {
            return;
        };
        let (message, len) = self.model.send(self.name(at), self.name(to), tag, len);
        let sent = self
            .endpoint(at)
            .isend(peer, tag, content(message as u64, len));
        self.started(message, sent.map(Sending::Bytes));
    }

    /// Keeps a send that was started.
    pub(super) fn started(&mut self, message: usize, sent: limic::Result<Sending<'e>>) {
        match self.excused(sent) {
            Some(handle) => self.sends.push(Send {
                handle,
                message,
                cancelled: false,
            }),
            None => self.model.message(message).fate = Fate::Open,
        }
    }

    pub(super) fn receive(&mut self, at: usize, asked: Asked, room: usize) {
        let Some((ask, selector)) = self.ask(at, asked) else {
            return;
        };
        let started = self.endpoint(at).irecv(selector, vec![0; room]);
        if let Some(handle) = self.excused(started) {
            let number = self.model.receive();
            self.receives.push(Receive {
                handle,
                number,
                ask,
                cancelled: false,
            });
        }
    }

    /// Checks a send if it is over, and keeps it otherwise.
    pub(super) fn test_send(&mut self, mut send: Send<'e>) {
        let over = match &mut send.handle {
            Sending::Bytes(handle) => handle.test(),
            Sending::Loan(handle) => handle.test(),
        };
        if !over {
            return self.sends.push(send);
        }
        let outcome = match send.handle {
            Sending::Bytes(handle) => {
                let (outcome, bytes) = handle.wait_buffer();
                check(send.message as u64, &bytes);
                outcome
            }
            Sending::Loan(handle) => handle.wait(),
        };
        self.model.sent(send.message, send.cancelled, &outcome);
    }

    /// Checks a receive if it is over, and keeps it otherwise.
    pub(super) fn test_receive(&mut self, mut receive: Receive<'e>) {
        if !receive.handle.test() {
            return self.receives.push(receive);
        }
        let (outcome, bytes) = receive.handle.wait_buffer();
        self.received(
            (receive.number, receive.ask),
            receive.cancelled,
            &outcome,
            &bytes,
        );
    }
}

impl Send<'_> {
    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
        let asked = match &self.handle {
            Sending::Bytes(handle) => handle.cancel(),
            Sending::Loan(handle) => handle.cancel(),
        };
        assert_eq!(asked, Ok(()));
    }
}

impl Receive<'_> {
    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
        assert_eq!(self.handle.cancel(), Ok(()));
    }
}

impl Exposed<'_> {
    /// Takes the memory back, which is as the accesses have left it.
    fn revoke(self, era: &Era<'_>) {
        let mut found = vec![0; self.bytes.len()];
        let read = self.region.read_at(0, &mut found);
        let memory = self.region.revoke();
        if era.model.is_gone(era.name(self.at)) {
            // It was left to peers that may still copy.
            let unknown = Some(Error::UnknownRequest);
            assert_eq!((read.err(), memory.err()), (unknown.clone(), unknown));
        } else {
            assert_eq!(read, Ok(()));
            assert!(found == self.bytes, "{} bytes", found.len());
            assert!(memory.as_ref() == Ok(&self.bytes), "{:?}", memory.err());
        }
    }
}
