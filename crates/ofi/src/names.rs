//! Addresses as applications know them: 64 bytes, or text where they ask for `FI_ADDR_STR`.
//!
//! | form | where |
//! |---|---|
//! | limic's own 64 bytes | what `fi_getname` gives, also of endpoints with a service |
//! | `fi_limic://` and these bytes in hexadecimal | the same as text |
//! | `fi_limic://localhost:SERVICE`, in 64 bytes too | what `fi_getinfo` gives for a service |
//! | `fi_limic://localhost`, in 64 bytes too | what it gives where nobody is named |
//!
//! A service is given in `fi_getinfo` or by `fi_setname`. It is a name on this node, in this
//! network namespace, for processes of one user.

use core::ffi::{CStr, c_char, c_void};
use core::fmt::Write as _;
use std::net::{IpAddr, ToSocketAddrs as _, UdpSocket};

use limic::{ADDRESS_LEN, Address};

use crate::errors::logged_errno;
use limic_ofi_abi::errno::*;

const SCHEME: &str = "fi_limic://";
const NODE: &str = "localhost:";

/// Longest service, so that its name has room in an address.
const LONGEST_SERVICE: usize = ADDRESS_LEN - 1 - SCHEME.len() - NODE.len();

/// An address without a service: it names nobody, and no peer can be reached by it.
const UNNAMED: &str = "fi_limic://localhost";

/// The endpoint that is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    Address(Address),
    /// The endpoint of this node with this service.
    Service(String),
}

impl Name {
    /// A service of this node, if it is not too long.
    pub(crate) fn service(service: &str) -> Option<Self> {
        let fits = (1..=LONGEST_SERVICE).contains(&service.len());
        (fits && !service.contains('\0')).then(|| Self::Service(service.to_owned()))
    }

    /// # Errors
    /// An error number.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, i32> {
        if !bytes.starts_with(SCHEME.as_bytes()) {
            return Address::from_bytes(bytes)
                .map(Self::Address)
                .map_err(|error| logged_errno(&error));
        }
        Self::from_c_text(bytes)
    }

    /// From text that ends with the first zero, or with the bytes.
    fn from_c_text(bytes: &[u8]) -> Result<Self, i32> {
        let end = bytes.iter().position(|byte| *byte == 0);
        let text = core::str::from_utf8(&bytes[..end.unwrap_or(bytes.len())]);
        text.ok().and_then(Self::from_text).ok_or(FI_EINVAL)
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(SCHEME)?;
        if let Some(service) = rest.strip_prefix(NODE) {
            return Self::service(service);
        }
        if rest.len() != 2 * ADDRESS_LEN || !rest.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let digits: Option<Vec<u8>> = rest
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        Address::from_bytes(&digits?).ok().map(Self::Address)
    }

    /// As `text`, or as 64 bytes.
    pub(crate) fn to_bytes(&self, text: bool) -> Vec<u8> {
        let all = match (self, text) {
            (Self::Address(address), false) => return address.to_bytes().to_vec(),
            (Self::Address(address), true) => {
                let mut all = String::from(SCHEME);
                for byte in address.to_bytes() {
                    // A string takes everything.
                    let _ = write!(all, "{byte:02x}");
                }
                all
            }
            (Self::Service(service), _) => format!("{SCHEME}{NODE}{service}"),
        };
        filled_up(all, text)
    }

    /// For people: without the secret of an address.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Address(address) => address.to_string(),
            Self::Service(service) => format!("{SCHEME}{NODE}{service}"),
        }
    }

    /// Reads an address of this form out of the bytes that C says it has.
    ///
    /// # Errors
    /// An error number.
    pub(crate) fn within(bytes: &[u8], text: bool) -> Result<Self, i32> {
        if text {
            return Self::from_c_text(bytes);
        }
        Self::from_bytes(bytes.get(..ADDRESS_LEN).ok_or(FI_EINVAL)?)
    }

    /// Reads an address that may name nobody: `None` if no service stands there.
    ///
    /// # Errors
    /// An error number.
    pub(crate) fn or_unnamed(bytes: &[u8], text: bool) -> Result<Option<Self>, i32> {
        let is_unnamed = if text {
            bytes.split(|byte| *byte == 0).next() == Some(UNNAMED.as_bytes())
        } else {
            bytes.get(..ADDRESS_LEN) == Some(&unnamed(false))
        };
        if is_unnamed {
            return Ok(None);
        }
        Self::within(bytes, text).map(Some)
    }

    /// Reads what C passes as an address, without its length.
    ///
    /// # Safety
    /// `start` is a C string if it is `text`, else valid for 64 bytes.
    pub(crate) unsafe fn read(start: *const c_void, text: bool) -> Result<Self, i32> {
        if start.is_null() {
            return Err(FI_EINVAL);
        }
        // SAFETY: the caller's promise.
        unsafe {
            if text {
                return Self::from_c_text(CStr::from_ptr(start.cast::<c_char>()).to_bytes());
            }
            Self::from_bytes(core::slice::from_raw_parts(start.cast(), ADDRESS_LEN))
        }
    }
}

/// The address of an endpoint that no service names, as `fi_getinfo` gives it. The endpoint gets
/// one by which it can be reached when it is opened.
pub(crate) fn unnamed(text: bool) -> Vec<u8> {
    filled_up(UNNAMED.to_owned(), text)
}

/// An address that is written as text: with its end as `text`, else as 64 bytes.
fn filled_up(address: String, text: bool) -> Vec<u8> {
    let mut bytes = address.into_bytes();
    let len = if text { bytes.len() + 1 } else { ADDRESS_LEN };
    bytes.resize(len, 0);
    bytes
}

/// Whether a node is this one. `numeric`: names are not looked up.
pub(crate) fn is_here(node: &str, numeric: bool) -> bool {
    // Only an address of this machine can be bound.
    let mine = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    if let Ok(address) = node.parse() {
        return mine(address);
    }
    let this = rustix::system::uname();
    if node == "localhost" || this.nodename().to_str() == Ok(node) {
        return true;
    }
    let found = (!numeric)
        .then(|| (node, 0).to_socket_addrs().ok())
        .flatten();
    found.is_some_and(|mut all| all.any(|address| mine(address.ip())))
}

#[cfg(test)]
mod tests {
    use limic::{Endpoint as _, ShmEndpoint};

    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let endpoint = ShmEndpoint::open().expect("opened");
        let address = Name::Address(endpoint.address());
        let service = Name::service("9228").expect("short");
        for name in [address, service] {
            let bytes = name.to_bytes(false);
            assert_eq!(bytes.len(), ADDRESS_LEN);
            assert_eq!(Name::from_bytes(&bytes), Ok(name.clone()));
            let mut text = name.to_bytes(true);
            assert_eq!(text.pop(), Some(0));
            let text = String::from_utf8(text).expect("text");
            assert!(text.starts_with("fi_limic://"));
            assert_eq!(Name::from_text(&text), Some(name));
        }
    }

    #[test]
    fn an_endpoint_without_a_service_has_an_own_address_that_names_nobody() {
        let service = Name::service("9228").expect("short");
        for text in [false, true] {
            assert_eq!(Name::or_unnamed(&unnamed(text), text), Ok(None));
            assert_eq!(Name::within(&unnamed(text), text), Err(FI_EINVAL));
            let named = service.to_bytes(text);
            assert_eq!(Name::or_unnamed(&named, text), Ok(Some(service.clone())));
        }
        assert_eq!(
            Name::or_unnamed(UNNAMED.as_bytes(), true),
            Ok(None),
            "without its end"
        );
        assert!(Name::or_unnamed(UNNAMED.as_bytes(), false).is_err(), "cut");
        assert_eq!(unnamed(false).len(), ADDRESS_LEN);
        assert_eq!(unnamed(true), b"fi_limic://localhost\0");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = format!("fi_limic://localhost:{}", "9".repeat(LONGEST_SERVICE + 1));
        let bad = [
            "",
            "fi_limic://",
            UNNAMED,
            "fi_limic://localhost:",
            "fi_limic://12",
            "fi_shm://1",
            &long,
        ];
        for bad in bad {
            assert_eq!(Name::from_text(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_here() {
        assert!(is_here("127.0.0.1", true) && is_here("localhost", true));
        // One that is reserved for documentation.
        assert!(!is_here("192.0.2.1", true) && !is_here("nowhere.invalid", true));
    }
}
