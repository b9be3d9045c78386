//! Calls that wait, made where nobody else has to answer: for messages of an endpoint to itself,
//! for what has arrived, and for what is done.

use std::io::{IoSlice, IoSliceMut};
use std::time::Duration;

use limic::{
    Endpoint, Error, wait_all, wait_all_timeout, wait_any, wait_any_timeout, wait_some,
    wait_some_timeout,
};
use limic_tests::content;

use super::Asked;
use super::calls::AT_HAND;
use super::era::{Era, Receive, SHORT, pick};
use super::model::{Ask, Fate};

/// A call that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waits {
    Send,
    SendVectored,
    SendBuffer,
    SendRecv,
    Recv,
    RecvVectored,
    RecvTimeout,
    RecvTooLong,
    Probe,
    Any,
    Some,
    All,
}

impl Era<'_> {
    pub(super) fn waits(&mut self, at: usize, waits: Waits, asked: Asked, len: usize) {
        let tag = asked.1.unwrap_or(0);
        match waits {
            Waits::Send | Waits::SendVectored | Waits::SendBuffer => {
                self.send_to_itself(at, waits, tag, len);
            }
            Waits::SendRecv => self.send_recv(at, tag, len),
            Waits::Any | Waits::Some | Waits::All => self.wait_for_many(at, waits),
            _ => self.take(at, waits, asked),
        }
    }

    /// A short message, for which nobody has to make room.
    pub(super) fn send_to_itself(&mut self, at: usize, waits: Waits, tag: u64, len: usize) {
        let name = self.name(at);
        let Some(me) = self.connect(at, at).filter(|_| self.at_hand) else {
            return;
        };
        let (message, len) = self.model.send(name, name, tag, len.min(SHORT));
        let (endpoint, bytes) = (self.endpoint(at), content(message as u64, len));
        let sent = match waits {
            Waits::SendVectored => {
                let (first, second) = bytes.split_at(len / 3);
                let parts = [first, &[], second].map(IoSlice::new);
                endpoint.send_vectored(me, tag, &parts)
            }
            Waits::SendBuffer => endpoint.buffer(len).and_then(|mut buffer| {
                buffer.copy_from_slice(&bytes);
                endpoint.send(me, tag, &buffer)
            }),
            _ => endpoint.send(me, tag, &bytes),
        };
        if self.excused(sent).is_none() {
            self.model.message(message).fate = Fate::Open;
        }
        let _numbers = endpoint.counters();
    }

    fn send_recv(&mut self, at: usize, tag: u64, len: usize) {
        let Some((ask, selector)) = self.ask(at, (Some(at), Some(tag))) else {
            return;
        };
        let overlaps = |receive: &Receive<'_>| receive.ask.overlaps(&ask);
        let is_taken = self.receives.iter().any(overlaps) || self.model.may_take_unseen(&ask);
        let Some(me) = self.connect(at, at).filter(|_| self.at_hand && !is_taken) else {
            return;
        };
        let name = self.name(at);
        let (message, len) = self.model.send(name, name, tag, len.min(SHORT));
        let (mut room, bytes) = ([0; 2 * SHORT], content(message as u64, len));
        let number = self.model.receive();
        let outcome = self
            .endpoint(at)
            .send_recv(me, tag, &bytes, selector, &mut room);
        if outcome
            .as_ref()
            .is_err_and(|error| self.model.may_fail(error))
        {
            self.model.message(message).fate = Fate::Open;
        }
        self.received((number, ask), false, &outcome, &room);
    }

    /// Takes or looks at a message that is at hand.
    fn take(&mut self, at: usize, waits: Waits, asked: Asked) {
        let Some((ask, selector)) = self.ask(at, asked) else {
            return;
        };
        if !self.at_hand(at, selector) {
            return;
        }
        let (endpoint, mut room) = (self.endpoint(at), [0; AT_HAND as usize]);
        let mut used = room.len();
        let outcome = match waits {
            Waits::Probe => {
                let found = endpoint.wait_probe(selector);
                let again = endpoint.wait_probe_timeout(selector, Duration::from_secs(1));
                if let (Some(found), Some(again)) = (self.excused(found), self.excused(again)) {
                    assert_eq!(Some(found), again);
                }
                return;
            }
            Waits::RecvVectored => {
                let (first, second) = room.split_at_mut(30);
                let mut parts = [first, &mut [], second].map(IoSliceMut::new);
                endpoint.recv_vectored(selector, &mut parts)
            }
            Waits::RecvTimeout => {
                let came = endpoint.recv_timeout(selector, &mut room, Duration::from_secs(1));
                came.map(|status| status.expect("it is at hand"))
            }
            Waits::RecvTooLong => {
                used = 9;
                endpoint.recv(selector, &mut room[..used])
            }
            _ => endpoint.recv(selector, &mut room),
        };
        let number = self.model.receive();
        self.received((number, ask), false, &outcome, &room[..used]);
    }

    /// Waits for receives of one endpoint, of which one is done, or without any time.
    fn wait_for_many(&mut self, at: usize, waits: Waits) {
        let (endpoint, name) = (self.endpoint(at), self.name(at));
        let is_own = |receive: &Receive<'_>| receive.ask.at == name;
        let (own, others) = std::mem::take(&mut self.receives)
            .into_iter()
            .partition(is_own);
        self.receives = others;
        let mut named: Vec<(usize, Ask, bool)> = Vec::new();
        let mut handles = Vec::new();
        let mut is_any_done = false;
        for mut receive in own {
            is_any_done |= receive.handle.test();
            named.push((receive.number, receive.ask, receive.cancelled));
            handles.push(receive.handle);
        }
        let ended = match (waits, is_any_done) {
            (Waits::Any, true) => Vec::from_iter(wait_any(endpoint, &mut handles)),
            (Waits::Any, false) => {
                let one = wait_any_timeout(endpoint, &mut handles, Duration::ZERO);
                Vec::from_iter(one)
            }
            (Waits::Some, true) => wait_some(endpoint, &mut handles),
            (Waits::Some, false) => wait_some_timeout(endpoint, &mut handles, Duration::ZERO),
            _ if wait_all_timeout(&mut handles, Duration::ZERO) => wait_all(handles.drain(..))
                .into_iter()
                .enumerate()
                .collect(),
            _ => Vec::new(),
        };
        assert!(!is_any_done || matches!(waits, Waits::All) || !ended.is_empty());
        let mut over = Vec::new();
        for (place, (outcome, bytes)) in ended {
            let (number, ask, cancelled) = named[place];
            self.received((number, ask), cancelled, &outcome, &bytes);
            over.push(place);
        }
        if let (Waits::Any, [place]) = (waits, &*over) {
            // Of the handles, too, the last one has come into its place.
            named.swap_remove(*place);
        } else {
            let mut place = 0..;
            named.retain(|_| place.next().is_some_and(|place| !over.contains(&place)));
        }
        assert_eq!(named.len(), handles.len());
        for ((number, ask, cancelled), handle) in named.into_iter().zip(handles) {
            self.receives.push(Receive {
                handle,
                number,
                ask,
                cancelled,
            });
        }
    }

    /// Writes into an own region.
    pub(super) fn write_at(&mut self, which: usize, offset: usize, len: usize) {
        let Some(mut exposed) = pick(&mut self.exposed, which) else {
            return;
        };
        let data = content(which as u64, len);
        let written = exposed.region.write_at(offset as u64, &data);
        let is_gone = self.model.is_gone(self.name(exposed.at));
        match exposed.bytes.get_mut(offset..offset + len) {
            _ if is_gone => assert_eq!(written, Err(Error::UnknownRequest)),
            Some(part) => {
                assert_eq!(written, Ok(()));
                part.copy_from_slice(&data);
            }
            None => assert!(matches!(written, Err(Error::OutOfRegion { .. }))),
        }
        self.exposed.push(exposed);
    }

    /// Copies a part out of a message where it lies.
    pub(super) fn copy_to(&mut self, which: usize, offset: usize, len: usize) {
        let Some((message, loaned)) = pick(self.loaned, which) else {
            return;
        };
        let whole = content(message as u64, loaned.len());
        let mut room = vec![0; len];
        let copied = loaned.copy_to(offset, &mut room);
        match whole.get(offset..offset + len) {
            Some(part) => assert!(copied == Ok(()) && part == room),
            None => assert!(matches!(copied, Err(Error::OutOfRegion { .. }))),
        }
        self.loaned.push((message, loaned));
    }
}
