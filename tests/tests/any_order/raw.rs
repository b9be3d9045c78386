//! Calls of `limic::raw::Requests` that are safe: on requests of handles, whose numbers any program
//! can find or guess, on numbers that mean none, and on operations that were done when they were
//! entered.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use limic::raw::{RequestId, Requests};
use limic::{Endpoint, Error, HybridEndpoint, Outcome, Status, Tag};

use super::era::Era;

/// A call about one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Raw {
    /// An operation that is done is entered, for the scope of the last one or for a new one.
    Enter {
        new_owner: bool,
        fails: bool,
    },
    IsDone,
    Test,
    Wait,
    WaitAny,
    Cancel,
    Watch,
    Abandon,
    OwnedBy,
    Watched,
    NextCompleted,
}

/// What was entered, and is there.
struct Entered {
    id: RequestId,
    owner: u32,
    outcome: Outcome,
}

/// What one endpoint has to say of requests by number.
#[derive(Default)]
pub(super) struct Entries {
    there: Vec<Entered>,
    /// Numbers that mean nothing any more.
    gone: Vec<RequestId>,
    /// Names and outcomes of what was watched, in order.
    listed: VecDeque<(u64, Outcome)>,
    last_owner: Option<u32>,
    names: u64,
    /// What was left to operations that were abandoned, and one more.
    kept: Arc<()>,
}

impl Entries {
    /// A number that means nothing.
    fn unknown(&self, which: usize) -> RequestId {
        let guessed = RequestId(which as u64 | 0xFFFF_FFF0 << 32);
        let gone = self.gone.get(which % (self.gone.len() + 1));
        gone.copied().unwrap_or(guessed)
    }

    fn forget(&mut self, at: usize) -> Entered {
        let entered = self.there.swap_remove(at);
        self.gone.push(entered.id);
        entered
    }
}

/// The name of what was watched in scopes.
const OF_SCOPES: u64 = 1 << 32;

const UNKNOWN: Outcome = Err(Error::UnknownRequest);

impl Era<'_> {
    /// A call about an operation that was entered, or about none.
    pub(super) fn raw(&mut self, at: usize, raw: Raw, which: usize) {
        let endpoint = self.endpoint(at);
        let entries = &mut self.entries[at];
        match raw {
            Raw::Enter { new_owner, fails } => return entries.enter(endpoint, new_owner, fails),
            Raw::NextCompleted => return entries.next_completed(endpoint),
            Raw::OwnedBy => return entries.owned_by(endpoint, which),
            Raw::Watched => return assert_eq!(endpoint.watched(u64::MAX), None),
            _ => {}
        }
        // One of those that are there, or none of them.
        let place = which % (entries.there.len() + 1);
        if place == entries.there.len() {
            let id = entries.unknown(which);
            return about_nothing(endpoint, raw, id);
        }
        let id = entries.there[place].id;
        match raw {
            Raw::IsDone => assert!(endpoint.is_done(id)),
            Raw::Test => assert_eq!(endpoint.test(id), Some(entries.forget(place).outcome)),
            Raw::Wait => assert_eq!(endpoint.wait(id), entries.forget(place).outcome),
            Raw::WaitAny => {
                let found = endpoint.wait_any(&[id, id]);
                assert_eq!(found, Some((0, entries.forget(place).outcome)));
            }
            // It is too late.
            Raw::Cancel => assert_eq!(endpoint.cancel(id), Ok(())),
            Raw::Watch => {
                entries.names += 1;
                let name = entries.names;
                assert_eq!(endpoint.watch(id, name), Ok(()));
                let outcome = entries.forget(place).outcome;
                entries.listed.push_back((name, outcome));
            }
            Raw::Abandon => {
                endpoint.abandon(id, Box::new(Arc::clone(&entries.kept)));
                entries.forget(place);
            }
            Raw::Enter { .. } | Raw::OwnedBy | Raw::Watched | Raw::NextCompleted => {
                unreachable!("these are made above")
            }
        }
    }

    /// Calls about requests of a scope, some of which are under way. Gives those about which its
    /// handles may know nothing any more.
    pub(super) fn raw_in_scope(
        &mut self,
        at: usize,
        ids: &[RequestId],
        calls: &[(Raw, usize)],
    ) -> Vec<RequestId> {
        let endpoint = self.endpoint(at);
        let mut touched = Vec::new();
        for (raw, which) in calls {
            let Some(id) = ids.get(which % ids.len().max(1)).copied() else {
                break;
            };
            touched.push(id);
            match raw {
                Raw::Test => drop(endpoint.test(id)),
                // Others would have to answer, if it is under way.
                Raw::Wait if endpoint.is_done(id) => drop(endpoint.wait(id)),
                Raw::WaitAny if endpoint.is_done(id) => drop(endpoint.wait_any(&[id])),
                // An error says that an earlier call has taken it.
                Raw::Cancel => drop(endpoint.cancel(id)),
                Raw::Watch => drop(endpoint.watch(id, OF_SCOPES)),
                Raw::Abandon => {
                    endpoint.abandon(id, Box::new(Arc::clone(&self.entries[at].kept)));
                }
                _ => {
                    touched.pop();
                }
            }
        }
        touched
    }

    /// Takes all that was entered, so that nothing of it is left to those who come.
    pub(super) fn end_raw(&mut self) {
        for at in self.places() {
            let endpoint = self.endpoint(at);
            let entries = &mut self.entries[at];
            while !entries.listed.is_empty() {
                entries.next_completed(endpoint);
            }
            entries.next_completed(endpoint);
            while let Some(entered) = entries.there.pop() {
                assert!(endpoint.owned_by(entered.owner).is_some());
                assert_eq!(endpoint.wait(entered.id), entered.outcome);
            }
            endpoint.progress();
            assert_eq!(Arc::strong_count(&entries.kept), 1, "buffers of those left");
        }
    }
}

impl Entries {
    fn enter(&mut self, endpoint: &HybridEndpoint, new_owner: bool, fails: bool) {
        let owner = self.last_owner.filter(|_| !new_owner);
        let owner = owner.unwrap_or_else(|| {
            let owner = endpoint.new_owner();
            assert_ne!(owner, 0);
            assert_eq!(endpoint.owned_by(owner), None, "nobody has it");
            owner
        });
        self.last_owner = Some(owner);
        let outcome = match fails {
            true => Err(Error::Cancelled),
            false => Ok(Status {
                peer: endpoint.myself(),
                tag: Tag(u64::from(owner)),
                len: self.there.len() as u64,
                immediate: None,
            }),
        };
        let id = endpoint.insert_done(outcome.clone(), owner);
        assert!(self.there.iter().all(|other| other.id != id));
        assert!(!self.gone.contains(&id), "a number comes again");
        self.there.push(Entered { id, owner, outcome });
    }

    fn next_completed(&mut self, endpoint: &HybridEndpoint) {
        let mut completed = endpoint.next_completed();
        while completed
            .as_ref()
            .is_some_and(|(name, _)| *name == OF_SCOPES)
        {
            completed = endpoint.next_completed();
        }
        assert_eq!(completed, self.listed.pop_front());
    }

    fn owned_by(&self, endpoint: &HybridEndpoint, which: usize) {
        let Some(entered) = self.there.get(which % self.there.len().max(1)) else {
            return;
        };
        let found = endpoint.owned_by(entered.owner);
        let of_owner = |other: &&Entered| other.owner == entered.owner;
        let mut owned = self.there.iter().filter(of_owner);
        assert!(owned.any(|other| Some(other.id) == found), "{found:?}");
    }
}

/// A call about a number that means nothing.
fn about_nothing(endpoint: &HybridEndpoint, raw: Raw, id: RequestId) {
    match raw {
        Raw::IsDone => assert!(endpoint.is_done(id)),
        Raw::Test => assert_eq!(endpoint.test(id), Some(UNKNOWN)),
        Raw::Wait => assert_eq!(endpoint.wait(id), UNKNOWN),
        Raw::WaitAny => {
            assert_eq!(endpoint.wait_any(&[]), None);
            assert_eq!(endpoint.wait_any(&[id]), Some((0, UNKNOWN)));
        }
        Raw::Cancel => assert_eq!(endpoint.cancel(id), Err(Error::UnknownRequest)),
        Raw::Watch => assert_eq!(endpoint.watch(id, 0), Err(Error::UnknownRequest)),
        Raw::Abandon => endpoint.abandon(id, Box::new([0_u8; 8])),
        Raw::Enter { .. } | Raw::OwnedBy | Raw::Watched | Raw::NextCompleted => {}
    }
}

/// The number of a handle's request, which it tells whoever prints it.
pub(super) fn number_of(handle: &impl Debug) -> Option<RequestId> {
    let shown = format!("{handle:?}");
    let (_, behind) = shown.split_once("RequestId(")?;
    let digits = behind.split(')').next()?;
    Some(RequestId(digits.parse().expect("a number")))
}
