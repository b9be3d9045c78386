//! Devices, their contexts and ports, and what is made of them first.

use std::ffi::{c_char, c_int, c_void};

use rdma_sys::*;

use super::net::{Net, net};
use super::parts::Nature;
use super::{gone, made, on};

pub(crate) unsafe fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let list: Vec<*mut ibv_device> = net(|net| {
        let devices = net.devices.iter_mut();
        devices.map(|device| &raw mut *device).collect()
    });
    // SAFETY: room for the answer.
    unsafe { *count = list.len() as c_int };
    Box::into_raw(list.into_boxed_slice()).cast()
}

pub(crate) unsafe fn ibv_free_device_list(list: *mut *mut ibv_device) {
    let count = net(|net| net.devices.len());
    // SAFETY: made by `ibv_get_device_list`, with so many.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(list, count)) });
}

pub(crate) unsafe fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: a device of this test.
    unsafe { (&raw const (*device).name).cast() }
}

pub(crate) unsafe fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: the call takes no memory.
    let fd = unsafe { libc::eventfd(0, 0) };
    let context = made(|context: &mut ibv_context| {
        (context.device, context.async_fd) = (device, fd);
    });
    net(|net| {
        let mut devices = net.devices.iter();
        let number = devices.position(|it| std::ptr::eq(it, device));
        let number = number.expect("a device of this test");
        net.owners.insert(context as usize, number);
        net.contexts.insert(context as usize, context as usize);
    });
    context
}

pub(crate) unsafe fn ibv_close_device(context: *mut ibv_context) -> c_int {
    net(|net| net.contexts.remove(&(context as usize)));
    // SAFETY: made by `ibv_open_device`, with its descriptor.
    unsafe {
        libc::close((*context).async_fd);
        gone(context)
    }
}

pub(crate) unsafe fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    let told = net(|net| {
        let mut events = net.events.iter();
        let at = events.position(|(of, ..)| *of == context as usize)?;
        Some(net.events.remove(at))
    });
    let Some((_, pair, event_type)) = told else {
        return -1;
    };
    let told = ibv_async_event {
        element: ibv_async_event_element_t {
            qp: pair as *mut ibv_qp,
        },
        event_type,
    };
    // SAFETY: room for the answer.
    unsafe { event.write(told) };
    0
}

pub(crate) unsafe fn ibv_ack_async_event(_: *mut ibv_async_event) {}

pub(crate) unsafe fn ibv_query_device_ex(
    context: *mut ibv_context,
    _: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
) -> c_int {
    let nature = net(|net| net.natures[net.owners[&(context as usize)]]);
    // SAFETY: room for the answer.
    let attr = unsafe { &mut *attr };
    attr.max_dm_size = nature.device_memory;
    let plain = &mut attr.orig_attr;
    (plain.max_qp, plain.max_qp_wr, plain.max_sge) = (1 << 16, 1 << 14, 16);
    (plain.max_cqe, plain.phys_port_cnt) = (1 << 20, nature.ports);
    (plain.max_qp_rd_atom, plain.max_qp_init_rd_atom) = (16, 16);
    plain.max_srq_wr = nature.shared_receives as c_int;
    plain.max_srq = c_int::from(nature.shared_receives > 0);
    0
}

pub(crate) unsafe fn ibv_query_port(
    context: *mut ibv_context,
    _: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    let (nature, device) = net(|net| {
        let device = net.owners[&(context as usize)];
        (net.natures[device], device)
    });
    // SAFETY: room for the answer.
    let attr = unsafe { &mut *attr };
    attr.state = match net(|net| net.down.contains(&device)) {
        true => ibv_port_state::IBV_PORT_DOWN,
        false => ibv_port_state::IBV_PORT_ACTIVE,
    };
    attr.active_mtu = nature.mtu;
    attr.gid_tbl_len = 2;
    attr.pkey_tbl_len = 2;
    attr.flags = nature.port_flags;
    (attr.link_layer, attr.lid) = match nature.infiniband {
        true => (1, device as u16 + 1),
        false => (2, 0),
    };
    0
}

pub(crate) unsafe fn ibv_query_gid_ex(
    context: *mut ibv_context,
    _: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
    _: u32,
) -> c_int {
    if index > 1 {
        return libc::EINVAL;
    }
    let raw = net(|net| {
        let device = net.owners[&(context as usize)];
        gid_of(&net.natures[device], device, index)
    });
    // SAFETY: room for the answer.
    let entry = unsafe { &mut *entry };
    entry.gid = ibv_gid { raw };
    entry.gid_type = 2;
    0
}

pub(crate) unsafe fn ibv_query_pkey(
    _: *mut ibv_context,
    port: u8,
    index: c_int,
    key: *mut u16,
) -> c_int {
    // Each port is in a partition of its own.
    // SAFETY: room for the answer.
    unsafe { *key = [0xffff, 0x8000 | u16::from(port)][index as usize].to_be() };
    0
}

pub(crate) unsafe fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    on(context, |_| {})
}

pub(crate) unsafe fn ibv_dealloc_pd(domain: *mut ibv_pd) -> c_int {
    // SAFETY: made by `ibv_alloc_pd`.
    unsafe { gone(domain) }
}

pub(crate) unsafe fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    // SAFETY: the call takes no memory.
    let fd = unsafe { libc::eventfd(0, 0) };
    net(|net| net.channels.insert(fd, net.owners[&(context as usize)]));
    on(context, |channel: &mut ibv_comp_channel| channel.fd = fd)
}

pub(crate) unsafe fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: made by `ibv_create_comp_channel`, with its descriptor.
    unsafe {
        net(|net| net.channels.remove(&(*channel).fd));
        libc::close((*channel).fd);
        gone(channel)
    }
}

pub(crate) unsafe fn ibv_get_cq_event(
    _: *mut ibv_comp_channel,
    _: *mut *mut ibv_cq,
    _: *mut *mut c_void,
) -> c_int {
    -1
}

pub(crate) unsafe fn ibv_ack_cq_events(_: *mut ibv_cq, _: u32) {}

pub(crate) unsafe fn ibv_req_notify_cq(_: *mut ibv_cq, _: i32) -> c_int {
    0
}

/// The address of a port: on Ethernet it has two.
pub(super) fn gid_of(nature: &Nature, device: usize, index: u32) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[15] = device as u8 + 1;
    match (nature.infiniband, index) {
        (true, _) => gid[..2].copy_from_slice(&[0xfe, 0x80]),
        (false, 0) => gid[10..12].fill(0xff),
        (false, _) => gid[0] = 0x20,
    }
    gid
}

/// What drivers tell.
impl Net {
    /// An adapter is unplugged, of which its driver tells; what was posted there never ends, and
    /// who sleeps on its channels is woken from now on.
    pub(crate) fn unplug(&mut self, device: usize) {
        (self.gone, self.frozen) = (Some(device), Some(device));
        self.tell(device, 0, ibv_event_type::IBV_EVENT_DEVICE_FATAL);
        for (fd, _) in self.channels.iter().filter(|(_, of)| **of == device) {
            // SAFETY: an open descriptor, which counts.
            unsafe { libc::eventfd_write(*fd, 1) };
        }
    }

    /// The port of an adapter goes down, or comes back, of which its driver tells.
    pub(crate) fn turn_port(&mut self, device: usize, is_up: bool) {
        let kind = if is_up {
            self.down.remove(&device);
            ibv_event_type::IBV_EVENT_PORT_ACTIVE
        } else {
            self.down.insert(device);
            ibv_event_type::IBV_EVENT_PORT_ERR
        };
        self.tell(device, 1, kind);
    }

    /// A driver tells everybody who has its adapter open.
    fn tell(&mut self, device: usize, element: usize, kind: ibv_event_type) {
        let contexts = self.contexts.iter().filter(|(it, of)| it == of);
        let there = contexts.filter(|(it, _)| self.owners[it] == device);
        self.events
            .extend(there.map(|(it, _)| (*it, element, kind)));
    }
}
