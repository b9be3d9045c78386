// SPDX-License-Identifier: GPL-2.0

//! Groups: the members of a job, by rank.

use crate::abi;
use crate::counters::COUNTERS;
use crate::events::Outcome;
use crate::ffi;
use crate::mailbox::Mailbox;
use crate::realm::{Realm, RealmKey};
use crate::request::{Party, Requests};
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, SetOnce};
use kernel::{new_mutex, sync::Mutex};

/// Receives that a departure ends at a time.
const BATCH: usize = 32;

/// What a group is found by: the token, and who may use it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    token: [u64; 2],
    realm: RealmKey,
}

/// All groups.
#[pin_data]
pub(crate) struct Groups {
    #[pin]
    by_key: Mutex<RBTree<GroupKey, Arc<Group>>>,
}

/// One group.
pub(crate) struct Group {
    key: GroupKey,
    /// By rank. A place is filled once and never again.
    mailboxes: KVVec<SetOnce<Arc<Mailbox>>>,
    /// Members that are present; guarded by the lock of [`Groups`], which all who change it hold.
    present: Atomic<u32>,
}

/// A session's place in its group.
pub(crate) struct Membership {
    pub(crate) group: Arc<Group>,
    pub(crate) rank: u32,
    pub(crate) mailbox: Arc<Mailbox>,
}

impl Membership {
    /// The token of the group, for who may know it: a session of the same realm. `None` for others,
    /// and once the member has left.
    pub(crate) fn token_for(&self, realm: &Realm) -> Option<[u64; 2]> {
        let here = !self.mailbox.has_left() && self.group.key.realm == realm.key();
        here.then_some(self.group.key.token)
    }
}

impl Groups {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { by_key <- new_mutex!(RBTree::new(), "limic_groups") })
    }

    /// Makes `mailbox` a member, as `LIMIC_IOC_JOIN` asks.
    pub(crate) fn join(
        &self,
        realm: &Realm,
        arg: &mut abi::Join,
        mailbox: Arc<Mailbox>,
    ) -> Result<Membership> {
        let create = arg.flags & abi::JOIN_CREATE != 0;
        let mut key = GroupKey {
            token: arg.token,
            realm: realm.key(),
        };
        if key.token == [0, 0] {
            if !create {
                return Err(ENOENT);
            }
            key.token = [ffi::random_nonzero(), ffi::random_nonzero()];
        }
        // Made before the lock, under which nothing is allocated, and dropped after it if it is not
        // needed.
        let mut fresh = None;
        if create {
            let group = Group::new(key, arg.size)?;
            fresh = Some(RBTreeNode::new(key, group, GFP_KERNEL_ACCOUNT)?);
        }
        let mut by_key = self.by_key.lock();
        if by_key.get(&key).is_none() {
            let Some(node) = fresh.take() else {
                return Err(ENOENT);
            };
            by_key.insert(node);
        }
        let group = by_key.get(&key).ok_or(ENOENT)?.clone();
        let rank = match group.place(arg.rank, &mailbox) {
            Ok(rank) => rank,
            Err(error) => {
                // A group that was just made goes again.
                let unused = (group.present.load(Relaxed) == 0)
                    .then(|| by_key.remove_node(&key))
                    .flatten();
                drop(by_key);
                drop((unused, fresh));
                return Err(error);
            }
        };
        if group.present.fetch_add(1, Relaxed) == 0 {
            COUNTERS.groups.add(1, Relaxed);
        }
        drop(by_key);
        drop(fresh);
        arg.token = key.token;
        arg.rank = rank;
        arg.size = group.size();
        Ok(Membership {
            group,
            rank,
            mailbox,
        })
    }

    /// A member leaves, with all its requests. Its session takes no calls any more. `how` is what
    /// others are told: `abi::MEMBER_LEFT` or `abi::MEMBER_CLOSED`.
    pub(crate) fn leave(&self, member: &Membership, requests: Option<&Requests>, how: u32) {
        let Membership {
            group,
            rank,
            mailbox,
        } = member;
        // Nothing arrives any more. What is in the queues is undone outside of the lock.
        let inner = mailbox.leave(how);
        // Before the messages end: those of this member to itself are forgotten, too.
        for request in requests.into_iter().flat_map(Requests::iter) {
            request.abandon();
            ffi::resched();
        }
        if let Some(mut inner) = inner {
            for message in inner.messages() {
                let outcome = Outcome {
                    error: EPIPE.to_errno(),
                    len: 0,
                    full_len: message.len,
                    tag: message.tag,
                    source: message.source,
                    immediate: message.immediate,
                };
                drop(message.body);
                if let Some(sender) = message.sender {
                    sender.set_matched();
                    sender.complete(&outcome, true);
                }
            }
        }
        for other in group.mailboxes.iter().filter_map(SetOnce::as_ref) {
            // Those that have left, this one among them, end their receives themselves. In a group
            // that lives long they are most, so their locks are left alone.
            if !other.has_left() {
                end_receives(other, *rank);
                if let Some(events) = other.events() {
                    events.departed();
                }
            }
            ffi::resched();
        }
        let mut by_key = self.by_key.lock();
        let last = group.present.fetch_sub(1, Relaxed) == 1;
        let node = last.then(|| by_key.remove_node(&group.key)).flatten();
        drop(by_key);
        if last {
            COUNTERS.groups.add(-1, Relaxed);
        }
        drop(node);
    }
}

/// Ends the receives in `mailbox` that name `rank`, which has left.
fn end_receives(mailbox: &Mailbox, rank: u32) {
    let mut ended: [Option<Party>; BATCH] = [const { None }; BATCH];
    loop {
        let count = mailbox.end_receives(rank, &mut ended);
        for request in ended.iter_mut().filter_map(Option::take) {
            let outcome = Outcome {
                error: EPIPE.to_errno(),
                len: 0,
                full_len: 0,
                tag: 0,
                source: rank,
                immediate: None,
            };
            request.complete(&outcome, true);
        }
        if count < BATCH {
            return;
        }
        ffi::resched();
    }
}

impl Group {
    fn new(key: GroupKey, size: u32) -> Result<Arc<Self>> {
        let size = match size {
            0 => abi::DEFAULT_RANKS,
            size if size <= abi::MAX_RANKS => size,
            _ => return Err(EINVAL),
        };
        let mut mailboxes = KVVec::with_capacity(size as usize, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..size {
            mailboxes.push(SetOnce::new(), GFP_KERNEL_ACCOUNT)?;
        }
        let present = Atomic::new(0);
        Ok(Arc::new(
            Self {
                key,
                mailboxes,
                present,
            },
            GFP_KERNEL_ACCOUNT,
        )?)
    }

    pub(crate) fn size(&self) -> u32 {
        self.mailboxes.len() as u32
    }

    /// The mailbox of a rank; `None` inside if nobody has had it.
    pub(crate) fn mailbox(&self, rank: u32) -> Result<Option<&Arc<Mailbox>>> {
        Ok(self.mailboxes.get(rank as usize).ok_or(EINVAL)?.as_ref())
    }

    /// Gives out a rank: the one that is wanted, or the lowest free one. [`Groups`] is locked.
    fn place(&self, wanted: u32, mailbox: &Arc<Mailbox>) -> Result<u32> {
        if wanted != abi::ANY_RANK {
            let place = self.mailboxes.get(wanted as usize).ok_or(EINVAL)?;
            if !place.populate(mailbox.clone()) {
                return Err(ffi::EADDRINUSE());
            }
            return Ok(wanted);
        }
        let free = |place: &SetOnce<Arc<Mailbox>>| place.as_ref().is_none();
        let rank = self.mailboxes.iter().position(free).ok_or(ENOSPC)?;
        if let Some(place) = self.mailboxes.get(rank) {
            place.populate(mailbox.clone());
        }
        Ok(rank as u32)
    }
}
