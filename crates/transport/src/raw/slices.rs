//! Memory of an operation: address and length.

/// Bytes to send: address and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RawSlice {
    /// First byte.
    pub start: *const u8,
    /// Bytes.
    pub len: usize,
}

/// Room to receive into: address and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RawSliceMut {
    /// First byte.
    pub start: *mut u8,
    /// Bytes.
    pub len: usize,
}

impl From<&[u8]> for RawSlice {
    fn from(bytes: &[u8]) -> Self {
        Self {
            start: bytes.as_ptr(),
            len: bytes.len(),
        }
    }
}

impl From<&mut [u8]> for RawSliceMut {
    fn from(bytes: &mut [u8]) -> Self {
        Self {
            start: bytes.as_mut_ptr(),
            len: bytes.len(),
        }
    }
}
