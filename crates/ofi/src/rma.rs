//! Reads and writes of peers' memory (`fi_read`, `fi_write`): the table. What the calls do is in
//! `access`.

use core::ffi::c_void;

use crate::access::{Remote, RmaArgs, call};
use crate::call::{Bytes, CallFlags, NO_CONTEXT, c_call, data, with};
use crate::endpoint::Endpoint;
use limic_ofi_abi::endpoint::{fi_msg_rma, fi_ops_rma, fid_ep};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::fi_addr_t;

pub(crate) static OPS: fi_ops_rma = fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read,
    readv,
    readmsg,
    write,
    writev,
    writemsg,
    inject,
    writedata,
    injectdata,
};

fn reading(peer: fi_addr_t, remote: Remote, context: *mut c_void) -> RmaArgs {
    RmaArgs {
        peer,
        remote,
        write: false,
        data: None,
        context,
    }
}

fn writing(peer: fi_addr_t, remote: Remote, data: Option<u64>, context: *mut c_void) -> RmaArgs {
    RmaArgs {
        peer,
        remote,
        write: true,
        data,
        context,
    }
}

c_call! { call: read(
    buffer: *mut c_void, len: usize, _: *mut c_void, peer: fi_addr_t, addr: u64, key: u64,
    context: *mut c_void
) = CallFlags::Plain, reading(peer, Remote::At(addr, key), context), Bytes::One(buffer, len) }

c_call! { call: readv(
    iov: *const libc::iovec, _: *mut *mut c_void, count: usize, peer: fi_addr_t, addr: u64,
    key: u64, context: *mut c_void
) = CallFlags::Plain, reading(peer, Remote::At(addr, key), context), Bytes::Pieces(iov, count) }

c_call! { call: readmsg(message: &fi_msg_rma, flags: u64)
= CallFlags::starting(flags)?,
reading(message.addr, Remote::of(message), message.context),
Bytes::Pieces(message.msg_iov, message.iov_count) }

c_call! { call: write(
    buffer: *const c_void, len: usize, _: *mut c_void, peer: fi_addr_t, addr: u64, key: u64,
    context: *mut c_void
) = CallFlags::Plain, writing(peer, Remote::At(addr, key), None, context), Bytes::of(buffer, len) }

c_call! { call: writev(
    iov: *const libc::iovec, _: *mut *mut c_void, count: usize, peer: fi_addr_t, addr: u64,
    key: u64, context: *mut c_void
) = CallFlags::Plain, writing(peer, Remote::At(addr, key), None, context),
    Bytes::Pieces(iov, count) }

c_call! { call: writemsg(message: &fi_msg_rma, flags: u64)
= CallFlags::starting(flags)?,
writing(message.addr, Remote::of(message), data(flags, message.data), message.context),
Bytes::Pieces(message.msg_iov, message.iov_count) }

c_call! { call: inject(
    buffer: *const c_void, len: usize, peer: fi_addr_t, addr: u64, key: u64
) = CallFlags::Inject, writing(peer, Remote::At(addr, key), None, NO_CONTEXT),
    Bytes::of(buffer, len) }

c_call! { call: writedata(
    buffer: *const c_void, len: usize, _: *mut c_void, data: u64, peer: fi_addr_t, addr: u64,
    key: u64, context: *mut c_void
) = CallFlags::Plain, writing(peer, Remote::At(addr, key), Some(data), context),
    Bytes::of(buffer, len) }

c_call! { call: injectdata(
    buffer: *const c_void, len: usize, data: u64, peer: fi_addr_t, addr: u64, key: u64
) = CallFlags::Inject, writing(peer, Remote::At(addr, key), Some(data), NO_CONTEXT),
    Bytes::of(buffer, len) }
