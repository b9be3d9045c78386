//! Messages, with tags (`fi_tsend`, `fi_trecv`) and without (`fi_send`, `fi_recv`): the tables.
//! What the calls do is in `send` and `receive`.

use core::ffi::c_void;

use crate::call::{Bytes, CallFlags, NO_CONTEXT, TagSpace, c_call, data, with};
use crate::endpoint::Endpoint;
use crate::receive::{self, RecvArgs};
use crate::send::{self, SendArgs};
use limic_ofi_abi::endpoint::*;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::fi_addr_t;

/// A table, whose sends have a tag or none, and whose receives have the tag and the bits of it that
/// are ignored, or neither.
macro_rules! messages {
    ($ops:ident, $message:ident, sends [$($tag:ident)?], receives [$($wanted:ident),*]) => {
        pub(crate) static OPS: $ops = $ops {
            size: size_of::<$ops>(),
            recv,
            recvv,
            recvmsg,
            send,
            sendv,
            sendmsg,
            inject,
            senddata,
            injectdata,
        };

        c_call! { receive::call: recv(
            buffer: *mut c_void, len: usize, _: *mut c_void, from: fi_addr_t, $($wanted: u64,)*
            context: *mut c_void
        ) = CallFlags::Plain, asked(from, $($wanted,)* context), Bytes::One(buffer, len) }

        c_call! { receive::call: recvv(
            iov: *const libc::iovec, _: *mut *mut c_void, count: usize, from: fi_addr_t,
            $($wanted: u64,)* context: *mut c_void
        ) = CallFlags::Plain, asked(from, $($wanted,)* context), Bytes::Pieces(iov, count) }

        c_call! { receive::call: recvmsg(message: &$message, flags: u64)
            = CallFlags::receiving(flags)?,
            asked(message.addr, $(message.$wanted,)* message.context),
            Bytes::Pieces(message.msg_iov, message.iov_count) }

        c_call! { send::call: send(
            buffer: *const c_void, len: usize, _: *mut c_void, to: fi_addr_t, $($tag: u64,)?
            context: *mut c_void
        ) = CallFlags::Plain, given(to, $($tag,)? None, context), Bytes::of(buffer, len) }

        c_call! { send::call: sendv(
            iov: *const libc::iovec, _: *mut *mut c_void, count: usize, to: fi_addr_t,
            $($tag: u64,)? context: *mut c_void
        ) = CallFlags::Plain, given(to, $($tag,)? None, context), Bytes::Pieces(iov, count) }

        c_call! { send::call: sendmsg(message: &$message, flags: u64)
            = CallFlags::starting(flags)?,
            given(message.addr, $(message.$tag,)? data(flags, message.data), message.context),
            Bytes::Pieces(message.msg_iov, message.iov_count) }

        c_call! { send::call: inject(
            buffer: *const c_void, len: usize, to: fi_addr_t $(, $tag: u64)?
        ) = CallFlags::Inject, given(to, $($tag,)? None, NO_CONTEXT), Bytes::of(buffer, len) }

        c_call! { send::call: senddata(
            buffer: *const c_void, len: usize, _: *mut c_void, data: u64, to: fi_addr_t,
            $($tag: u64,)? context: *mut c_void
        ) = CallFlags::Plain, given(to, $($tag,)? Some(data), context), Bytes::of(buffer, len) }

        c_call! { send::call: injectdata(
            buffer: *const c_void, len: usize, data: u64, to: fi_addr_t $(, $tag: u64)?
        ) = CallFlags::Inject, given(to, $($tag,)? Some(data), NO_CONTEXT), Bytes::of(buffer, len) }
    };
}

pub(crate) mod untagged {
    use super::*;

    messages!(fi_ops_msg, fi_msg, sends [], receives []);

    #[inline(always)]
    fn asked(from: fi_addr_t, context: *mut c_void) -> RecvArgs {
        RecvArgs {
            from,
            sort: TagSpace::Untagged,
            ignore: 0,
            context,
        }
    }

    #[inline(always)]
    fn given(to: fi_addr_t, data: Option<u64>, context: *mut c_void) -> SendArgs {
        SendArgs {
            to,
            sort: TagSpace::Untagged,
            data,
            context,
        }
    }
}

pub(crate) mod tagged {
    use super::*;

    messages!(fi_ops_tagged, fi_msg_tagged, sends [tag], receives [tag, ignore]);

    #[inline(always)]
    fn asked(from: fi_addr_t, tag: u64, ignore: u64, context: *mut c_void) -> RecvArgs {
        RecvArgs {
            from,
            // Bits that are ignored may be anything.
            sort: TagSpace::Tagged(tag & !ignore),
            ignore,
            context,
        }
    }

    #[inline(always)]
    fn given(to: fi_addr_t, tag: u64, data: Option<u64>, context: *mut c_void) -> SendArgs {
        SendArgs {
            to,
            sort: TagSpace::Tagged(tag),
            data,
            context,
        }
    }
}
