//! What each of the endpoints does for the calls of [`Endpoint`] that need no buffer: it hands them
//! on to its engine.

use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};

#[cfg(feature = "ibverbs")]
use super::VerbsEndpoint;
use super::{HybridEndpoint, ShmEndpoint};
use crate::counters::Counters;
use crate::engine::Engine;
use crate::{Address, Endpoint, Peer, Result};

macro_rules! endpoint {
    ($name:ident) => {
        impl Endpoint for $name {
            fn address(&self) -> Address {
                self.0.engine.read(|engine| engine.cx.identity.address)
            }
            fn myself(&self) -> Peer {
                self.0.engine.enter(move |engine| engine.myself())
            }
            fn connect(&self, address: &[u8]) -> Result<Peer> {
                self.0.engine.enter(move |engine| engine.connect(address))
            }
            fn peer_address(&self, peer: Peer) -> Result<Address> {
                self.0.engine.enter(move |engine| engine.peer_address(peer))
            }
            fn attach(&self, peer: Peer) -> Result<bool> {
                self.0.engine.enter(move |engine| engine.attach(peer.0))
            }
            #[inline]
            fn progress(&self) -> bool {
                self.0.engine.progress(Engine::poll)
            }
            fn sleep(&self, timeout: Option<Duration>) {
                self.0
                    .engine
                    .enter_and_free(move |engine| engine.sleep(timeout));
            }
            fn wake_fd(&self) -> BorrowedFd<'_> {
                self.0.wake.as_fd()
            }
            fn arm(&self) -> bool {
                self.0
                    .engine
                    .enter_and_free(move |engine| engine.arm_for_poll())
            }
            fn counters(&self) -> Counters {
                self.0.engine.read(|engine| engine.counters())
            }
            fn close(&self) {
                self.0.engine.enter_and_free(move |engine| engine.close());
            }
        }
    };
}

endpoint!(HybridEndpoint);
endpoint!(ShmEndpoint);
#[cfg(feature = "ibverbs")]
endpoint!(VerbsEndpoint);
