//! Error numbers of libfabric: those of the system, and its own from 256 on. Functions return them
//! negated.

pub(crate) use libc::{
    EACCES as FI_EACCES, EADDRNOTAVAIL as FI_EADDRNOTAVAIL, EAGAIN as FI_EAGAIN, EBUSY as FI_EBUSY,
    ECANCELED as FI_ECANCELED, ECONNABORTED as FI_ECONNABORTED, ECONNREFUSED as FI_ECONNREFUSED,
    ECONNRESET as FI_ECONNRESET, EHOSTUNREACH as FI_EHOSTUNREACH, EINVAL as FI_EINVAL,
    EIO as FI_EIO, EKEYREJECTED as FI_EKEYREJECTED, ENODATA as FI_ENODATA, ENOMEM as FI_ENOMEM,
    ENOMSG as FI_ENOMSG, ENOPROTOOPT as FI_ENOPROTOOPT, ENOSYS as FI_ENOSYS,
    EOPNOTSUPP as FI_EOPNOTSUPP, ETIMEDOUT as FI_ETIMEDOUT,
};

pub(crate) const FI_EOTHER: i32 = 256;
pub(crate) const FI_ETOOSMALL: i32 = 257;
pub(crate) const FI_EOPBADSTATE: i32 = 258;
pub(crate) const FI_EAVAIL: i32 = 259;
pub(crate) const FI_EBADFLAGS: i32 = 260;
pub(crate) const FI_EDOMAIN: i32 = 262;
pub(crate) const FI_ENOCQ: i32 = 263;
pub(crate) const FI_ETRUNC: i32 = 265;
pub(crate) const FI_ENOKEY: i32 = 266;
pub(crate) const FI_ENOAV: i32 = 267;
