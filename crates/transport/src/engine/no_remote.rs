//! This build has no verbs: peers are on this node, or not reached.

use core::time::Duration;
use std::os::fd::OwnedFd;
use std::time::Instant;

use super::requests::{Incoming, Slot};
use super::stash::Offer;
use super::{Core, Engine};
use crate::buffer::Source;
use crate::counters::Tally;
use crate::settings::{Settings, VerbsUse};
use crate::{Address, Error, RequestId, Result};

/// No fabric.
pub(crate) struct Remote;

impl Remote {
    pub(crate) fn open(settings: &Settings, _: &mut Address) -> Result<Self> {
        if settings.verbs().used == VerbsUse::Only {
            return Err(Error::Settings(
                "all peers are to be reached over verbs (LIMIC_VERBS=only), but this program was built without them: \
                 build with the feature ibverbs"
                    .to_owned(),
            ));
        }
        Ok(Self)
    }

    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn holds_messages(&self) -> bool {
        false
    }

    pub(crate) fn needs_processors(&self) -> bool {
        false
    }

    pub(crate) fn takes(&self, _: &Address) -> bool {
        false
    }

    pub(crate) fn publish(&self, _: &Tally) {}

    pub(crate) fn is_connected(&self, _: u32) -> bool {
        false
    }

    pub(crate) fn meets_at_start(&self) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn send_is_over(&mut self, _: RequestId) {}

    pub(crate) fn wake_fds(&self) -> Vec<OwnedFd> {
        Vec::new()
    }

    pub(crate) fn patience(&self) -> Option<Duration> {
        None
    }
}

impl Core {
    pub(crate) fn connect_remote(&mut self, _: u32) {}

    pub(crate) fn try_anew(&mut self, _: u32) {}

    pub(crate) fn poll_remote(&mut self) -> bool {
        false
    }

    pub(crate) fn flush_remote(&mut self, _: u32, _: u32) -> bool {
        false
    }

    pub(crate) fn accept_remote(&mut self, _: Slot, _: &Offer, _: Incoming, _: u32) {}

    pub(crate) fn push_stream_remote(&mut self, _: Slot, _: u32) -> (bool, bool) {
        (false, true)
    }

    pub(crate) fn on_pressed(&mut self, from: u32, _: &impl Source) {
        self.corrupt(from, "a record of a peer over verbs");
    }

    pub(crate) fn tell_pressed(&mut self, _: bool) {}

    pub(crate) fn fail_remote(&mut self, _: u32) {}

    pub(crate) fn close_remote(&mut self, _: Instant) {}
}

impl Engine {
    pub(crate) fn arm_remote(&mut self) {}
}
