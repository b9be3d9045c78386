//! Records and long messages go over a fabric.

#[cfg(doc)]
use limic_fabric::Event;
use limic_fabric::{Form, Limits, RemoteRange};
use limic_records::{ControlRecord, Offer};
use limic_shm::bytes::{PrivateBytes, put_words};

use super::{FabricChannel, Link};
use crate::RequestId;
use crate::raw::{RawSlice, RawSliceMut};

impl FabricChannel {
    /// Holds packets of a connection back, since more follow at once.
    pub(crate) fn cork(&mut self, link: Link) {
        if let Some(fabric) = self.of(link) {
            fabric.cork(link.connection);
        }
    }

    /// Lets packets of a connection go.
    pub(crate) fn uncork(&mut self, link: Link) {
        if let Some(fabric) = self.of(link) {
            fabric.uncork(link.connection);
        }
    }

    /// What a link takes.
    pub(crate) fn limits(&self, link: Link) -> Limits {
        let fabric = self.fabrics.get(usize::from(link.fabric));
        fabric.map_or(Limits::NOTHING, |fabric| fabric.limits(link.connection))
    }

    /// Sends a record of `len` bytes, which `fill` writes. `more`: others are likely to follow, and
    /// it may wait for them. False: no room now.
    pub(crate) fn push(
        &mut self,
        link: Link,
        (kind, tag): (u8, u64),
        len: u64,
        more: bool,
        fill: impl FnOnce(&mut PrivateBytes<'_>),
    ) -> bool {
        let follows = self.joins_burst(link, more);
        let Some(fabric) = self.of(link) else {
            return true;
        };
        let Ok(len) = u32::try_from(len) else {
            return false;
        };
        let mut fill = Some(fill);
        let form = Form { kind, tag, len };
        let pushed = fabric.send(link.connection, form, &mut |room| {
            if let Some(fill) = fill.take() {
                fill(&mut PrivateBytes::new(room));
            }
        });
        let pushed = pushed.is_ok();
        if !follows {
            // Those that waited go with it.
            self.end_burst();
            if more && pushed {
                self.begin_burst(link);
            }
        }
        pushed
    }

    /// Sends a control record. False: no room now.
    pub(crate) fn push_control(&mut self, link: Link, control: &ControlRecord) -> bool {
        let words = control.words();
        let (form, len) = ((control.kind, control.tag), size_of_val(words) as u64);
        self.push(link, form, len, false, |bytes| {
            // SAFETY: a record of that length.
            unsafe { put_words(bytes, words) }
        })
    }

    /// Lets the receiver of a send read its bytes; gives their address and key.
    ///
    /// # Safety
    /// The bytes stay until [`send_is_over`](Self::send_is_over).
    pub(crate) unsafe fn register_send(
        &mut self,
        link: Link,
        id: RequestId,
        bytes: RawSlice,
    ) -> Option<(u64, u64)> {
        let fabric = self.of(link)?;
        // SAFETY: the operation is over (the caller's promise) before the application has its
        // buffer back, and the offer is withdrawn then.
        let offered = unsafe { fabric.offer(id.0, bytes.start, bytes.len) };
        match offered {
            Ok(RemoteRange { start, keys }) => {
                self.offered.insert(id, link.fabric);
                Some((start, keys))
            }
            Err(error) => {
                tracing::debug!("a message goes in packets: {error}");
                None
            }
        }
    }

    /// The send is over, and its memory nobody's but the application's.
    #[inline]
    pub(crate) fn send_is_over(&mut self, id: RequestId) {
        if self.offered.is_empty() {
            return;
        }
        let number = self.offered.remove(&id).map(usize::from);
        if let Some(fabric) = number.and_then(|number| self.fabrics.get_mut(number)) {
            fabric.withdraw(id.0);
        }
    }

    /// Starts to read the first `len` bytes of an offered message.
    ///
    /// # Errors
    /// Memory cannot be registered, or the read not begun.
    ///
    /// # Safety
    /// The room has `len` bytes, and is the request's until [`Event::Transferred`] or
    /// [`give_up`](Self::give_up).
    pub(crate) unsafe fn start_read(
        &mut self,
        link: Link,
        id: RequestId,
        offer: &Offer,
        room: RawSliceMut,
        len: usize,
    ) -> core::result::Result<(), String> {
        let remote = RemoteRange {
            start: offer.address,
            keys: offer.key,
        };
        let fabric = self.of(link).ok_or("the endpoint is closed")?;
        // SAFETY: the room is the operation's until it is over, which is when the read is, or when
        // the connection is (the caller's promise).
        unsafe { fabric.read(link.connection, remote, room.start, len, id.0) }
    }
}
