//! The end of an era: what has to end is driven to its end.

use std::time::{Duration, Instant};

use limic::raw::RequestId;
use limic::{Error, HybridEndpoint, Outcome, Result, ScopedRecv, ScopedSend};

use super::era::Era;
use super::model::{Ask, Fate};
use super::raw::number_of;

/// Room for every message.
const ROOM: usize = 1 << 20;

/// Far longer than it takes until all messages have come.
const PATIENCE: Duration = Duration::from_secs(10);

/// So often nothing moves, and then nothing is on its way.
const QUIET: u32 = 200;

/// A receive of a scope, and what it became.
pub(super) type Ended = (usize, Ask, Outcome, Vec<u8>);

impl Era<'_> {
    /// Ends the requests of a scope: those that are not done are cancelled.
    pub(super) fn end_scoped<'scope>(
        &mut self,
        sends: Vec<(usize, Result<ScopedSend<'scope, HybridEndpoint>>)>,
        receives: Vec<(usize, Ask, Result<ScopedRecv<'scope, HybridEndpoint>>)>,
        touched: &[RequestId],
        outcomes: &mut Vec<Ended>,
    ) {
        let is_touched = |id: Option<RequestId>| id.is_some_and(|id| touched.contains(&id));
        for (message, send) in sends {
            let left_open = is_touched(number_of(&send));
            let outcome = send.and_then(|mut send| {
                if !send.test() {
                    send.cancel()?;
                }
                // What has begun to go needs its receiver.
                while !send.test() {
                    self.progress();
                }
                send.wait()
            });
            if left_open && outcome == Err(Error::UnknownRequest) {
                self.model.message(message).fate = Fate::Open;
            } else {
                self.model.sent(message, true, &outcome);
            }
        }
        for (number, ask, receive) in receives {
            let given_up = is_touched(number_of(&receive));
            let mut bytes = Vec::new();
            let outcome = receive.and_then(|mut receive| {
                if !receive.test() {
                    receive.cancel()?;
                }
                while !receive.test() {
                    self.progress();
                }
                let (status, room) = receive.wait()?;
                bytes.extend_from_slice(room);
                Ok(status)
            });
            if given_up && outcome == Err(Error::UnknownRequest) {
                self.model.give_up(ask);
            } else {
                outcomes.push((number, ask, outcome, bytes));
            }
        }
    }

    /// Looks at all requests once, after some progress.
    fn look(&mut self) -> bool {
        let moved = self.progress();
        for send in std::mem::take(&mut self.sends) {
            self.test_send(send);
        }
        for receive in std::mem::take(&mut self.receives) {
            self.test_receive(receive);
        }
        moved
    }

    /// All that was sent comes, and what waits for more is cancelled.
    pub(super) fn finish(mut self) {
        let mut quiet = 0;
        let began = Instant::now();
        loop {
            let is_there = |era: &Self, place: usize| !era.model.is_gone(era.name(place));
            for place in self.places() {
                self.take_reserved(place);
                let name = self.name(place);
                let waits = |receive: &super::era::Receive<'_>| {
                    receive.ask.at == name
                        && receive.ask.from.is_none()
                        && receive.ask.tag.is_none()
                };
                if is_there(&self, place) && !self.receives.iter().any(waits) {
                    self.receive(place, (None, None), ROOM);
                }
            }
            quiet = if self.look() { 0 } else { quiet + 1 };
            let missing = |patient: bool| {
                let places = self.places();
                places
                    .map(|place| self.model.missing(self.name(place), patient))
                    .sum::<usize>()
            };
            let late = began.elapsed() > PATIENCE;
            let sends = self.sends.iter().map(|send| send.message);
            assert!(
                !late,
                "it goes on for too long: {quiet} quiet turns, sends {:?} of {:#?}",
                sends.collect::<Vec<_>>(),
                self.model
            );
            let over = self.sends.is_empty() && missing(false) == 0;
            // Receives that were given up may have got some: then nothing more comes.
            if over && (missing(true) == 0 || quiet > QUIET) {
                break;
            }
        }
        self.receives
            .iter_mut()
            .for_each(super::era::Receive::cancel);
        while !self.receives.is_empty() {
            self.look();
        }
        self.end_raw();
        self.end_made_up();
    }
}
