//! One victim, what becomes of it, and what its partner finds afterwards.

use limic::{Endpoint, Error, HybridEndpoint, Peer, PeerFailure, RegionKey, Tag};
use limic_tests::stepped::{Pace, Stepped, Stop};
use limic_tests::{check, content};

use crate::inbox::Inbox;
use crate::operations::Operation;
use crate::roles::{BEFORE, LONG, Partner, WRITTEN};
use crate::{ROUNDS, WARM};

/// Between the partner and a third endpoint.
const THIRD: Tag = Tag(1001);
/// Turns of the partner in which a message to somebody else arrives.
pub(crate) const TURNS: usize = 10_000;

/// What becomes of the victim.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// It is killed after so many steps.
    Killed(u64),
    /// It is held for a while after each so many steps, and goes on to its end.
    Held(u64),
}

/// The partner, and one that both have nothing to do with.
pub(crate) struct Stage<'a> {
    pub(crate) operation: &'a Operation,
    pub(crate) endpoint: &'a HybridEndpoint,
    pub(crate) third: &'a HybridEndpoint,
}

impl Stage<'_> {
    pub(crate) fn turn(&self) {
        self.endpoint.progress();
        self.third.progress();
    }

    /// Messages between the partner and the third endpoint, whatever the victim does.
    pub(crate) fn exchange(&self, what: &str) {
        let to_third = self.endpoint.connect(&self.third.address().to_bytes());
        let to_third = to_third.expect("an address");
        let back = self.third.connect(&self.endpoint.address().to_bytes());
        let back = back.expect("an address");
        for len in [8, LONG] {
            let data = || content(7, len);
            let sends = [
                self.endpoint.isend(to_third, THIRD, data()),
                self.third.isend(back, THIRD, data()),
            ];
            let receives = [
                self.third.irecv((back, THIRD), vec![0; len]),
                self.endpoint.irecv((to_third, THIRD), vec![0; len]),
            ];
            let mut receives = receives.map(|receive| receive.expect("a receive"));
            let done = (0..TURNS).any(|_| {
                self.turn();
                receives.iter_mut().fold(true, |all, one| all & one.test())
            });
            assert!(done, "{what}: messages of others do not arrive");
            for receive in receives {
                check(7, &receive.wait().expect("a message").1);
            }
            for send in sends {
                send.and_then(|send| send.wait()).expect("a send");
            }
        }
    }

    /// The error names the victim, and how it ended.
    pub(crate) fn dead(&self, victim: Peer, error: &Error, what: &str) {
        let Error::PeerFailed { peer, why } = error else {
            panic!("{what}: {error}");
        };
        assert_eq!(*peer, victim, "{what}: {error}");
        match why {
            PeerFailure::Died => {}
            PeerFailure::Closed if self.operation.closes => {}
            // It died before the two had met.
            PeerFailure::Unreachable if !self.operation.have_met => {}
            _ => panic!("{what}: {error}"),
        }
    }

    /// One victim from its beginning to its end. Gives the number of steps of its operation.
    pub(crate) fn play(&self, stepped: &mut Stepped, fate: Fate, number: u64, what: &str) -> u64 {
        let operation = self.operation;
        let region = self.endpoint.region(vec![0; LONG]).expect("a region");
        let mut telling = region.key().0.to_le_bytes().to_vec();
        telling.extend(self.endpoint.address().to_bytes());
        stepped.tell(&telling);
        assert_eq!(stepped.go(Pace::Mark, || {}), Stop::Marked, "{what}");
        let told = stepped.hear();
        let (key, address) = told.split_at(8);
        let key = RegionKey(u64::from_le_bytes(key.try_into().expect("a key")));
        let peer = self.endpoint.connect(address).expect("an address");
        self.meet(stepped, peer, what);
        let child = i32::from_le_bytes(stepped.hear().try_into().expect("a number"));

        let mut part = (operation.partner)(&Partner {
            endpoint: self.endpoint,
            victim: peer,
            key,
        });
        let before = if operation.have_met { BEFORE } else { 0 };
        let lengths = (0..before).map(|_| 8).chain(part.comes.iter().copied());
        let inbox = Inbox {
            stage: self,
            victim: peer,
            what,
            lengths: lengths.collect(),
            first: 1 + BEFORE - before,
            delivered: 0,
            is_gone: false,
        };
        // Each second time they are there before the messages.
        let posted = if number.is_multiple_of(2) {
            inbox.post()
        } else {
            Vec::new()
        };
        let turns_every = 1 + number * 37 % 301;
        let mut refused = Ok(());
        let mut turn = || {
            self.turn();
            if refused.is_ok() {
                refused = (part.meanwhile)();
            }
        };
        let mut steps = 0;
        let is_over = loop {
            if matches!(fate, Fate::Killed(at) if at == steps) {
                break false;
            }
            match stepped.go(operation.pace, &mut turn) {
                Stop::Between => steps += 1,
                Stop::Marked => break true,
                Stop::Ended(code) => panic!("{what}: the victim ended with {code:?}"),
            }
            if steps % turns_every == 0 {
                turn();
            }
            let is_held = matches!(fate, Fate::Held(every) if steps % every == 0);
            if is_held && !operation.holds_others {
                self.exchange(what);
            }
        };
        match fate {
            Fate::Killed(_) => stepped.kill(),
            Fate::Held(_) => {
                let end = stepped.go(Pace::Mark, &mut turn);
                assert_eq!(end, Stop::Ended(Some(0)), "{what}");
            }
        }
        drop(part.meanwhile);
        match refused {
            Ok(()) => {}
            Err(Error::UnknownRegion { peer: of }) => assert_eq!(of, peer, "{what}"),
            Err(error) => self.dead(peer, &error, what),
        }
        let whole = matches!(fate, Fate::Held(_)) || is_over;
        inbox.finish(posted, if whole { u64::MAX } else { before });
        for send in part.sends {
            if let Err(error) = send.wait() {
                assert!(!whole, "{what}: {error}");
                self.dead(peer, &error, what);
            }
        }
        let again = self.endpoint.send(peer, 1, b"anybody there?");
        let again = again.expect_err("it is dead");
        assert!(matches!(again, Error::PeerFailed { peer: of, .. } if of == peer));
        let memory = region.revoke().expect("nobody accesses it any more");
        let written = content(WRITTEN, LONG);
        let fits = |(found, wanted): (&u8, &u8)| *found == 0 || found == wanted;
        assert!(memory.iter().zip(&written).all(fits), "{what}: a region");
        self.exchange(what);
        if child > 0 {
            // It may have ended by itself, if this takes long.
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(child),
                nix::sys::signal::Signal::SIGKILL,
            );
        }
        steps
    }

    /// The victim's first messages, if there are any, until it stands before its operation.
    fn meet(&self, stepped: &mut Stepped, victim: Peer, what: &str) {
        let rounds = if self.operation.have_met { ROUNDS } else { 0 };
        let len = self.operation.before;
        let mut under_way = Vec::new();
        for _ in 0..rounds {
            let receive = self.endpoint.irecv((victim, WARM), vec![0; len]);
            let send = self.endpoint.isend(victim, WARM, content(0, len));
            under_way.push((receive.expect("a receive"), send.expect("a send")));
        }
        let stop = stepped.go(Pace::Mark, || self.turn());
        assert_eq!(stop, Stop::Marked, "{what}");
        for (receive, send) in under_way {
            check(0, &receive.wait().expect("a message").1);
            send.wait().expect("a send");
        }
    }
}
