//! Bytes that an operation can take and keep.

/// Bytes with an owner: an operation takes them without a copy, keeps them until it is done, and
/// gives them back.
///
/// A slice is none, since a copy of it would be silent. Borrowed bytes go in a
/// [`scope`](crate::Endpoint::scope):
///
/// ```compile_fail,E0277
/// use limic::{Endpoint, HybridEndpoint};
///
/// let endpoint = HybridEndpoint::open()?;
/// let bytes = [1, 2, 3];
/// endpoint.isend(endpoint.myself(), 7, &bytes[..])?;
/// # Ok::<(), limic::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not own bytes that an operation can keep",
    label = "this is not a `Vec<u8>`, `Box<[u8]>` or `String`",
    note = "borrowed bytes go in a scope: `endpoint.scope(|scope| scope.isend(to, tag, bytes))`",
    note = "`.to_vec()` makes a copy that the operation can keep"
)]
pub trait OwnedBytes: sealed::Sealed {
    /// The bytes, not copied.
    fn into_vec(self) -> Vec<u8>;
}

mod sealed {
    /// The types from which a vector is had without a copy.
    pub trait Sealed {}
    impl Sealed for Vec<u8> {}
    impl Sealed for Box<[u8]> {}
    impl Sealed for String {}
}

impl OwnedBytes for Vec<u8> {
    fn into_vec(self) -> Vec<u8> {
        self
    }
}

impl OwnedBytes for Box<[u8]> {
    fn into_vec(self) -> Vec<u8> {
        Vec::from(self)
    }
}

impl OwnedBytes for String {
    fn into_vec(self) -> Vec<u8> {
        self.into_bytes()
    }
}
