//! Endpoints (`FI_EP_RDM`). Each is one endpoint of limic.
//!
//! Here is what all calls share: peers by address and addresses by peer, nodes for operations,
//! waking. Opening and closing is in `open`, what is bound to an endpoint in `bind`, names and
//! options in `options`, and what happens to those that are never closed in `leftovers`.

mod bind;
mod leftovers;
mod open;
mod options;

use core::cell::{Cell, RefCell};
use core::ffi::c_void;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use limic::raw::{ClaimId, Inbox};
use limic::{Endpoint as _, HybridEndpoint, Peer, Status};

use crate::address_vector::AddressVector;
use crate::asked::Untaken;
use crate::domain::Domain;
use crate::errors::logged_errno;
use crate::event_queue::EventQueue;
use crate::node::{Node, Pool, UNNAMED, mark};
use crate::object::{Head, Object};
use crate::peer::Owned;
use crate::receipts::{Peers, Receipts};
use crate::services::Service;
use crate::stats::Tally;
use crate::turns::Turns;
use crate::unanswered::Unanswered;
use limic_ofi_abi::endpoint::fid_ep;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::*;

pub(crate) use self::bind::{Binding, Counters};
pub(crate) use self::leftovers::{close_all, is_open};
pub(crate) use self::open::{open, open2};

/// What the tags of limic's messages say beside an application's tag.
pub(crate) mod sort {
    /// 0: a tagged message; its other bits are the application's tag.
    pub(crate) const NOT_TAGGED: u64 = 1 << 63;
    /// An untagged message.
    pub(crate) const UNTAGGED: u64 = NOT_TAGGED;
    /// What endpoints say to each other.
    pub(crate) const ASIDE: u64 = 0b11 << 62;
    /// The bits that tell untagged messages from all others.
    pub(crate) const MASK: u64 = 0b11 << 62;
}

/// An endpoint.
#[repr(C)]
pub(crate) struct Endpoint {
    head: Head<fid_ep>,
    pub(crate) domain: Arc<Domain>,
    pub(crate) turns: Arc<Turns>,
    pub(crate) pool: Pool,
    pub(crate) limic: HybridEndpoint,
    pub(crate) number: u16,
    pub(crate) caps: u64,
    /// What it was named, beside its address.
    service: RefCell<Option<Service>>,
    /// The application lends a `fi_context2` with each operation.
    pub(crate) lends: bool,
    pub(crate) sends: Binding,
    pub(crate) receives: Binding,
    pub(crate) counters: Counters,
    addresses: RefCell<Option<Arc<AddressVector>>>,
    events: RefCell<Option<Arc<EventQueue>>>,
    /// The peer at each position of the address vector, and what each peer is called.
    peers: RefCell<Vec<u32>>,
    positions: RefCell<Vec<fi_addr_t>>,
    pub(crate) enabled: Cell<bool>,
    /// Messages that were found by `FI_PEEK | FI_CLAIM`, by context, with what is known of them.
    pub(crate) claims: RefCell<HashMap<usize, (ClaimId, Status)>>,
    /// Bytes of a multi-receive under which it is given back.
    pub(crate) least_room: Cell<usize>,
    /// Buffers for many messages, and whether there ever was one.
    pub(crate) multi: RefCell<crate::multi_receive::Multi>,
    pub(crate) has_multi: Cell<bool>,
    /// What peers were asked for.
    pub(crate) unanswered: RefCell<Unanswered>,
    pub(crate) receipts: Receipts,
    /// The application has asked for the order of accesses.
    pub(crate) keeps_order: bool,
    /// What peers have said and is not heard yet.
    pub(crate) waiting: RefCell<crate::control_channel::Waiting>,
    /// Memory of what was heard, and of what was said, to be used again.
    pub(crate) heard_last: Cell<Inbox>,
    pub(crate) said_last: Cell<Vec<u8>>,
    /// Copies of injected messages that are not sent yet, and their bytes.
    pub(crate) injected: Cell<u32>,
    pub(crate) injected_bytes: Cell<usize>,
    /// Answers to peers that have not gone yet.
    pub(crate) untaken: RefCell<Untaken>,
    /// Peers of which the log says that an operation was refused.
    pub(crate) refused: RefCell<Peers>,
    /// What it keeps for another provider that owns its receives.
    pub(crate) owned: Owned,
    pub(crate) tally: Tally,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for Endpoint {
    const CLASS: usize = class::EP;
}

// SAFETY: touched only in its turns, or in those that they are joined to; and by the thread that
// closes it, when no other object knows it any more and the application calls it no longer.
unsafe impl Send for Endpoint {}
// SAFETY: as above.
unsafe impl Sync for Endpoint {}

/// No peer yet.
const UNKNOWN: u32 = u32::MAX;

impl Endpoint {
    /// The peer at a position of the address vector.
    #[inline(always)]
    pub(crate) fn peer(&self, address: fi_addr_t) -> Result<Peer, i32> {
        // SAFETY: nobody changes it while the number is copied.
        let known = unsafe { self.peers.try_borrow_unguarded() };
        let known = known.ok().and_then(|peers| peers.get(address as usize));
        match known {
            Some(peer) if *peer != UNKNOWN => Ok(Peer::from_index(*peer)),
            _ => self.find_peer(address),
        }
    }

    #[cold]
    fn find_peer(&self, address: fi_addr_t) -> Result<Peer, i32> {
        let addresses = self.addresses.borrow();
        let vector = addresses.as_ref().ok_or(FI_ENOAV)?;
        let found = vector.address(address)?;
        let peer = self
            .limic
            .connect(&found.to_bytes())
            .map_err(|error| logged_errno(&error))?;
        let mut peers = self.peers.borrow_mut();
        if peers.len() <= address as usize {
            peers.resize(address as usize + 1, UNKNOWN);
        }
        peers[address as usize] = peer.index();
        Ok(peer)
    }

    /// What a peer is called: its position in the address vector, or what the application chose.
    pub(crate) fn address_of(&self, peer: u32) -> fi_addr_t {
        let mut positions = self.positions.borrow_mut();
        let place = peer as usize;
        if let Some(known) = positions.get(place)
            && *known != UNNAMED
        {
            return *known;
        }
        let addresses = self.addresses.borrow();
        let Ok(address) = self.limic.peer_address(Peer::from_index(peer)) else {
            return UNNAMED;
        };
        let found = addresses.as_ref().and_then(|all| all.name(&address));
        let Some(found) = found else { return UNNAMED };
        if positions.len() <= place {
            positions.resize(place + 1, UNNAMED);
        }
        positions[place] = found;
        found
    }

    /// Whether this is the address vector of the endpoint.
    pub(crate) fn uses(&self, vector: &AddressVector) -> bool {
        let addresses = self.addresses.borrow();
        addresses
            .as_deref()
            .is_some_and(|own| core::ptr::eq(own, vector))
    }

    /// An address was taken out of a vector: if it is this endpoint's vector, nobody stands at that
    /// position any more.
    pub(crate) fn forget_address(&self, vector: &AddressVector, at: fi_addr_t) {
        if !self.uses(vector) {
            return;
        }
        if let Some(peer) = self.peers.borrow_mut().get_mut(at as usize) {
            *peer = UNKNOWN;
        }
        self.forget_name(vector, at);
    }

    /// An address of a vector is to have another name: if it is this endpoint's vector, the peer is
    /// looked up again.
    pub(crate) fn forget_name(&self, vector: &AddressVector, at: fi_addr_t) {
        if !self.uses(vector) {
            return;
        }
        let name = vector.name_of(at);
        // A peer may stand here that was only received from.
        for known in self
            .positions
            .borrow_mut()
            .iter_mut()
            .filter(|known| **known == name)
        {
            *known = UNNAMED;
        }
    }

    /// The mark of this endpoint on its nodes.
    #[inline(always)]
    pub(crate) fn mark(&self) -> u64 {
        u64::from(self.number) << mark::ENDPOINT_SHIFT
    }

    /// The node of an operation, which is as `node` says, and marked: in the context, or a spare
    /// one.
    #[inline(always)]
    pub(crate) fn node(&self, context: *mut c_void, reported: bool, node: Node) -> *mut Node {
        let mut flags = node.flags | self.mark();
        let place: *mut Node = if self.lends && reported && !context.is_null() {
            context.cast()
        } else {
            flags |= mark::SPARE | if reported { 0 } else { mark::SILENT };
            self.pool.take(context).cast()
        };
        // SAFETY: memory for a node, which is nobody else's during the operation.
        unsafe { place.write(Node { flags, ..node }) };
        place
    }

    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.limic.wake_fd()
    }

    /// Asks senders to ring. False if there is something to do.
    pub(crate) fn arm(&self) -> bool {
        let armed = self.limic.arm();
        // Arming looks around once more, and operations may have ended there.
        self.collect();
        if self.receipts.awaited.get() {
            self.look_at_receipts();
        }
        armed
    }
}

impl Endpoint {
    /// Whether peers may reach memory through it.
    pub(crate) fn uses_regions(&self) -> bool {
        self.caps & (FI_RMA | FI_ATOMIC) != 0
    }
}
