//! Calls of several steps: messages that are looked at, taken or claimed, loans, one-sided access
//! and scopes.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use limic::{Claimed, Endpoint, Error, HybridEndpoint, Peer, RegionKey, Selector};
use limic_tests::content;

use super::era::{Era, MOST_MESSAGES, Sending, pick};
use super::raw::{Raw, number_of};
use super::{Asked, End, Scoped, Way};

/// Messages up to this length are at hand once they have arrived: taking them does not wait.
pub(super) const AT_HAND: u64 = 1000;

impl Era<'_> {
    pub(super) fn probe(&mut self, at: usize, asked: Asked) {
        let Some((ask, selector)) = self.ask(at, asked) else {
            return;
        };
        let found = self.endpoint(at).probe(selector);
        if let Some(Some(status)) = self.excused(found) {
            assert!(ask.tag.is_none_or(|tag| tag == status.tag.0));
            assert!(
                ask.from
                    .is_none_or(|from| from == self.name_of(at, status.peer))
            );
        }
    }

    /// The length of a message that fits, if taking it does not wait.
    pub(super) fn at_hand(&mut self, at: usize, selector: Selector) -> bool {
        let found = self.endpoint(at).probe(selector);
        let found = self.excused(found).flatten();
        found.is_some_and(|status| self.at_hand && status.len <= AT_HAND)
    }

    pub(super) fn claim(&mut self, at: usize, asked: Asked, take: bool) {
        let Some((ask, selector)) = self.ask(at, asked) else {
            return;
        };
        if take && !self.at_hand(at, selector) {
            return;
        }
        let claimed = match take {
            true => self.endpoint(at).wait_matched_probe(selector).map(Some),
            false => self.endpoint(at).matched_probe(selector),
        };
        let Some(Some(claimed)) = self.excused(claimed) else {
            return;
        };
        let number = self.model.receive();
        let status = claimed.status();
        let bytes = match take {
            true => self.excused(Claimed::recv_vec(claimed)),
            false => {
                drop(claimed);
                None
            }
        };
        match bytes {
            Some(bytes) => drop(self.received((number, ask), false, &Ok(status), &bytes)),
            None => self
                .model
                .dropped((number, ask), self.name_of(at, status.peer), status),
        }
    }

    pub(super) fn send_loan(&mut self, which: usize, to: usize, tag: u64) {
        let Some((at, mut loan)) = pick(&mut self.loans, which) else {
            return;
        };
        let Some(peer) = self.connect(at, to) else {
            return;
        };
        if !self.attach(at, peer) {
            return;
        }
        let base = loan.len() - MOST_MESSAGES;
        let (message, len) = self.model.send(self.name(at), self.name(to), tag, base);
        loan[..len].copy_from_slice(&content(message as u64, len));
        let sent = loan.isend_first(len, peer, tag);
        self.started(message, sent.map(Sending::Loan));
    }

    pub(super) fn take_loaned(&mut self, at: usize, asked: Asked) {
        let Some((ask, selector)) = self.ask(at, asked) else {
            return;
        };
        if !self.at_hand(at, selector) {
            return;
        }
        let taken = self
            .endpoint(at)
            .recv_loaned_timeout(selector, Duration::ZERO);
        if let Some(Some(loaned)) = self.excused(taken) {
            let number = self.model.receive();
            let outcome = Ok(loaned.status());
            let message = self.received((number, ask), false, &outcome, &loaned.to_vec());
            self.loaned.push((message.expect("it came"), loaned));
        }
    }

    /// Meets a peer, for calls that would wait for that. False: one of the two is gone.
    fn attach(&self, at: usize, peer: Peer) -> bool {
        loop {
            match self.excused(self.endpoint(at).attach(peer)) {
                Some(false) => drop(self.progress()),
                attached => return attached.is_some(),
            }
        }
    }

    pub(super) fn access(
        &mut self,
        at: usize,
        which: usize,
        (offset, len): (usize, usize),
        write: bool,
        way: Way,
    ) {
        if self.exposed.is_empty() {
            return;
        }
        let which = which % self.exposed.len();
        let (owner, key) = (self.exposed[which].at, self.exposed[which].region.key());
        let Some(peer) = self.connect(at, owner) else {
            return;
        };
        if !self.attach(at, peer) {
            return;
        }
        let data = content(at as u64 + 100, len);
        let mut found = if write { data.clone() } else { vec![0; len] };
        let endpoint = self.endpoint(at);
        let range = (peer, key, offset as u64);
        let outcome = match way {
            Way::Waits if at == owner && write => endpoint.write(peer, key, range.2, &found),
            Way::Waits if at == owner => endpoint.read(peer, key, range.2, &mut found),
            Way::Scope => self.access_in_scope(endpoint, range, &mut found, write),
            _ => {
                let (outcome, bytes) = self.access_by_handle(endpoint, range, found, write);
                found = bytes;
                outcome
            }
        };
        let bytes = &mut self.exposed[which].bytes;
        let is_within = offset + len <= bytes.len();
        match outcome {
            Ok(()) => {
                let part = &mut bytes[offset..offset + len];
                if write {
                    part.copy_from_slice(&data);
                }
                assert!(part == found, "{len} bytes at {offset}");
            }
            Err(Error::OutOfRegion { .. }) => assert!(!is_within),
            Err(error) => {
                assert!(self.model.may_fail(&error), "{error}");
                if write {
                    // Some of it may be there.
                    drop(self.exposed.remove(which));
                }
            }
        }
    }

    /// Gives the buffer too.
    fn access_by_handle(
        &self,
        endpoint: &HybridEndpoint,
        (peer, key, offset): (Peer, RegionKey, u64),
        buffer: Vec<u8>,
        write: bool,
    ) -> (limic::Result<()>, Vec<u8>) {
        let posted = match write {
            true => endpoint.iwrite(peer, key, offset, buffer).map(Ok),
            false => endpoint.iread(peer, key, offset, buffer).map(Err),
        };
        let (outcome, bytes) = match posted {
            Ok(Ok(mut write)) => {
                while !write.test() {
                    self.progress();
                }
                write.wait_buffer()
            }
            Ok(Err(mut read)) => {
                while !read.wait_timeout(Duration::ZERO) {
                    self.progress();
                }
                read.wait_buffer()
            }
            Err(error) => (Err(error), Vec::new()),
        };
        (outcome.map(drop), bytes)
    }

    fn access_in_scope(
        &self,
        endpoint: &HybridEndpoint,
        (peer, key, offset): (Peer, RegionKey, u64),
        buffer: &mut [u8],
        write: bool,
    ) -> limic::Result<()> {
        endpoint.scope(|scope| {
            if write {
                let mut write = scope.iwrite(peer, key, offset, buffer)?;
                while !write.wait_timeout(Duration::ZERO) {
                    self.progress();
                }
                return write.wait().map(drop);
            }
            let mut read = scope.iread(peer, key, offset, buffer)?;
            while !read.test() {
                self.progress();
            }
            read.wait().map(drop)
        })
    }

    pub(super) fn scope(
        &mut self,
        at: usize,
        requests: &[Scoped],
        calls: &[(Raw, usize)],
        end: End,
    ) {
        let endpoint = self.endpoint(at);
        // What is sent and where it is received lives longer than the scope.
        let mut sent = Vec::new();
        let mut asked = Vec::new();
        for request in requests {
            match *request {
                Scoped::Send((to, tag, len), parted) => {
                    let Some(peer) = self.connect(at, to) else {
                        return;
                    };
                    sent.push((peer, to, tag, len, parted));
                }
                Scoped::Receive(from, room) => {
                    let Some(ask) = self.ask(at, from) else {
                        return;
                    };
                    asked.push((ask, vec![0; room]));
                }
            }
        }
        let sent: Vec<_> = sent
            .into_iter()
            .map(|(peer, to, tag, len, parted)| {
                let (message, len) = self.model.send(self.name(at), self.name(to), tag, len);
                (peer, tag, message, content(message as u64, len), parted)
            })
            .collect();
        let mut outcomes = Vec::new();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            endpoint.scope(|scope| {
                let mut sends = Vec::new();
                let mut receives = Vec::new();
                for (peer, tag, message, bytes, parted) in &sent {
                    let (first, second) = bytes.split_at(bytes.len() / 3);
                    let send = match parted {
                        true => scope.isend_vectored(*peer, *tag, [first, &[], second]),
                        false => scope.isend(*peer, *tag, bytes),
                    };
                    sends.push((*message, send));
                }
                for ((ask, selector), room) in &mut asked {
                    let number = self.model.receive();
                    receives.push((number, *ask, scope.irecv(*selector, room)));
                }
                for _ in 0..8 {
                    self.progress();
                }
                let of_sends = sends.iter().filter_map(|(_, send)| number_of(send));
                let of_receives = receives.iter().filter_map(|(.., recv)| number_of(recv));
                let ids: Vec<_> = of_sends.chain(of_receives).collect();
                let touched = self.raw_in_scope(at, &ids, calls);
                self.end_scoped(sends, receives, &touched, &mut outcomes);
                match end {
                    End::Done => Ok(()),
                    End::Error => Err(Error::Cancelled),
                    End::Panic => resume_unwind(Box::new("the end of a body")),
                }
            })
        }));
        match (end, ended) {
            (End::Done, Ok(Ok(()))) | (End::Error, Ok(Err(Error::Cancelled))) => {}
            (End::Panic, Err(panic)) => {
                // A failure of this test is another panic.
                if panic.downcast_ref() != Some(&"the end of a body") {
                    resume_unwind(panic);
                }
            }
            (_, Err(panic)) => resume_unwind(panic),
            (end, ended) => panic!("a scope that is to end as {end:?} gave {ended:?}"),
        }
        for (number, ask, outcome, bytes) in outcomes {
            self.received((number, ask), true, &outcome, &bytes);
        }
    }
}
