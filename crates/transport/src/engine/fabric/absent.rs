//! This build has no verbs: peers are on this node, or not reached.

use core::convert::Infallible;
use core::time::Duration;
use std::os::fd::OwnedFd;

use limic_shm::world::Instant;

use super::Happened;
use crate::buffer::PrivateBytes;
use crate::counters::Recorder;
use crate::engine::frame::{ControlRecord, Offer};
use crate::error::PeerFailure;
use crate::raw::{RawSlice, RawSliceMut};
use crate::settings::{Settings, VerbsUse};
use crate::{Address, Error, RequestId, Result};

/// No records.
#[derive(Default)]
pub(crate) struct Inbox {}

/// The form of a record.
pub(crate) struct Form {
    pub(crate) kind: u8,
    pub(crate) tag: u64,
}

impl Inbox {
    pub(crate) fn messages(&self) -> impl Iterator<Item = (Form, &[u8])> {
        core::iter::empty()
    }
}

/// No fabric.
pub(crate) struct FabricChannel(Option<Infallible>);

impl FabricChannel {
    pub(crate) fn open(settings: &Settings, _: &mut Address) -> Result<Self> {
        if settings.verbs().used == VerbsUse::Only {
            return Err(Error::Settings(
                "all peers are to be reached over verbs (LIMIC_VERBS=only), but this program was \
                 built without them: build with the feature ibverbs"
                    .to_owned(),
            ));
        }
        Ok(Self(None))
    }

    pub(crate) fn leave_to_parent(&mut self) {}

    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
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

    pub(crate) fn connects_at_start(&self) -> bool {
        false
    }

    pub(crate) fn wake_fds(&self) -> Vec<OwnedFd> {
        Vec::new()
    }

    pub(crate) fn patience(&self) -> Option<Duration> {
        None
    }

    pub(crate) fn arm(&mut self) {}

    pub(crate) fn connect(
        &mut self,
        _: &Address,
        _peer: u32,
    ) -> core::result::Result<u32, PeerFailure> {
        Err(PeerFailure::OtherNode)
    }

    pub(crate) fn accepted(&mut self, _connection: u32, _peer: u32) {}

    pub(crate) fn is_connected(&self, _connection: u32) -> bool {
        false
    }

    pub(crate) fn give_up(&mut self, _connection: u32, _peer: u32) {}

    pub(crate) fn disconnect(&mut self, _connection: u32) {}

    pub(crate) fn close(&mut self, _: Instant) {}

    pub(crate) fn poll(&mut self, _: &mut Inbox) -> Option<Happened> {
        None
    }

    pub(crate) fn cork(&mut self, _connection: u32) {}

    pub(crate) fn uncork(&mut self, _connection: u32) {}

    pub(crate) fn longest_record(&self, _connection: u32) -> u64 {
        0
    }

    pub(crate) fn push(
        &mut self,
        _connection: u32,
        _form: (u8, u64),
        _len: u64,
        _fill: impl FnOnce(&mut PrivateBytes<'_>),
    ) -> bool {
        true
    }

    pub(crate) fn push_control(&mut self, _connection: u32, _: &ControlRecord) -> bool {
        true
    }

    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn register_send(
        &mut self,
        _: RequestId,
        _bytes: RawSlice,
    ) -> Option<(u64, u64)> {
        None
    }

    #[inline(always)]
    pub(crate) fn send_is_over(&mut self, _: RequestId) {}

    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn start_read(
        &mut self,
        _connection: u32,
        _: RequestId,
        _: &Offer,
        _room: RawSliceMut,
        _len: usize,
    ) -> core::result::Result<(), String> {
        Err("verbs are off".to_owned())
    }

    pub(crate) fn asks_first(&self, _peer: u32) -> bool {
        false
    }

    pub(crate) fn ask_first(&mut self, _peer: u32, _ask: bool) {}

    pub(crate) fn tell_over_budget(&mut self, _over_budget: bool) -> Vec<u32> {
        Vec::new()
    }

    pub(crate) fn is_over_budget(&self) -> bool {
        false
    }

    pub(crate) fn publish(&self, _: &Recorder) {}
}
