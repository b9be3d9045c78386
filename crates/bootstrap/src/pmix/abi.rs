//! The few types and constants of the PMIx standard's C ABI that start-up needs, for 64-bit Linux.
//!
//! Checked against `pmix_common.h` of OpenPMIx 4.2 and 5.0; the standard keeps them fixed within
//! `libpmix.so.2`.

use std::ffi::{c_char, c_int};

/// `pmix_status_t`.
pub(super) type Status = c_int;
/// `PMIX_SUCCESS`.
pub(super) const SUCCESS: Status = 0;
/// `PMIX_ERR_TIMEOUT`.
pub(super) const ERR_TIMEOUT: Status = -24;
/// `PMIX_ERR_UNREACH`: the server does not answer any more.
pub(super) const ERR_UNREACH: Status = -25;
/// `PMIX_ERR_LOST_CONNECTION`.
pub(super) const ERR_LOST_CONNECTION: Status = -61;

/// `PMIX_RANK_WILDCARD`.
pub(super) const RANK_WILDCARD: u32 = u32::MAX - 1;
/// `PMIX_GLOBAL`, a `pmix_scope_t`: values reach ranks on all nodes.
pub(super) const SCOPE_GLOBAL: u8 = 3;
/// `PMIX_JOB_SIZE`.
pub(super) const JOB_SIZE: &std::ffi::CStr = c"pmix.job.size";
/// `PMIX_COLLECT_DATA`.
pub(super) const COLLECT_DATA: &std::ffi::CStr = c"pmix.collect";
/// `PMIX_TIMEOUT`.
pub(super) const TIMEOUT: &std::ffi::CStr = c"pmix.timeout";

/// `pmix_data_type_t`.
pub(super) type DataType = u16;
/// `PMIX_BOOL`.
pub(super) const BOOL: DataType = 1;
/// `PMIX_INT`.
pub(super) const INT: DataType = 6;
/// `PMIX_UINT32`.
pub(super) const UINT32: DataType = 14;
/// `PMIX_BYTE_OBJECT`.
pub(super) const BYTE_OBJECT: DataType = 27;

/// `pmix_proc_t`: a job's name (closed by NUL) and a rank.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Proc {
    pub(super) nspace: [u8; 256],
    pub(super) rank: u32,
}

/// `pmix_byte_object_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ByteObject {
    pub(super) bytes: *mut c_char,
    pub(super) size: usize,
}

/// The union inside `pmix_value_t`: the members that are used, and the size of the largest one
/// (`pmix_envar_t`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union Data {
    pub(super) flag: bool,
    pub(super) integer: c_int,
    pub(super) uint32: u32,
    pub(super) bytes: ByteObject,
    pub(super) whole: [u64; 3],
}

/// `pmix_value_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub(super) kind: DataType,
    pub(super) data: Data,
}

impl Value {
    /// A value with every byte of the union defined.
    pub(super) fn new(kind: DataType) -> Self {
        let data = Data { whole: [0; 3] };
        Self { kind, data }
    }
}

/// `pmix_info_t`: an option of a call.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Info {
    pub(super) key: [u8; 512],
    pub(super) flags: u32,
    pub(super) value: Value,
}

impl Info {
    /// An option; the caller keeps `key` below 512 bytes.
    pub(super) fn new(key: &std::ffi::CStr, value: Value) -> Self {
        let mut bytes = [0; 512];
        for (to, from) in bytes.iter_mut().zip(key.to_bytes_with_nul()) {
            *to = *from;
        }
        Self {
            key: bytes,
            flags: 0,
            value,
        }
    }
}

pub(super) type InitFn = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> Status;
pub(super) type FinalizeFn = unsafe extern "C" fn(*const Info, usize) -> Status;
pub(super) type AbortFn = unsafe extern "C" fn(c_int, *const c_char, *mut Proc, usize) -> Status;
pub(super) type PutFn = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> Status;
pub(super) type CommitFn = unsafe extern "C" fn() -> Status;
pub(super) type FenceFn = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> Status;
pub(super) type GetFn =
    unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> Status;
pub(super) type TextFn = unsafe extern "C" fn(Status) -> *const c_char;
pub(super) type VersionFn = unsafe extern "C" fn() -> *const c_char;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{align_of, offset_of, size_of};

    /// The figures that a C program printed with the headers of OpenPMIx 4.2 on 64-bit Linux.
    #[test]
    fn layouts_are_those_of_the_c_headers() {
        assert_eq!(
            (
                size_of::<Proc>(),
                align_of::<Proc>(),
                offset_of!(Proc, rank)
            ),
            (260, 4, 256)
        );
        assert_eq!(
            (size_of::<ByteObject>(), offset_of!(ByteObject, size)),
            (16, 8)
        );
        assert_eq!(
            (
                size_of::<Value>(),
                align_of::<Value>(),
                offset_of!(Value, data)
            ),
            (32, 8, 8)
        );
        assert_eq!(
            (
                size_of::<Info>(),
                offset_of!(Info, flags),
                offset_of!(Info, value)
            ),
            (552, 512, 520)
        );
    }
}
