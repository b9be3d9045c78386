//! Private rings that are read apart from the others, later in the turn, in its slow work. A ring
//! is read so for as long as it has one of these reasons:
//!
//! - Its peer is over its share of unexpected messages: those that would have to be kept stay in
//!   the ring (`limic_policy::UnexpectedBound`).
//! - Its peer asks for help with accesses to regions. The time that its records take is counted,
//!   and while help rests, the ring is not read (`help`).
//!
//! The shared ring is read here for the second reason too, while any peer asks for help there.

use super::private_input::PrivateInput;
use super::rings::ReceiveRings;
use crate::engine::cx::Cx;
use crate::warning;

/// Looks that bring no request for help, after which a ring is read as the others are.
pub(super) const LOOKS: u32 = 64;

impl ReceiveRings {
    /// Reads the private ring of a peer apart from now on, if it has one.
    fn set_apart(&mut self, cx: &mut Cx, peer: u32) -> Option<&mut PrivateInput> {
        if let Some(at) = self.private.iter().position(|input| input.peer == peer) {
            self.apart.push(self.private.swap_remove(at));
            cx.memory.set_apart(true);
        }
        self.apart.iter_mut().find(|input| input.peer == peer)
    }

    /// Messages of a peer stay in its private ring, if no receive is posted for them, until it is
    /// below its share of unexpected messages.
    #[cold]
    pub(crate) fn hold_back(&mut self, cx: &mut Cx, peer: u32) {
        if self.set_apart(cx, peer).is_some() {
            warning::say(&format!(
                "messages of peer {peer} wait in its ring until some are received: there are too \
                 many without a receive (LIMIC_UNEXPECTED_BYTES)"
            ));
        }
    }

    /// The time that the records of a peer take counts from now on.
    #[cold]
    pub(crate) fn time(&mut self, cx: &mut Cx, peer: u32) {
        if let Some(input) = self.set_apart(cx, peer) {
            input.timed = LOOKS;
        }
    }

    /// A ring that is read apart is read as the others are.
    pub(super) fn go_on(&mut self, peer: u32) {
        if let Some(at) = self.apart.iter().position(|input| input.peer == peer) {
            self.private.push(self.apart.swap_remove(at));
        }
    }

    /// Takes from rings that are read apart what is not to stay there. True if there was anything.
    #[cold]
    pub(crate) fn drain_apart(&mut self, cx: &mut Cx) -> bool {
        let rests = cx.regions.help.rests();
        let (mut moved, mut resting) = (false, 0);
        if self.shared_timed > 0 && !rests {
            moved |= self.drain_shared(cx);
        }
        let mut at = 0;
        while let Some(input) = self.apart.get_mut(at) {
            let is_held_back = cx.matching.is_over_share(input.peer, cx.peers.reached());
            let served = cx.peers.serves(input.peer);
            if served || input.timed > 0 {
                if rests {
                    at += 1;
                    resting += 1;
                    continue;
                }
                let piece = cx.regions.help.begin();
                if input.deliver(cx, is_held_back, Some(&piece)) {
                    moved = true;
                    if served {
                        cx.regions.help.note();
                    }
                }
                let helped = cx.regions.help.end(&piece);
                input.timed = if helped {
                    LOOKS
                } else {
                    input.timed.saturating_sub(1)
                };
            } else if is_held_back {
                moved |= input.deliver(cx, true, None);
            }
            if is_held_back || input.timed > 0 || cx.peers.serves(input.peer) {
                at += 1;
            } else {
                moved = true;
                self.private.push(self.apart.swap_remove(at));
            }
        }
        let shared = self.shared_timed > 0 && !rests;
        cx.memory.set_apart(shared || self.apart.len() > resting);
        moved
    }
}
