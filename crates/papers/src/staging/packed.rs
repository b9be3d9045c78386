//! Messages of several pieces.

use std::sync::Arc;

use limic_ibverbs::VerbsError;
use limic_ibverbs::objects::{
    Access, AdapterMemory, HostMemory, LocalSlice, ProtectionDomain, Registration,
};

use super::area;
use super::card::AreaCard;
use super::choice::{Costs, Reuse, Way, choose};
use super::link::{Link, LinkError};

/// Pieces of a borrowed buffer, in the order in which they are sent.
#[derive(Debug)]
pub struct Pieces<'a> {
    buffer: &'a [u8],
    /// Offset and length of each.
    parts: Vec<(usize, usize)>,
    registered: Option<Registration>,
}

impl<'a> Pieces<'a> {
    /// The pieces of `buffer` at these offsets with these lengths.
    ///
    /// # Errors
    /// [`LinkError::Pieces`] if one lies outside.
    pub fn new(buffer: &'a [u8], parts: &[(usize, usize)]) -> Result<Self, LinkError> {
        for &(at, len) in parts {
            if at > buffer.len() || len > buffer.len() - at {
                return Err(LinkError::Pieces(format!(
                    "a piece of {len} bytes at {at} lies outside of a buffer of {}",
                    buffer.len()
                )));
            }
        }
        Ok(Self {
            buffer,
            parts: parts.to_vec(),
            registered: None,
        })
    }

    /// Bytes of all pieces.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.1).sum()
    }

    /// Registers the buffer, which stays registered with this value: gathering costs nothing more.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn register(&mut self, domain: &Arc<ProtectionDomain>) -> Result<(), VerbsError> {
        if self.registered.is_none() {
            self.registered = Some(self.registration(domain)?);
        }
        Ok(())
    }

    /// Whether it is.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.registered.is_some()
    }

    fn registration(&self, domain: &Arc<ProtectionDomain>) -> Result<Registration, VerbsError> {
        let start = self.buffer.as_ptr().cast_mut();
        // SAFETY: the access is local read only, so adapters do nothing to the bytes but read them
        // for this process's own requests. The borrow outlives this value, and requests are over
        // when `send` returns.
        unsafe { Registration::new(domain, start, self.buffer.len(), Access::LOCAL_READ) }
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The way that it took.
    pub way: Way,
}

/// A sender of packed messages.
pub struct Packed {
    domain: Arc<ProtectionDomain>,
    host: HostMemory,
    /// On the adapter, if that has memory.
    device: Option<Box<dyn AdapterMemory>>,
    costs: Costs,
    reuse: Reuse,
}

impl core::fmt::Debug for Packed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Packed")
            .field("costs", &self.costs)
            .field("reuse", &self.reuse)
            .field("device", &self.device.is_some())
            .finish_non_exhaustive()
    }
}

impl Packed {
    /// A sender of messages of at most `longest` bytes. It measures what the ways cost here.
    ///
    /// # Errors
    /// [`VerbsError`].
    pub fn new(domain: &Arc<ProtectionDomain>, longest: usize) -> Result<Self, VerbsError> {
        let host = HostMemory::new(domain, longest)?;
        let best = area(domain, longest)?;
        Ok(Self {
            host,
            device: best.on_adapter().then_some(best),
            costs: Costs::measure(domain)?,
            reuse: Reuse::default(),
            domain: Arc::clone(domain),
        })
    }

    /// What was measured.
    #[must_use]
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Whether the adapter has memory for messages.
    #[must_use]
    pub fn has_device_memory(&self) -> bool {
        self.device.is_some()
    }

    /// Forgets the buffers that messages came from.
    pub fn forget(&mut self) {
        self.reuse = Reuse::default();
    }

    /// The way that a message would take now.
    #[must_use]
    pub fn way(&self, pieces: &Pieces<'_>) -> Way {
        let reuse = if pieces.is_registered() {
            1.0
        } else {
            self.reuse.part()
        };
        let room = self.device.as_ref().map_or(0, |device| device.len());
        // One registration covers all pieces of a buffer, and the gaps between them.
        let bytes = if pieces.is_registered() {
            pieces.bytes()
        } else {
            pieces.buffer.len()
        };
        choose(&self.costs, 1, bytes, reuse, room)
    }

    /// Sends the pieces into the peer's area, one behind the other from `at` on. When it returns
    /// the buffer is free again, and the peer has everything. `way`: `None` for the cheapest;
    /// `after` is called when all is handed to the adapter.
    ///
    /// # Errors
    /// [`LinkError`]; the link is of no use after a failure, and nothing touches the buffer any
    /// more.
    pub fn send(
        &mut self,
        link: &mut Link,
        pieces: &mut Pieces<'_>,
        to: &AreaCard,
        at: usize,
        way: Option<Way>,
        after: impl FnOnce(),
    ) -> Result<Sent, LinkError> {
        let bytes = pieces.bytes();
        let known = self
            .reuse
            .note(pieces.buffer.as_ptr() as usize, pieces.buffer.len());
        let way = way.unwrap_or_else(|| self.way(pieces));
        if way == Way::Gather {
            // Buffers that come again are kept registered by whoever owns them (`Pieces`); others
            // only for this message.
            if known > 0.5 {
                pieces.register(&self.domain)?;
            }
            let gathered = self.gather(link, pieces, to, at, after);
            if gathered.is_err() {
                // A request may be under way still; without a registration the adapter reads
                // nothing any more.
                pieces.registered = None;
            }
            return gathered.map(|()| Sent { way });
        }
        let area: &mut dyn AdapterMemory = match (&mut self.device, way) {
            (Some(device), Way::DevicePack) => &mut **device,
            (None, Way::DevicePack) => {
                return Err(LinkError::Pieces(
                    "this adapter has no memory for messages".to_owned(),
                ));
            }
            _ => &mut self.host,
        };
        let mut end = 0;
        for &(from, len) in &pieces.parts {
            area.write(end, &pieces.buffer[from..from + len])?;
            end += len;
        }
        let outside = || LinkError::Pieces(format!("{bytes} bytes do not fit the staging area"));
        let piece = area.slice(0, bytes).ok_or_else(outside)?;
        let ticket = link.write(&[piece], to.at(at))?;
        after();
        link.wait(ticket)?;
        Ok(Sent { way })
    }

    fn gather(
        &self,
        link: &mut Link,
        pieces: &Pieces<'_>,
        to: &AreaCard,
        at: usize,
        after: impl FnOnce(),
    ) -> Result<(), LinkError> {
        let only_now = match &pieces.registered {
            Some(_) => None,
            None => Some(pieces.registration(&self.domain)?),
        };
        let Some(registered) = pieces.registered.as_ref().or(only_now.as_ref()) else {
            return Ok(());
        };
        let outside = || LinkError::Pieces("a piece is longer than 4 GiB".to_owned());
        let mut end = at;
        let mut last = None;
        for group in pieces.parts.chunks(link.most_slices().max(1)) {
            let list: Option<Vec<LocalSlice>> = group
                .iter()
                .map(|&(from, len)| LocalSlice::of(registered, from, len))
                .collect();
            last = Some(link.write(&list.ok_or_else(outside)?, to.at(end))?);
            end += group.iter().map(|part| part.1).sum::<usize>();
        }
        after();
        // If this fails the registration goes all the same, and with it the adapter's way to the
        // bytes.
        last.map_or(Ok(()), |ticket| link.wait(ticket))
    }
}
