//! Single copy through the kernel module's `/dev/limic`, or the reason why there is none.
//!
//! One side exposes its memory to the other's session, who copies.

use limic_shm::bytes::{ReceiveBuffer, SendBuffer};

use super::{Kmod, KmodPair, KmodPeer, Lasting, Opened};
use crate::remote::{CopySlices, Failed};
use crate::{Access, CopyEngine, RemoteRange};

/// This endpoint's session with the module.
#[derive(Debug)]
pub struct KmodBackend {
    session: Result<Kmod, String>,
    /// The sends' buffers that stay exposed. Apart, since most endpoints never send through the
    /// module.
    lasting: Option<Box<Lasting>>,
}

impl KmodBackend {
    /// Opens it, if that is allowed.
    #[must_use]
    pub fn open(allowed: bool) -> Self {
        let session = if allowed {
            Kmod::open().map_err(|refused| refused.to_string())
        } else {
            Err("switched off by the settings".to_owned())
        };
        let lasting = session.as_ref().ok().and_then(Kmod::lasting);
        Self {
            session,
            lasting: lasting.map(Box::new),
        }
    }

    /// By this number peers name the session; 0 if there is none.
    pub fn session(&self) -> u64 {
        self.session.as_ref().map_or(0, Kmod::session)
    }

    /// What connects this session with that of a peer.
    pub fn pair(&self, peer: u64) -> KmodBackendPair {
        let parts = match &self.session {
            Ok(kmod) => kmod
                .pair(peer)
                .ok_or_else(|| "the peer has not opened /dev/limic".to_owned()),
            Err(why) => Err(why.clone()),
        };
        KmodBackendPair {
            parts,
            offers: Offers::Unwanted,
        }
    }
}

/// Whether sends are exposed when they are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offers {
    /// The last long message to the peer went another way.
    Unwanted,
    /// The module moved it.
    Wanted,
    /// It was tried, and the module refused (locked memory, a kind of memory that is not pinned):
    /// not for so many messages more.
    Refused(u32),
}

/// Long messages to a peer after which a refusal is tried again: other memory may be sent by then,
/// or less be locked.
const REFUSED: u32 = 64;

/// A send's bytes, which the peer may read until this is dropped.
#[derive(Debug)]
pub enum Exposed {
    /// In a buffer that stays exposed, and is opened for this message.
    Lasting(Opened),
    /// For this message alone.
    Once(Once),
}

impl Exposed {
    /// What names them to the peer.
    pub fn handle(&self) -> u64 {
        match self {
            Self::Lasting(opened) => opened.handle(),
            Self::Once(once) => once.range.key,
        }
    }
}

/// An exposure of one message.
#[derive(Debug)]
pub struct Once {
    pair: KmodPair,
    range: RemoteRange,
}

impl Drop for Once {
    fn drop(&mut self) {
        if let Err(error) = self.pair.revoke(&[self.range]) {
            // A forked child: what was exposed was its parent's.
            tracing::warn!("a buffer could not be taken back from /dev/limic: {error}");
        }
    }
}

/// The module between this endpoint and one peer, or the reason why it is not used.
#[derive(Debug)]
pub struct KmodBackendPair {
    parts: Result<(KmodPair, KmodPeer), String>,
    offers: Offers,
}

impl KmodBackendPair {
    /// Why it cannot be used.
    pub fn refusal(&self) -> Option<&str> {
        self.parts.as_ref().err().map(String::as_str)
    }

    /// Never use it again.
    pub fn demote(&mut self, why: &str) {
        self.parts = Err(why.to_owned());
    }

    /// Notes whether the module moved the last long message to the peer.
    pub fn note(&mut self, moved: bool) {
        self.offers = match self.offers {
            Offers::Refused(left) if left > 1 => Offers::Refused(left - 1),
            _ if moved => Offers::Wanted,
            _ => Offers::Unwanted,
        };
    }

    /// Lets the peer read a send, if it is likely to. Without a system call, if the buffer was sent
    /// to it before.
    pub fn offer(&mut self, kmod: &mut KmodBackend, data: &SendBuffer) -> Option<Exposed> {
        if self.offers != Offers::Wanted {
            return None;
        }
        if data.slices().len() > KmodPair::SLICES {
            return None;
        }
        let (pair, _) = self.parts.as_ref().ok()?;
        let local = CopySlices::readable(data, data.len());
        if let (&[slice], Some(lasting)) = (local.as_slice(), &mut kmod.lasting) {
            // SAFETY: readable by the invariant of `SendBuffer`, until the send ends, with which
            // the latch is shut.
            if let Some(opened) = unsafe { lasting.open(pair, slice) } {
                return Some(Exposed::Lasting(opened));
            }
        }
        // SAFETY: readable by the invariant of `SendBuffer`, and for reading only. The exposure is
        // part of the send, and goes with it before the buffer goes back to its owner.
        match unsafe { pair.expose_once_more(local.as_slice(), Access::Read) } {
            Ok(range) => Some(Exposed::Once(Once {
                pair: pair.clone(),
                range,
            })),
            Err(error) => {
                tracing::debug!("a send is not exposed when it is offered: {error}");
                self.offers = Offers::Refused(REFUSED);
                None
            }
        }
    }

    /// Reads up to `limit` of the first `len` bytes that the peer exposed, from `skip` on.
    ///
    /// # Errors
    /// What went wrong, and after how many bytes.
    pub fn read(
        &self,
        handle: u64,
        into: &ReceiveBuffer,
        len: u64,
        skip: u64,
        limit: u64,
    ) -> Result<u64, Failed> {
        let (pair, peer) = self.parts()?;
        let local = CopySlices::writable(into, len);
        let remote = [RemoteRange {
            key: handle,
            address: 0,
            len,
        }];
        // SAFETY: the room is writable by the invariant of `ReceiveBuffer`, and the transport does
        // nothing else with it during the call.
        unsafe { pair.read_at(peer, &remote, local.as_slice(), skip, limit) }.map_err(Failed::from)
    }

    fn parts(&self) -> Result<&(KmodPair, KmodPeer), Failed> {
        self.parts.as_ref().map_err(|why| Failed::refused(why))
    }
}
