// SPDX-License-Identifier: GPL-2.0

//! Exposed buffers and their handles.

use crate::abi;
use crate::copy::{self, Direction, Stopped};
use crate::costs::{Call, Step, Trip};
use crate::counters::{COUNTERS, Event, count};
use crate::ffi;
use crate::group::Group;
use crate::held::Held;
use crate::pieces::Pieces;
use crate::realm::RealmKey;
use crate::session::Session;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation};
use kernel::sync::Arc;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::{new_mutex, sync::Mutex};

const BUCKETS: usize = 256;
/// Exposures of one session at a time.
const MOST: usize = 65536;
/// Nodes without content that a session holds for its next exposures, which then need no memory for
/// them.
const SPARE: usize = 16;

/// Who may use an exposure, besides being of the owner's realm.
enum Audience {
    Group(Arc<Group>),
    Rank(Arc<Group>, u32),
    Session(u64),
}

/// An exposed buffer.
pub(crate) struct Exposure {
    handle: u64,
    /// The list of the session that made it. It is in there until it ends, which undoes the circle.
    owner: Arc<Own>,
    realm: RealmKey,
    audience: Audience,
    access: u32,
    /// Whether a copy call has used it up; only with `EXPOSE_ONCE`.
    used: Atomic<bool>,
    held: Held,
}

impl Exposure {
    /// Whether `session` may know of it.
    fn admits(&self, session: &Session, id: u64) -> bool {
        if self.realm != session.realm().key() {
            return false;
        }
        let member = |group: &Arc<Group>| {
            let member = session.membership();
            member.filter(|member| Arc::ptr_eq(&member.group, group))
        };
        match &self.audience {
            Audience::Group(group) => member(group).is_some(),
            Audience::Rank(group, rank) => member(group).is_some_and(|it| it.rank == *rank),
            Audience::Session(only) => *only == id,
        }
    }
}

type Tree = RBTree<u64, Arc<Exposure>>;
type Node = RBTreeNode<u64, Arc<Exposure>>;
type EmptyNode = RBTreeNodeReservation<u64, Arc<Exposure>>;

#[pin_data]
struct Bucket {
    #[pin]
    exposures: Mutex<Tree>,
}

/// All exposures, by handle. Handles are random, so they spread over the buckets.
pub(crate) struct Exposures {
    buckets: KVVec<Pin<KBox<Bucket>>>,
}

impl Exposures {
    pub(crate) fn new() -> Result<Self> {
        let mut buckets = KVVec::with_capacity(BUCKETS, GFP_KERNEL)?;
        for _ in 0..BUCKETS {
            let bucket = pin_init!(Bucket {
                exposures <- new_mutex!(RBTree::new(), "limic_exposures"),
            });
            buckets.push(KBox::pin_init(bucket, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(Self { buckets })
    }

    fn bucket(&self, handle: u64) -> Option<&Mutex<Tree>> {
        let bucket = self.buckets.get(handle as usize % BUCKETS)?;
        Some(&bucket.exposures)
    }

    fn find(&self, handle: u64) -> Option<Arc<Exposure>> {
        self.bucket(handle)?.lock().get(&handle).cloned()
    }

    /// Lets it be found. False if the handle is in use.
    fn insert(&self, handle: u64, node: Node) -> bool {
        let Some(bucket) = self.bucket(handle) else {
            return false;
        };
        let mut bucket = bucket.lock();
        if bucket.get(&handle).is_some() {
            drop(bucket);
            drop(node);
            return false;
        }
        bucket.insert(node);
        drop(bucket);
        COUNTERS.exposures.add(1, Relaxed);
        true
    }

    /// Takes an exposure out: nobody finds it any more. Gives what held it.
    fn remove(&self, handle: u64) -> Option<Node> {
        let node = self.bucket(handle)?.lock().remove_node(&handle)?;
        COUNTERS.exposures.add(-1, Relaxed);
        Some(node)
    }
}

/// The exposures of one session.
#[pin_data]
pub(crate) struct Own {
    #[pin]
    list: Mutex<OwnList>,
}

struct OwnList {
    tree: Tree,
    count: usize,
    /// At most [`SPARE`]; it never grows under the lock.
    spare: KVec<EmptyNode>,
}

impl Own {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let list = OwnList {
            tree: RBTree::new(),
            count: 0,
            spare: KVec::with_capacity(SPARE, GFP_KERNEL_ACCOUNT)?,
        };
        let own = pin_init!(Self { list <- new_mutex!(list, "limic_own_exposures") });
        Arc::pin_init(own, GFP_KERNEL_ACCOUNT)
    }

    pub(crate) fn len(&self) -> usize {
        self.list.lock().count
    }

    /// Nodes for one more exposure, if there may be one.
    fn nodes(&self) -> Result<(EmptyNode, EmptyNode)> {
        let mut list = self.list.lock();
        if list.count >= MOST {
            return Err(EAGAIN);
        }
        let spare = (list.spare.pop(), list.spare.pop());
        drop(list);
        let made = |spare: Option<EmptyNode>| match spare {
            Some(spare) => Ok(spare),
            None => EmptyNode::new(GFP_KERNEL_ACCOUNT),
        };
        Ok((made(spare.0)?, made(spare.1)?))
    }

    fn find(&self, handle: u64) -> Option<Arc<Exposure>> {
        self.list.lock().tree.get(&handle).cloned()
    }

    /// Takes an exposure out of the list. Gives what held it, which the caller lets go.
    fn remove(&self, handle: u64) -> Option<Node> {
        let mut list = self.list.lock();
        let node = list.tree.remove_node(&handle)?;
        list.count -= 1;
        Some(node)
    }

    /// Keeps what held an exposure for the next one. The caller holds no lock, since the exposure
    /// may go here, and unpin.
    fn recycle(&self, nodes: [Option<Node>; 2]) {
        let [first, second] = nodes.map(|node| node.map(Node::into_reservation));
        let mut list = self.list.lock();
        for spare in [first, second].into_iter().flatten() {
            // One that finds no room is freed, which may be done here.
            let _ = list.spare.push_within_capacity(spare);
        }
    }

    /// Ends them all.
    pub(crate) fn end(&self, all: &Exposures) {
        loop {
            let first = self.list.lock().tree.values().next().cloned();
            let Some(exposure) = first else {
                return;
            };
            drop(all.remove(exposure.handle));
            exposure.held.shut();
            drop(self.remove(exposure.handle));
            ffi::resched();
        }
    }
}

impl Session {
    /// `LIMIC_IOC_EXPOSE`
    #[inline(never)]
    pub(crate) fn expose(&self, arg: &mut abi::Expose) -> Result {
        let mut trip = Trip::begin();
        let ways = abi::EXPOSE_READ | abi::EXPOSE_WRITE;
        let lasting = abi::EXPOSE_ONCE | abi::EXPOSE_KEEP | abi::EXPOSE_LATCH;
        let reserved = [u64::from(arg.reserved0), arg.reserved];
        abi::check(arg.flags, ways | lasting, &reserved)?;
        let latched = arg.flags & abi::EXPOSE_LATCH != 0;
        if (latched && arg.flags & abi::EXPOSE_ONCE != 0) || (!latched && arg.latch != 0) {
            return Err(EINVAL);
        }
        self.id()?;
        if arg.flags & ways == 0 {
            return Err(EINVAL);
        }
        let audience = self.audience(arg)?;
        let pieces = Pieces::read(arg.iov, arg.nr_iov)?;
        if pieces.len() == 0 {
            return Err(EINVAL);
        }
        // Nothing is allocated under the locks below.
        let (for_all, for_own) = self.own().nodes()?;
        trip.step(Step::List);
        let (write, keep) = (abi::EXPOSE_WRITE, abi::EXPOSE_KEEP);
        let latch = if latched {
            Some(self.latch(arg.latch, &pieces)?)
        } else {
            None
        };
        let held = self.hold(&pieces, arg.flags & write != 0, arg.flags & keep != 0)?;
        let held = held.behind(latch);
        trip.step(Step::Pin);
        let exposure = Arc::new(
            Exposure {
                handle: ffi::random_nonzero(),
                owner: self.own().clone(),
                realm: self.realm().key(),
                audience,
                access: arg.flags,
                used: Atomic::new(false),
                held,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        let handle = exposure.handle;
        let behind_latch = latched.then(|| exposure.clone());
        let for_all = for_all.into_node(handle, exposure.clone());
        let for_own = for_own.into_node(handle, exposure);
        // First the owner's list: whoever finds it by its handle may already end it.
        let mut list = self.own().list.lock();
        list.tree.insert(for_own);
        list.count += 1;
        drop(list);
        if !self.exposures().insert(handle, for_all) {
            // The handle is in use, one time in 2^64: the caller tries again.
            drop(self.own().remove(handle));
            return Err(EAGAIN);
        }
        if let Some(exposure) = behind_latch {
            let named = exposure.held.name(handle);
            drop(exposure);
            if !named {
                // The memory has changed since, and nobody else would end it.
                self.unexpose(handle);
                return Err(EBUSY);
            }
        }
        arg.handle = handle;
        arg.len = pieces.len();
        trip.step(Step::Queue);
        trip.end(Call::Expose, pieces.len());
        Ok(())
    }

    /// Ends an exposure of this session. False if there is none of this handle, or not any more:
    /// then nobody is inside either.
    pub(crate) fn unexpose(&self, handle: u64) -> bool {
        // No peer finds it any more, but it stays in this list until none is inside: another thread
        // that ends it meanwhile waits too.
        let Some(exposure) = self.own().find(handle) else {
            return false;
        };
        let all = self.exposures().remove(handle);
        exposure.held.shut();
        let own = self.own().remove(handle);
        let found = own.is_some();
        self.own().recycle([own, all]);
        found
    }

    fn audience(&self, arg: &abi::Expose) -> Result<Audience> {
        let group = || -> Result<Arc<Group>> {
            Ok(self.membership().ok_or(ffi::ENOTCONN())?.group.clone())
        };
        match arg.to {
            abi::TO_GROUP if arg.rank == 0 && arg.session == 0 => Ok(Audience::Group(group()?)),
            abi::TO_RANK if arg.session == 0 => {
                let group = group()?;
                // A rank of the group, there or not yet.
                group.mailbox(arg.rank)?;
                Ok(Audience::Rank(group, arg.rank))
            }
            abi::TO_SESSION if arg.rank == 0 && arg.session != 0 => {
                Ok(Audience::Session(arg.session))
            }
            _ => Err(EINVAL),
        }
    }

    /// `LIMIC_IOC_COPY`; `arg.copied` is valid unless the result is of a call that was refused at
    /// once.
    #[inline(never)]
    pub(crate) fn copy(&self, arg: &mut abi::Copy) -> Result {
        let mut trip = Trip::begin();
        arg.copied = 0;
        abi::check(arg.flags, abi::COPY_READ | abi::COPY_WRITE, &arg.reserved)?;
        let (direction, needed) = match arg.flags {
            abi::COPY_READ => (Direction::Out, abi::EXPOSE_READ),
            abi::COPY_WRITE => (Direction::In, abi::EXPOSE_WRITE),
            _ => return Err(EINVAL),
        };
        let pieces = Pieces::read(arg.iov, arg.nr_iov)?;
        trip.step(Step::List);
        let id = self.id()?;
        let found = self.exposures().find(arg.handle);
        let exposure = found.filter(|it| it.admits(self, id)).ok_or(ENOENT)?;
        if exposure.access & needed == 0 {
            return Err(EACCES);
        }
        let end = arg.offset.checked_add(pieces.len()).ok_or(ERANGE)?;
        if end > exposure.held.len() {
            return Err(ERANGE);
        }
        let once = exposure.access & abi::EXPOSE_ONCE != 0;
        if once && exposure.used.xchg(true, Full) {
            return Err(ENOENT);
        }
        trip.step(Step::Queue);
        let list = pieces.as_slice();
        let len = pieces.len();
        let (copied, stopped) =
            copy::copy(&exposure.held, arg.offset, list, len, direction, &mut trip);
        arg.copied = copied;
        if once {
            // It has had its copy.
            drop(self.exposures().remove(exposure.handle));
            exposure.held.shut();
            drop(exposure.owner.remove(exposure.handle));
        }
        drop(exposure);
        count(Event::Copies, 1);
        count(Event::Bytes, copied);
        trip.step(Step::Complete);
        trip.end(Call::Copy, len);
        match stopped {
            None => Ok(()),
            Some(stopped) => {
                count(Event::Stopped, 1);
                Err(match stopped {
                    Stopped::Fault => EFAULT,
                    Stopped::Shut => ffi::ECANCELED(),
                    Stopped::Killed => EINTR,
                })
            }
        }
    }

    /// `LIMIC_IOC_REVOKE`
    pub(crate) fn revoke(&self, arg: &abi::Revoke) -> Result {
        abi::check(0, 0, &[arg.reserved])?;
        self.id()?;
        match self.unexpose(arg.handle) {
            true => Ok(()),
            false => Err(ENOENT),
        }
    }
}
