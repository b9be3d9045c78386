//! The adapters of a test, and the network between them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rdma_sys::{ibv_ah_attr, ibv_device, ibv_event_type, ibv_qp_state};
use rdma_sys::{ibv_wc_opcode as opcode, ibv_wc_status as status, ibv_wr_opcode as asked};

use super::completions::wc;
use super::devices::gid_of;
use super::memory::{place, taken_from};
use super::parts::{Completions, Datagram, Nature, Pair, Receive, Region, Request, Told};

/// Bytes that stand before a datagram in its receive.
const GRH: usize = 40;

#[derive(Default)]
pub(crate) struct Net {
    pub(crate) natures: Vec<Nature>,
    pub(super) devices: Vec<ibv_device>,
    /// Handles of what belongs to a device, and the device.
    pub(super) owners: BTreeMap<usize, usize>,
    /// The same, and the context; and contexts themselves.
    pub(super) contexts: BTreeMap<usize, usize>,
    pub(super) ways: BTreeMap<usize, ibv_ah_attr>,
    pub(super) queues: BTreeMap<usize, Completions>,
    pub(super) shared: BTreeMap<usize, (VecDeque<Receive>, usize)>,
    pub(super) pairs: Vec<Pair>,
    pub(super) regions: BTreeMap<u32, Region>,
    /// What contexts are told, each with the queue pair or the port that it is about.
    pub(super) events: Vec<(usize, usize, ibv_event_type)>,
    pub(super) memories: BTreeMap<usize, Vec<u8>>,
    /// The descriptors of completion channels, and their devices.
    pub(super) channels: BTreeMap<i32, usize>,
    pub(super) next_key: u32,
    /// Datagrams are kept in place of delivered.
    pub(crate) holds: bool,
    pub(crate) held: Vec<Datagram>,
    /// Requests with nobody at the other end fail at once; else they are repeated.
    pub(crate) impatient: bool,
    /// Calls that make queue pairs or post receives and go well, before one is refused.
    pub(crate) calls: Option<usize>,
    /// The adapter that does nothing for a while.
    pub(crate) frozen: Option<usize>,
    /// Adapters whose port is down: nothing gets through there.
    pub(crate) down: BTreeSet<usize>,
    /// Adapters are on networks of their own, two on each: `fake0` and `fake1`, and so on.
    pub(crate) apart: bool,
    /// The adapter that is there no more.
    pub(super) gone: Option<usize>,
    /// The adapter whose queues for datagrams are in their error state as soon as they are used.
    pub(crate) spoilt: Option<usize>,
    /// Requests that have reached the other end, but for datagrams, by adapter.
    pub(crate) carried: BTreeMap<usize, usize>,
}

thread_local! {
    static NET: RefCell<Net> = RefCell::new(Net::default());
}

/// Looks at the network of this test, which has its thread for itself.
pub(crate) fn net<T>(look: impl FnOnce(&mut Net) -> T) -> T {
    NET.with(|net| look(&mut net.borrow_mut()))
}

impl Net {
    pub(super) fn pair(&mut self, handle: usize) -> &mut Pair {
        let mut pairs = self.pairs.iter_mut();
        pairs.find(|pair| pair.handle == handle).expect("it lives")
    }

    /// What the queue pairs for connections that live were told last, in the order of their making.
    pub(crate) fn told(&self) -> Vec<Told> {
        let pairs = self.pairs.iter().filter(|pair| !pair.datagrams);
        pairs.map(|pair| pair.told).collect()
    }

    /// Receives that adapters have.
    pub(crate) fn lent(&self, device: usize) -> usize {
        let shared = self
            .shared
            .iter()
            .filter(|(it, _)| self.owners[it] == device);
        let pairs = self.pairs.iter();
        let own = pairs.filter(|pair| pair.device == device && !pair.datagrams);
        shared.map(|(_, (it, _))| it.len()).sum::<usize>()
            + own.map(|pair| pair.own.len()).sum::<usize>()
    }

    /// Registrations that live.
    pub(crate) fn registered(&self) -> usize {
        self.regions.len()
    }

    /// The port of one of two ends is down.
    fn is_down(&self, ends: [usize; 2]) -> bool {
        ends.iter().any(|end| self.down.contains(end))
    }

    /// The completion queues of an adapter have failed, which shows when they are looked at.
    pub(crate) fn break_queues(&mut self, device: usize) {
        let queues = self.queues.iter_mut();
        let there = queues.filter(|(it, _)| self.owners[it] == device);
        there.for_each(|(_, queue)| queue.overrun = true);
    }

    /// A stranger sends a datagram of so many bytes to each endpoint of an adapter.
    pub(crate) fn throw(&mut self, device: usize, len: usize) {
        let pairs = self.pairs.iter();
        let there = pairs.filter(|pair| pair.datagrams && pair.device == device);
        let numbers: Vec<u32> = there.map(|pair| pair.number).collect();
        for number in numbers {
            let (to, bytes) = ((device, number), vec![0; len]);
            self.land(Datagram { to, bytes });
        }
    }

    /// The queues for datagrams of an adapter get into their error state.
    pub(crate) fn spoil(&mut self, device: usize) {
        for at in 0..self.pairs.len() {
            if self.pairs[at].datagrams && self.pairs[at].device == device {
                self.flush(at);
            }
        }
    }

    /// Whether a call of those that are counted is refused.
    pub(super) fn refuses(&mut self, device: usize) -> bool {
        if self.gone == Some(device) {
            return true;
        }
        let Some(left) = self.calls.take() else {
            return false;
        };
        self.calls = Some(left.saturating_sub(1));
        left == 0
    }

    /// Lets this one of the datagrams that are held go on.
    pub(crate) fn let_go(&mut self, number: usize) {
        let datagram = self.held.remove(number);
        self.land(datagram);
    }

    /// Delivers what was kept, and keeps nothing more.
    pub(crate) fn let_all_go(&mut self) {
        self.holds = false;
        while !self.held.is_empty() {
            self.let_go(0);
        }
    }

    /// Carries out what can be.
    pub(super) fn carry(&mut self) {
        if let Some(device) = self.spoilt {
            self.spoil(device);
        }
        let mut at = 0;
        while at < self.pairs.len() {
            while self.pairs[at].told.state == ibv_qp_state::IBV_QPS_RTS && self.step(at) {}
            if self.pairs[at].told.state == ibv_qp_state::IBV_QPS_ERR {
                self.flush(at);
                self.tell_end(at);
            }
            at += 1;
        }
    }

    /// Carries out the first request of a queue pair. False if there is none, or it waits.
    fn step(&mut self, at: usize) -> bool {
        let Some(request) = self.pairs[at].requests.pop_front() else {
            return false;
        };
        let from = &self.pairs[at];
        let (device, number) = (from.device, from.number);
        if self.frozen == Some(device) {
            self.pairs[at].requests.push_front(request);
            return false;
        }
        if let Some(to) = request.to {
            let bytes = self.bytes_of(&request);
            let datagram = Datagram { to, bytes };
            let ends = [to.0, device];
            let is_lost = self.is_down(ends)
                || ends.map(Some).contains(&self.gone)
                || !self.reaches(device, to.0);
            if is_lost {
                self.over(at, &request, status::IBV_WC_SUCCESS);
                return true;
            }
            if self.holds {
                self.held.push(datagram);
            } else {
                self.land(datagram);
            }
            self.over(at, &request, status::IBV_WC_SUCCESS);
            return true;
        }
        let told = from.told;
        let there = self.device_of(&told.way);
        let other = self.pairs.iter().position(|pair| {
            Some(pair.device) == there
                && there != self.frozen
                && !self.is_down([pair.device, device])
                && self.reaches(device, pair.device)
                && pair.number == told.other
                && pair.told.other == number
                && self.device_of(&pair.told.way) == Some(device)
                && pair.receives()
        });
        let Some(other) = other else {
            if self.impatient {
                self.fail(at, request, status::IBV_WC_RETRY_EXC_ERR);
                return true;
            }
            self.pairs[at].requests.push_front(request);
            return false;
        };
        *self.carried.entry(device).or_default() += 1;
        let mtu = self.pairs[other].told.mtu;
        if told.mtu != mtu && request.len > 128 << mtu.min(told.mtu) {
            self.fail(at, request, status::IBV_WC_REM_INV_REQ_ERR);
            return true;
        }
        match request.asked {
            asked::IBV_WR_SEND => {
                let Some(receive) = self.next_receive(other) else {
                    self.pairs[at].requests.push_front(request);
                    return false;
                };
                let bytes = self.bytes_of(&request);
                assert!(
                    bytes.len() <= receive.len as usize,
                    "the receive is too short"
                );
                place(receive.at, &bytes);
                self.received(other, receive.id, bytes.len());
            }
            kind => {
                let (start, key) = request.remote;
                let wanted = if kind == asked::IBV_WR_RDMA_READ {
                    4
                } else {
                    2
                };
                let end = start.wrapping_add(request.len.into());
                let region = self.regions.get(&key).filter(|region| {
                    Some(region.device) == there
                        && region.access & wanted != 0
                        && region.at <= start
                        && end <= region.at + region.len
                });
                if request.len > 0 && region.is_none() {
                    self.pairs[other].told.state = ibv_qp_state::IBV_QPS_ERR;
                    self.fail(at, request, status::IBV_WC_REM_ACCESS_ERR);
                    return true;
                }
                if kind == asked::IBV_WR_RDMA_READ {
                    place(request.at, &taken_from(start, request.len));
                } else if request.len > 0 {
                    place(start, &self.bytes_of(&request));
                }
            }
        }
        self.over(at, &request, status::IBV_WC_SUCCESS);
        true
    }

    /// Whether there is a network between two adapters.
    fn reaches(&self, device: usize, other: usize) -> bool {
        !self.apart || device / 2 == other / 2
    }

    pub(super) fn device_of(&self, way: &ibv_ah_attr) -> Option<usize> {
        // SAFETY: both views of the union are plain bytes.
        let gid = unsafe { way.grh.dgid.raw };
        (0..self.natures.len()).find(|device| match way.is_global {
            0 => usize::from(way.dlid) == device + 1,
            _ => (0..2).any(|index| gid_of(&self.natures[*device], *device, index) == gid),
        })
    }

    fn bytes_of(&self, request: &Request) -> Vec<u8> {
        match &request.taken {
            Some(bytes) => bytes.clone(),
            None => taken_from(request.at, request.len),
        }
    }

    fn next_receive(&mut self, at: usize) -> Option<Receive> {
        let pair = &mut self.pairs[at];
        match self.shared.get_mut(&pair.shared) {
            Some((receives, _)) => receives.pop_front(),
            None => pair.own.pop_front(),
        }
    }

    fn land(&mut self, datagram: Datagram) {
        let (device, number) = datagram.to;
        let is_it = |pair: &Pair| pair.datagrams && (pair.device, pair.number) == (device, number);
        let Some(at) = self.pairs.iter().position(is_it) else {
            return;
        };
        let Some(receive) = self.next_receive(at) else {
            return;
        };
        let len = GRH + datagram.bytes.len();
        if len > receive.len as usize {
            let too_long = status::IBV_WC_LOC_LEN_ERR;
            let completion = wc(receive.id, too_long, opcode::IBV_WC_RECV, 0);
            self.complete(at, self.pairs[at].arrivals, completion, 0);
            return self.flush(at);
        }
        place(receive.at + GRH as u64, &datagram.bytes);
        self.received(at, receive.id, len);
    }

    fn received(&mut self, at: usize, id: u64, bytes: usize) {
        let completion = wc(id, status::IBV_WC_SUCCESS, opcode::IBV_WC_RECV, bytes);
        self.complete(at, self.pairs[at].arrivals, completion, 0);
    }

    /// A request is over. Without a completion it gives its entry back with the next one.
    fn over(&mut self, at: usize, request: &Request, how: status::Type) {
        let pair = &mut self.pairs[at];
        pair.silent += 1;
        if request.signalled || how != status::IBV_WC_SUCCESS {
            let frees = std::mem::take(&mut pair.silent);
            let completion = wc(request.id, how, opcode::IBV_WC_SEND, 0);
            self.complete(at, self.pairs[at].sends, completion, frees);
        }
    }

    fn fail(&mut self, at: usize, request: Request, how: status::Type) {
        self.over(at, &request, how);
        self.flush(at);
    }

    /// The queue pair is in its error state: all that was posted is over.
    pub(super) fn flush(&mut self, at: usize) {
        self.pairs[at].told.state = ibv_qp_state::IBV_QPS_ERR;
        for request in std::mem::take(&mut self.pairs[at].requests) {
            self.over(at, &request, status::IBV_WC_WR_FLUSH_ERR);
        }
        for receive in std::mem::take(&mut self.pairs[at].own) {
            let flushed = wc(
                receive.id,
                status::IBV_WC_WR_FLUSH_ERR,
                opcode::IBV_WC_RECV,
                0,
            );
            self.complete(at, self.pairs[at].arrivals, flushed, 0);
        }
    }

    /// A queue pair in its error state takes nothing more out of a shared queue, and says so when
    /// all that it took is in its completion queue.
    fn tell_end(&mut self, at: usize) {
        let pair = &mut self.pairs[at];
        if pair.shared != 0 && pair.behind.is_empty() && std::mem::take(&mut pair.owes_end) {
            let kind = ibv_event_type::IBV_EVENT_QP_LAST_WQE_REACHED;
            let context = self.contexts[&pair.handle];
            self.events.push((context, pair.handle, kind));
        }
    }

    pub(super) fn destroy(&mut self, handle: usize) {
        let device = self.pair(handle).device;
        if self.natures[device].cleans {
            for queue in self.queues.values_mut() {
                queue.entries.retain(|entry| entry.pair != handle);
            }
        }
        self.events.retain(|(_, pair, _)| *pair != handle);
        self.pairs.retain(|pair| pair.handle != handle);
    }

    /// The lowest number that no queue pair of the device has.
    pub(super) fn free_number(&self, device: usize) -> u32 {
        let used = |number: &u32| {
            let mut pairs = self.pairs.iter();
            pairs.any(|pair| pair.device == device && pair.number == *number)
        };
        (16..).find(|number| !used(number)).expect("there is one")
    }
}
