//! Registrations that are kept for the next transfer of the same memory.
//!
//! A registration that pins pages is wrong as soon as the process unmaps them: the adapter goes on
//! with the old ones. (Hooks in malloc and munmap, which others use, miss direct system calls.) So
//! only these are kept:
//!
//! - Registrations with on-demand paging, on devices that have it. They cannot be wrong: they have
//!   addresses and no pages, and the kernel takes each page away from the adapter before it takes
//!   it away from the process.
//! - On other devices, and only if [`Keep::Watched`] asks for it: those of private memory that
//!   `watch` watches.

use std::collections::HashMap;
use std::sync::Arc;

use super::rail::Rail;
use super::settings::Keep;
use super::spread::Spread;
use crate::objects::Access;
use crate::watch::{Watch, Watched};

/// Most registrations that are kept.
const MOST: usize = 256;

/// What is kept, by first byte and access.
#[derive(Debug)]
pub(super) struct Cache {
    kept: HashMap<(u64, Access), Kept>,
    rule: Rule,
    /// Counts uses, to know which was used least lately.
    uses: u64,
}

/// Which ones are kept.
#[derive(Clone, Copy, Debug)]
enum Rule {
    None,
    OnDemand,
    Watched(&'static Watch),
}

#[derive(Debug)]
struct Kept {
    spread: Arc<Spread>,
    /// `None` with on-demand paging.
    watched: Option<Watched>,
    used: u64,
}

impl Cache {
    pub(super) fn new(rails: &[Rail], keep: Keep) -> Self {
        let on_demand = rails
            .iter()
            .all(|rail| rail.domain.context().limits().on_demand);
        let rule = match keep {
            Keep::Nothing => Rule::None,
            _ if on_demand => Rule::OnDemand,
            Keep::OnDemand => Rule::None,
            Keep::Watched => match Watch::of_process() {
                Ok(watch) => Rule::Watched(watch),
                Err(why) => {
                    tracing::warn!("no registrations are kept: memory cannot be watched: {why}");
                    Rule::None
                }
            },
        };
        Self {
            kept: HashMap::new(),
            rule,
            uses: 0,
        }
    }

    pub(super) fn is_on(&self) -> bool {
        !matches!(self.rule, Rule::None)
    }

    /// What a registration has to allow beside what is asked for.
    pub(super) fn access(&self) -> Access {
        match self.rule {
            Rule::OnDemand => Access::ON_DEMAND,
            _ => Access::LOCAL_READ,
        }
    }

    /// One that begins at this byte, reaches as far, and is right.
    pub(super) fn find(&mut self, start: u64, len: usize, access: Access) -> Option<Arc<Spread>> {
        self.uses += 1;
        let kept = self.kept.get_mut(&(start, access))?;
        if kept
            .watched
            .as_ref()
            .is_some_and(|watched| !watched.holds())
        {
            self.kept.remove(&(start, access));
            return None;
        }
        if kept.spread.len() < len {
            return None;
        }
        kept.used = self.uses;
        Some(Arc::clone(&kept.spread))
    }

    /// Begins to watch a range that is to be registered then: what changes afterwards is noticed.
    /// False: it is not to be kept.
    pub(super) fn watch(&self, start: u64, len: usize) -> (bool, Option<Watched>) {
        match self.rule {
            Rule::None => (false, None),
            Rule::OnDemand => (true, None),
            Rule::Watched(watch) => {
                let watched = watch.add(start, len);
                (watched.is_some(), watched)
            }
        }
    }

    /// Keeps one, in place of a shorter one or of the one that was used least lately. A user
    /// of that one still holds it.
    pub(super) fn keep(&mut self, spread: Arc<Spread>, access: Access, watched: Option<Watched>) {
        let key = (spread.start(), access);
        if self.kept.len() >= MOST && !self.kept.contains_key(&key) {
            // Those of memory that is gone hold its pages: they go first.
            self.kept
                .retain(|_, kept| kept.watched.as_ref().is_none_or(Watched::holds));
        }
        if self.kept.len() >= MOST && !self.kept.contains_key(&key) {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.kept.remove(&oldest);
            }
        }
        let kept = Kept {
            spread,
            watched,
            used: self.uses,
        };
        self.kept.insert(key, kept);
    }

    /// Lets go of all that nobody uses: there are too many pinned pages.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }
}
