//! One node of a forwarding chain: what comes into its area goes on to the next node, and up
//! to its own host memory.

use limic_ibverbs::objects::AdapterMemory;

use super::card::AreaCard;
use super::link::{Link, LinkError, Ticket};

/// The next node: the way there, and its area.
#[derive(Debug)]
pub struct Next<'a> {
    /// The connection.
    pub link: &'a mut Link,
    /// Where it takes messages.
    pub area: AreaCard,
}

/// A node between, or the last one: `next` says which. The code is the same whatever memory the
/// area lies in.
pub struct Forwarder {
    area: Box<dyn AdapterMemory>,
}

impl core::fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Forwarder")
            .field("bytes", &self.area.len())
            .field("on_adapter", &self.area.on_adapter())
            .finish()
    }
}

impl Forwarder {
    /// A node with this area; a message is at most as long as it.
    #[must_use]
    pub fn new(area: Box<dyn AdapterMemory>) -> Self {
        Self { area }
    }

    /// What the node before has to know. `None` for an area of no bytes, or of more than 4 GiB.
    #[must_use]
    pub fn card(&self) -> Option<AreaCard> {
        AreaCard::of(&*self.area)
    }

    /// Whether the area is the adapter's own memory.
    #[must_use]
    pub fn on_adapter(&self) -> bool {
        self.area.on_adapter()
    }

    /// Begins a chain: the bytes go through this node's area to the next one, in pieces of `piece`
    /// bytes. When it returns the next node has them.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn begin(
        &mut self,
        bytes: &[u8],
        piece: usize,
        next: &mut Next<'_>,
    ) -> Result<(), LinkError> {
        let mut last = None;
        for (at, len) in parts(bytes.len(), piece) {
            self.area.write(at, &bytes[at..at + len])?;
            last = Some(self.pass_on(at, len, next)?);
        }
        finish(last, Some(next))
    }

    /// Takes a message of `into.len()` bytes that the node before writes in pieces of `piece`
    /// bytes. Each goes on to the next node as soon as it is here, and then up to `into`. When it
    /// returns the next node has them too. A message of no bytes is nothing.
    ///
    /// # Errors
    /// [`LinkError`]; [`LinkError::Pieces`] if the node before announces what does not fit.
    pub fn take(
        &mut self,
        into: &mut [u8],
        piece: usize,
        before: &mut Link,
        mut next: Option<Next<'_>>,
    ) -> Result<(), LinkError> {
        let mut last = None;
        for (at, len) in parts(into.len(), piece) {
            let said = before.notice()?;
            if said != at as u64 {
                return Err(LinkError::Pieces(format!(
                    "the node before announces the piece at {said}, but that at {at} is next"
                )));
            }
            if let Some(next) = &mut next {
                last = Some(self.pass_on(at, len, next)?);
            }
            // While the adapter passes it on.
            self.area.read(at, &mut into[at..at + len])?;
        }
        before.notify(FREE)?;
        finish(last, next.as_mut())
    }

    fn pass_on(&self, at: usize, len: usize, next: &mut Next<'_>) -> Result<Ticket, LinkError> {
        let outside = || LinkError::Pieces(format!("{len} bytes at {at} lie outside of the area"));
        let piece = self.area.slice(at, len).ok_or_else(outside)?;
        if (at + len) as u64 > u64::from(next.area.len) {
            return Err(LinkError::Pieces(format!(
                "{len} bytes at {at} lie outside of the next node's {} bytes",
                next.area.len
            )));
        }
        next.link.write(&[piece], next.area.at(at))?;
        next.link.notify(at as u64)
    }
}

/// What a node tells the one before when it needs its area no more. Offsets are smaller.
const FREE: u64 = u64::MAX;

/// The message has left this node, and the next one has taken it out of its area: the area may be
/// written to again.
fn finish(last: Option<Ticket>, next: Option<&mut Next<'_>>) -> Result<(), LinkError> {
    let (Some(ticket), Some(next)) = (last, next) else {
        return Ok(());
    };
    next.link.wait(ticket)?;
    match next.link.notice()? {
        FREE => Ok(()),
        said => Err(LinkError::Pieces(format!(
            "the next node says {said} where it should say that its area is free"
        ))),
    }
}

/// Offset and length of each piece.
fn parts(bytes: usize, piece: usize) -> impl Iterator<Item = (usize, usize)> {
    let piece = piece.max(1);
    (0..bytes)
        .step_by(piece)
        .map(move |at| (at, piece.min(bytes - at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_message_once() {
        let all: Vec<_> = parts(10, 4).collect();
        assert_eq!(all, [(0, 4), (4, 4), (8, 2)]);
        assert_eq!(parts(0, 4).count(), 0);
        assert_eq!(parts(3, 0).count(), 3);
    }
}
