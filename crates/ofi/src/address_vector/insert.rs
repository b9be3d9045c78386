//! Addresses are inserted: as they are, or by node and service.

use core::ffi::{c_char, c_int, c_void};

use limic::ADDRESS_LEN;

use super::AddressVector;
use crate::names::Name;
use crate::{ffi_guard, info, object};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::objects::fid_av;
use limic_ofi_abi::*;

/// `fi_av_insert`: gives how many of the addresses make sense.
pub(super) unsafe extern "C" fn insert(
    av: *mut fid_av,
    addresses: *const c_void,
    count: usize,
    places: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    ffi_guard::cross(-FI_EOTHER, || {
        if addresses.is_null() && count > 0 {
            return -FI_EINVAL;
        }
        // SAFETY: an address vector of this provider.
        let av: &AddressVector = unsafe { object::object(av) };
        let names = (0..count).map(|number| {
            // SAFETY: C passes `count` addresses of the length that `fi_getname` gives, or as many
            // pointers to text.
            unsafe {
                if av.domain.text {
                    Name::read(*addresses.cast::<*const c_void>().add(number), true)
                } else {
                    Name::read(addresses.byte_add(number * ADDRESS_LEN), false)
                }
            }
        });
        // SAFETY: C passes room for `count` places and errors, or none.
        unsafe { av.insert(names, places, flags, context) }
    })
}

/// `fi_av_insertsvc`: the endpoint of a node with a service.
pub(super) unsafe extern "C" fn insertsvc(
    av: *mut fid_av,
    node: *const c_char,
    service: *const c_char,
    places: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: handed on.
    unsafe { insertsym(av, node, 1, service, 1, places, flags, context) }
}

/// `fi_av_insertsym`: all services of a row, at each node of a row.
pub(super) unsafe extern "C" fn insertsym(
    av: *mut fid_av,
    node: *const c_char,
    nodes: usize,
    service: *const c_char,
    services: usize,
    places: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    ffi_guard::cross(-FI_EOTHER, || {
        // SAFETY: C passes strings or null.
        let (Ok(node), Ok(service)) = (unsafe { (info::text_of(node), info::text_of(service)) })
        else {
            return -FI_EINVAL;
        };
        let count = nodes.checked_mul(services).map(c_int::try_from);
        if !matches!(count, Some(Ok(_))) {
            return -FI_EINVAL;
        }
        // Other calls about the domain do not wait while nodes are looked up.
        let names: Vec<_> = (0..nodes)
            .flat_map(|at| (0..services).map(move |number| (at, number)))
            .map(|(at, number)| {
                let (node, service) = (later(node, at)?, later(service, number)?);
                let name = info::named(node.as_deref(), service.as_deref(), 0)?;
                name.ok_or(FI_ENODATA)
            })
            .collect();
        // SAFETY: an address vector of this provider.
        let av: &AddressVector = unsafe { object::object(av) };
        // SAFETY: C passes room for as many places and errors, or none.
        unsafe { av.insert(names.into_iter(), places, flags, context) }
    })
}

/// The name that comes so many behind this one: the number that it ends with is raised.
fn later(name: Option<&str>, by: usize) -> Result<Option<String>, i32> {
    let Some(name) = name else { return Ok(None) };
    if by == 0 {
        return Ok(Some(name.to_owned()));
    }
    let stem = name.trim_end_matches(|end: char| end.is_ascii_digit());
    let digits = &name[stem.len()..];
    let first: u64 = digits.parse().map_err(|_| FI_EINVAL)?;
    let number = first.checked_add(by as u64).ok_or(FI_EINVAL)?;
    Ok(Some(format!(
        "{stem}{number:0width$}",
        width = digits.len()
    )))
}

impl AddressVector {
    /// Enters those that are addresses, and gives how many.
    ///
    /// # Safety
    /// `places` has room for as many places, and with `FI_SYNC_ERR` `context` for as many numbers,
    /// or they are null.
    unsafe fn insert(
        &self,
        names: impl Iterator<Item = Result<Name, i32>>,
        places: *mut fi_addr_t,
        flags: u64,
        context: *mut c_void,
    ) -> c_int {
        if flags & !(FI_MORE | FI_SYNC_ERR | FI_AV_USER_ID) != 0 {
            return -FI_EBADFLAGS;
        }
        let chosen = flags & FI_AV_USER_ID != 0;
        if chosen && places.is_null() {
            return -FI_EINVAL;
        }
        let _turn = self.domain.enter_alone();
        if chosen && self.user_ids.are_for_all {
            // They are set by a call of their own.
            return -FI_EINVAL;
        }
        let mut good = 0;
        for (number, name) in names.enumerate() {
            let (place, errno) = match name {
                Ok(name) => {
                    let at = self.enter(name);
                    if chosen {
                        // SAFETY: with this flag C gives the names in the room for places.
                        let called = unsafe { *places.add(number) };
                        self.user_ids.set(at, called);
                    }
                    (at, 0)
                }
                Err(errno) => (FI_ADDR_NOTAVAIL, errno),
            };
            good += c_int::from(errno == 0);
            if !places.is_null() {
                // SAFETY: the caller's promise.
                unsafe { *places.add(number) = place };
            }
            if flags & FI_SYNC_ERR != 0 && !context.is_null() {
                // SAFETY: the caller's promise.
                unsafe { *context.cast::<c_int>().add(number) = errno };
            }
        }
        self.domain
            .for_each_endpoint(|endpoint| endpoint.tell_addresses(self));
        good
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_row_count_on() {
        for (first, by, wanted) in [
            (Some("5000"), 0, Ok(Some("5000"))),
            (Some("5000"), 2, Ok(Some("5002"))),
            (Some("10.1.1.9"), 1, Ok(Some("10.1.1.10"))),
            (Some("host08"), 3, Ok(Some("host11"))),
            (Some("host"), 0, Ok(Some("host"))),
            (Some("host"), 1, Err(FI_EINVAL)),
            (Some("18446744073709551615"), 1, Err(FI_EINVAL)),
            (None, 1, Ok(None)),
        ] {
            assert_eq!(later(first, by), wanted.map(|name| name.map(str::to_owned)));
        }
    }
}
