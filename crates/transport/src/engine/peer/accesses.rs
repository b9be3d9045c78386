//! One-sided accesses of this endpoint that the owners of the memory help with.

use std::collections::{HashMap, VecDeque};

use super::entry::BacklogEntry;

/// Those of one owner.
#[derive(Default)]
struct OfOwner {
    /// It was asked, and they are not over.
    under_way: u16,
    /// It is to be asked when fewer are under way.
    waiting: VecDeque<BacklogEntry>,
}

/// All of them, by owner.
#[derive(Default)]
pub(crate) struct Accesses(HashMap<u32, OfOwner>);

impl Accesses {
    /// An access begins: given back if its owner is to be asked now. It waits if so many are under
    /// way.
    pub(crate) fn begin(
        &mut self,
        owner: u32,
        access: BacklogEntry,
        most: u16,
    ) -> Option<BacklogEntry> {
        let its = self.0.entry(owner).or_default();
        if its.under_way < most {
            its.under_way += 1;
            return Some(access);
        }
        its.waiting.push_back(access);
        None
    }

    /// An access is over; gives the one that its owner is to be asked for.
    pub(crate) fn end(&mut self, owner: u32) -> Option<BacklogEntry> {
        let its = self.0.get_mut(&owner)?;
        let next = its.waiting.pop_front();
        if next.is_none() {
            its.under_way = its.under_way.saturating_sub(1);
        }
        next
    }

    /// Whether any of this owner's are not over.
    pub(crate) fn has_any(&self, owner: u32) -> bool {
        self.0.get(&owner).is_some_and(|its| its.under_way > 0)
    }

    /// The owner is gone.
    pub(super) fn forget(&mut self, owner: u32) {
        self.0.remove(&owner);
    }
}
