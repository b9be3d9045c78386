//! Memory on the adapter, and bytes that it takes and places.

use std::ffi::{c_int, c_void};

use rdma_sys::{ibv_alloc_dm_attr, ibv_context, ibv_dm, ibv_mr, ibv_pd};

use super::net::net;
use super::{gone, on};

pub(crate) unsafe fn ibv_alloc_dm(
    context: *mut ibv_context,
    attr: *mut ibv_alloc_dm_attr,
) -> *mut ibv_dm {
    // SAFETY: attributes of the caller.
    let bytes = vec![0; unsafe { (*attr).length }];
    let memory = on(context, |_: &mut ibv_dm| {});
    net(|net| net.memories.insert(memory as usize, bytes));
    memory
}

pub(crate) unsafe fn ibv_free_dm(memory: *mut ibv_dm) -> c_int {
    net(|net| net.memories.remove(&(memory as usize)));
    // SAFETY: made by `ibv_alloc_dm`.
    unsafe { gone(memory) }
}

pub(crate) unsafe fn ibv_reg_dm_mr(
    domain: *mut ibv_pd,
    _: *mut ibv_dm,
    _: u64,
    _: usize,
    _: u32,
) -> *mut ibv_mr {
    on(domain, |_| {})
}

/// The place of whole words in a memory.
fn words(at: u64, len: usize) -> Option<core::ops::Range<usize>> {
    (at % 4 == 0 && len % 4 == 0).then_some(at as usize..at as usize + len)
}

pub(crate) unsafe fn ibv_memcpy_to_dm(
    memory: *mut ibv_dm,
    at: u64,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: the caller's bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
    let Some(words) = words(at, len) else {
        return libc::EINVAL;
    };
    net(|net| {
        let memory = net.memories.get_mut(&(memory as usize)).expect("it lives");
        memory[words].copy_from_slice(bytes);
    });
    0
}

pub(crate) unsafe fn ibv_memcpy_from_dm(
    into: *mut c_void,
    memory: *mut ibv_dm,
    at: u64,
    len: usize,
) -> c_int {
    // SAFETY: the caller's room.
    let into = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), len) };
    let Some(words) = words(at, len) else {
        return libc::EINVAL;
    };
    net(|net| into.copy_from_slice(&net.memories[&(memory as usize)][words]));
    0
}

pub(super) fn place(at: u64, bytes: &[u8]) {
    // SAFETY: who posted the request or registered the memory promised that it stays; tests do
    // nothing beside it.
    unsafe { std::ptr::copy(bytes.as_ptr(), at as *mut u8, bytes.len()) };
}

pub(super) fn taken_from(at: u64, len: u32) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    // SAFETY: as in `place`.
    unsafe { std::ptr::copy(at as *const u8, bytes.as_mut_ptr(), bytes.len()) };
    bytes
}
