// SPDX-License-Identifier: GPL-2.0

//! Who may know of whom: sessions of one user in one user namespace.

use kernel::cred::Credential;
use kernel::fs::File;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::aref::ARef;

/// A realm as a number, for the key of a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RealmKey {
    /// The kernel's own number of the user, whatever namespaces show.
    user: u32,
    /// Address of the user namespace: never followed, only compared.
    namespace: usize,
}

/// The user and user namespace of whoever opened a session.
///
/// It is the opener's and not the caller's, so a descriptor that is passed on carries no rights of
/// its new holder (nor does it work there, see `session.rs`).
pub(crate) struct Realm {
    key: RealmKey,
    /// Keeps the namespace alive, so that no other one gets its address.
    _credential: ARef<Credential>,
}

impl Realm {
    pub(crate) fn of_opener(file: &File) -> Result<Arc<Self>> {
        let credential = file.cred();
        // SAFETY: the file holds the credentials, whose namespace is set once, when they are made.
        let namespace = unsafe { (*credential.as_ptr()).user_ns };
        let key = RealmKey {
            user: credential.euid().into_raw().val,
            namespace: namespace as usize,
        };
        let _credential = credential.into();
        Ok(Arc::new(Self { key, _credential }, GFP_KERNEL_ACCOUNT)?)
    }

    pub(crate) fn key(&self) -> RealmKey {
        self.key
    }
}
