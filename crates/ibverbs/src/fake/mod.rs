//! Adapters in place of libibverbs and its devices: the tests of this crate run on them.
//!
//! They do at once what can be done when some completion queue is looked at, always in the same
//! order. Queue pairs get the lowest number that is free, so that numbers come again soon.

mod completions;
mod devices;
mod memory;
mod net;
mod parts;

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};

pub(crate) use devices::{
    ibv_ack_async_event, ibv_ack_cq_events, ibv_alloc_pd, ibv_close_device,
    ibv_create_comp_channel, ibv_dealloc_pd, ibv_destroy_comp_channel, ibv_free_device_list,
    ibv_get_async_event, ibv_get_cq_event, ibv_get_device_list, ibv_get_device_name,
    ibv_open_device, ibv_query_device_ex, ibv_query_gid_ex, ibv_query_pkey, ibv_query_port,
    ibv_req_notify_cq,
};
pub(crate) use memory::{
    ibv_alloc_dm, ibv_free_dm, ibv_memcpy_from_dm, ibv_memcpy_to_dm, ibv_reg_dm_mr,
};
pub(crate) use net::net;
pub(crate) use parts::Nature;
use parts::{Completions, Pair, Receive, Region, Request};
pub(crate) use rdma_sys::*;

/// Gives this test adapters `fake0` and so on.
pub(crate) fn adapters(natures: &[Nature]) {
    net(|net| {
        (net.gone, net.frozen, net.spoilt) = (None, None, None);
        net.down.clear();
        net.apart = false;
        net.events.clear();
        net.natures = natures.to_vec();
        net.devices = (0..)
            .zip(natures)
            .map(|(number, nature): (usize, _)| {
                // SAFETY: all-zero bytes are a value of this plain C struct.
                let mut device: ibv_device = unsafe { std::mem::zeroed() };
                device.transport_type = nature.transport;
                let name = format!("fake{number}");
                for (to, from) in device.name.iter_mut().zip(name.bytes()) {
                    *to = from as c_char;
                }
                device
            })
            .collect();
    });
}

/// A value of the C struct `T`, at an address that stays.
fn made<T>(fill: impl FnOnce(&mut T)) -> *mut T {
    // SAFETY: callers name plain C structs, of which all-zero bytes are a value.
    let mut value: Box<T> = Box::new(unsafe { std::mem::zeroed() });
    fill(&mut value);
    Box::into_raw(value)
}

/// Frees what `made` gave.
unsafe fn gone<T>(value: *mut T) -> c_int {
    // SAFETY: made by `made`; callers free it once.
    drop(unsafe { Box::from_raw(value) });
    0
}

fn refused<T>(errno: c_int) -> *mut T {
    // SAFETY: the place of this thread's errno.
    unsafe { *libc::__errno_location() = errno };
    std::ptr::null_mut()
}

/// A handle on the device that another handle is on.
fn on<T, U>(parent: *mut U, fill: impl FnOnce(&mut T)) -> *mut T {
    let value = made(fill);
    net(|net| {
        let device = net.owners[&(parent as usize)];
        net.owners.insert(value as usize, device);
        let context = net.contexts[&(parent as usize)];
        net.contexts.insert(value as usize, context);
    });
    value
}

pub(crate) unsafe fn ibv_create_cq(
    context: *mut ibv_context,
    entries: c_int,
    _: *mut c_void,
    _: *mut ibv_comp_channel,
    _: c_int,
) -> *mut ibv_cq {
    let handle = on(context, |_: &mut ibv_cq| {});
    let queue = Completions {
        room: entries as usize,
        ..Completions::default()
    };
    net(|net| net.queues.insert(handle as usize, queue));
    handle
}

pub(crate) unsafe fn ibv_resize_cq(queue: *mut ibv_cq, entries: c_int) -> c_int {
    net(|net| {
        if !net.natures[net.owners[&(queue as usize)]].grows {
            return libc::EOPNOTSUPP;
        }
        net.queues
            .get_mut(&(queue as usize))
            .expect("it lives")
            .room = entries as usize;
        0
    })
}

pub(crate) unsafe fn ibv_destroy_cq(queue: *mut ibv_cq) -> c_int {
    net(|net| net.queues.remove(&(queue as usize)));
    // SAFETY: made by `ibv_create_cq`.
    unsafe { gone(queue) }
}

pub(crate) unsafe fn ibv_poll_cq(queue: *mut ibv_cq, most: i32, into: *mut ibv_wc) -> c_int {
    let Some(completions) = net(|net| net.poll(queue as usize, most as usize)) else {
        return -1;
    };
    for (at, completion) in completions.iter().enumerate() {
        // SAFETY: room for `most`, and these are no more.
        unsafe { into.add(at).write(*completion) };
    }
    completions.len() as c_int
}

pub(crate) unsafe fn ibv_create_srq(
    domain: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    // SAFETY: attributes of the caller.
    let room = unsafe { (*attr).attr.max_wr };
    let most = net(|net| net.natures[net.owners[&(domain as usize)]].shared_receives);
    if room > most {
        return refused(libc::EINVAL);
    }
    let queue = on(domain, |_: &mut ibv_srq| {});
    let entries = (VecDeque::new(), room as usize);
    net(|net| net.shared.insert(queue as usize, entries));
    queue
}

pub(crate) unsafe fn ibv_destroy_srq(queue: *mut ibv_srq) -> c_int {
    net(|net| net.shared.remove(&(queue as usize)));
    // SAFETY: made by `ibv_create_srq`.
    unsafe { gone(queue) }
}

/// The receive that a request asks for.
unsafe fn receive(work: *mut ibv_recv_wr) -> Receive {
    // SAFETY: callers post a request of one slice, which lives during the call.
    let (id, slice) = unsafe { ((*work).wr_id, *(*work).sg_list) };
    Receive {
        id,
        at: slice.addr,
        len: slice.length,
    }
}

pub(crate) unsafe fn ibv_post_srq_recv(
    queue: *mut ibv_srq,
    work: *mut ibv_recv_wr,
    _: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller's request.
    let receive = unsafe { receive(work) };
    net(|net| {
        let (receives, room) = net.shared.get_mut(&(queue as usize)).expect("it lives");
        if receives.len() >= *room {
            return libc::ENOMEM;
        }
        receives.push_back(receive);
        0
    })
}

pub(crate) unsafe fn ibv_post_recv(
    pair: *mut ibv_qp,
    work: *mut ibv_recv_wr,
    _: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller's request.
    let receive = unsafe { receive(work) };
    net(|net| {
        let device = net.pair(pair as usize).device;
        let refused = net.refuses(device);
        let pair = net.pair(pair as usize);
        if refused || pair.own.len() >= pair.own_room {
            return libc::ENOMEM;
        }
        pair.own.push_back(receive);
        0
    })
}

pub(crate) unsafe fn ibv_reg_mr(
    domain: *mut ibv_pd,
    start: *mut c_void,
    len: usize,
    access: c_int,
) -> *mut ibv_mr {
    if net(|net| net.gone == Some(net.owners[&(domain as usize)])) {
        return refused(libc::EIO);
    }
    let key = net(|net| {
        net.next_key += 1;
        net.next_key
    });
    let handle = on(domain, |region: &mut ibv_mr| {
        (region.lkey, region.rkey) = (key, key);
    });
    net(|net| {
        let region = Region {
            handle: handle as usize,
            device: net.owners[&(domain as usize)],
            at: start as u64,
            len: len as u64,
            access,
        };
        net.regions.insert(key, region);
    });
    handle
}

pub(crate) unsafe fn ibv_dereg_mr(region: *mut ibv_mr) -> c_int {
    net(|net| net.regions.retain(|_, it| it.handle != region as usize));
    // SAFETY: made by `ibv_reg_mr`.
    unsafe { gone(region) }
}

pub(crate) unsafe fn ibv_create_ah(domain: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: attributes of the caller.
    let attr = unsafe { *attr };
    if net(|net| net.device_of(&attr)).is_none() {
        return refused(libc::EHOSTUNREACH);
    }
    let way = on(domain, |_: &mut ibv_ah| {});
    net(|net| net.ways.insert(way as usize, attr));
    way
}

pub(crate) unsafe fn ibv_destroy_ah(way: *mut ibv_ah) -> c_int {
    net(|net| net.ways.remove(&(way as usize)));
    // SAFETY: made by `ibv_create_ah`.
    unsafe { gone(way) }
}

pub(crate) unsafe fn ibv_create_qp(
    domain: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    // SAFETY: attributes of the caller.
    let attr = unsafe { &mut *attr };
    let (device, number, most) = net(|net| {
        let device = net.owners[&(domain as usize)];
        let most = net.natures[device].inline_bytes;
        (device, net.free_number(device), most)
    });
    if attr.cap.max_inline_data > most || net(|net| net.refuses(device)) {
        return refused(libc::EINVAL);
    }
    let handle = on(domain, |pair: &mut ibv_qp| pair.qp_num = number);
    net(|net| {
        net.pairs.push(Pair {
            handle: handle as usize,
            device,
            number,
            datagrams: attr.qp_type == ibv_qp_type::IBV_QPT_UD,
            // SAFETY: all-zero bytes are a value of these plain numbers.
            told: unsafe { std::mem::zeroed() },
            sends: attr.send_cq as usize,
            arrivals: attr.recv_cq as usize,
            shared: attr.srq as usize,
            own: VecDeque::new(),
            own_room: attr.cap.max_recv_wr as usize,
            requests: VecDeque::new(),
            room: attr.cap.max_send_wr,
            taken: 0,
            silent: 0,
            inline_bytes: attr.cap.max_inline_data,
            behind: VecDeque::new(),
            owes_end: false,
        });
    });
    handle
}

pub(crate) unsafe fn ibv_modify_qp(
    pair: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    which: c_int,
) -> c_int {
    // SAFETY: attributes of the caller.
    let attr = unsafe { &*attr };
    let has = |mask: ibv_qp_attr_mask| which as u32 & mask.0 != 0;
    net(|net| {
        let gone = net.gone;
        let pair = net.pair(pair as usize);
        if gone == Some(pair.device) {
            return libc::EIO;
        }
        let told = &mut pair.told;
        told.state = attr.qp_state;
        if has(ibv_qp_attr_mask::IBV_QP_PKEY_INDEX) {
            told.pkey_index = attr.pkey_index;
        }
        if has(ibv_qp_attr_mask::IBV_QP_AV) {
            told.way = attr.ah_attr;
            told.mtu = attr.path_mtu;
            told.other = attr.dest_qp_num;
        }
        pair.owes_end |= pair.receives();
        if attr.qp_state == ibv_qp_state::IBV_QPS_ERR {
            let handle = pair.handle;
            let at = net.pairs.iter().position(|it| it.handle == handle);
            net.flush(at.expect("it lives"));
        }
        0
    })
}

pub(crate) unsafe fn ibv_query_qp_data_in_order(
    pair: *mut ibv_qp,
    _: ibv_wr_opcode::Type,
    _: u32,
) -> c_int {
    net(|net| {
        let device = net.pair(pair as usize).device;
        net.natures[device].in_order.into()
    })
}

pub(crate) unsafe fn ibv_destroy_qp(pair: *mut ibv_qp) -> c_int {
    net(|net| net.destroy(pair as usize));
    // SAFETY: made by `ibv_create_qp`.
    unsafe { gone(pair) }
}

pub(crate) unsafe fn ibv_post_send(
    pair: *mut ibv_qp,
    work: *mut ibv_send_wr,
    _: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the caller's request, of one slice or none.
    let (work, slice) = unsafe {
        let work = &*work;
        let none = ibv_sge {
            addr: 0,
            length: 0,
            lkey: 0,
        };
        (
            work,
            if work.num_sge == 0 {
                none
            } else {
                *work.sg_list
            },
        )
    };
    let has = |flag: ibv_send_flags| work.send_flags & flag.0 != 0;
    net(|net| {
        let datagrams = net.pair(pair as usize).datagrams;
        // SAFETY: plain numbers, which mean nothing for other kinds of queue pairs.
        let ud = datagrams.then_some(unsafe { work.wr.ud });
        let to = ud.map(|ud| {
            let device = net.device_of(&net.ways[&(ud.ah as usize)]);
            (device.unwrap_or(usize::MAX), ud.remote_qpn)
        });
        let inline = has(ibv_send_flags::IBV_SEND_INLINE);
        let end = slice.addr + u64::from(slice.length);
        let named = net.regions.get(&slice.lkey);
        let registered = named.is_some_and(|it| it.at <= slice.addr && end <= it.at + it.len);
        assert!(inline || slice.length == 0 || registered, "not registered");
        let pair = net.pair(pair as usize);
        if pair.taken >= pair.room || inline && slice.length > pair.inline_bytes {
            return libc::ENOMEM;
        }
        pair.taken += 1;
        pair.requests.push_back(Request {
            id: work.wr_id,
            asked: work.opcode,
            taken: inline.then(|| memory::taken_from(slice.addr, slice.length)),
            at: slice.addr,
            len: slice.length,
            // SAFETY: plain numbers, which mean nothing for a send.
            remote: unsafe { (work.wr.rdma.remote_addr, work.wr.rdma.rkey) },
            signalled: datagrams || has(ibv_send_flags::IBV_SEND_SIGNALED),
            to,
        });
        0
    })
}
