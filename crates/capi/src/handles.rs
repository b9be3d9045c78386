//! Handles: numbers in structures, so that a C compiler tells them apart. Zero in all fields is no
//! handle.

/// An endpoint. Made by `limic_endpoint_open` and `limic_world_open`, ended by
/// `limic_endpoint_close` and `limic_world_finalize`. Copies of the value are the same endpoint.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct limic_endpoint {
    /// Private.
    pub id: u64,
}

/// An operation under way. Set by the functions that start one, and set back to
/// `LIMIC_REQUEST_NULL` by the functions that wait when it is done. Copies name the same operation,
/// which can be waited for once.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct limic_request {
    /// Private.
    pub endpoint: u64,
    /// Private.
    pub number: u64,
}

/// A message that a matched probe took out of matching. Receive it with `limic_mrecv`,
/// `limic_imrecv` or `limic_imrecvv`, or throw it away with `limic_message_drop`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct limic_message {
    /// Private.
    pub endpoint: u64,
    /// Private.
    pub number: u64,
}

/// A buffer in shared memory: lent by `limic_loan_get`, or a message received by `limic_loan_recv`.
/// Ends when it is sent or given back.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct limic_loan {
    /// Private.
    pub endpoint: u64,
    /// Private.
    pub number: u64,
}

/// Memory that peers may read and write. Made by `limic_region_allocate` or `limic_region_expose`,
/// ended by `limic_region_revoke`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct limic_region {
    /// Private.
    pub endpoint: u64,
    /// Private.
    pub number: u64,
}

macro_rules! numbered {
    ($($name:ident),*) => {$(
        impl $name {
            pub(crate) fn owner(self) -> limic_endpoint {
                limic_endpoint { id: self.endpoint }
            }
        }
    )*};
}

impl limic_request {
    pub(crate) fn is_null(self) -> bool {
        self == Self::default()
    }
}

numbered!(limic_request, limic_message, limic_loan, limic_region);
