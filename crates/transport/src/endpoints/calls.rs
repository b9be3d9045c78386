//! What every endpoint does for the traits that its calls belong to, whatever its engine is: it
//! hands the calls on. Sends, receives and loans differ from engine to engine, and are elsewhere.

use std::os::fd::OwnedFd;

use crate::engine_cell::EngineCell;

/// What an endpoint is made of.
pub(crate) struct Inner<E> {
    pub(crate) engine: EngineCell<E>,
    /// A descriptor of its own, so that it can be lent while the engine works.
    pub(crate) wake: OwnedFd,
}

impl<E> Inner<E> {
    pub(crate) fn new(engine: E, wake: OwnedFd) -> Self {
        let engine = EngineCell::new(engine);
        Self { engine, wake }
    }
}

/// The calls of an endpoint that is a tuple of an [`Inner`], and where its engine has the table of
/// requests.
macro_rules! calls {
    ($name:ident, $($table:ident).+) => {
        const _: () = {
            use core::fmt;
            use core::time::Duration;
            use std::any::Any;
            use std::os::fd::{AsFd, BorrowedFd};

            use $crate::engine::patience::Awaited;
            use $crate::error::Outcome;
            use $crate::raw::sealed::Sealed;
            use $crate::raw::{
                Access, Inbox, OneSided, Owner, Posted, RawSlice, RawSliceMut, RegionId, RequestId,
                Requests, Reserved, Runtime,
            };
            use $crate::{Address, Counters, Endpoint, Peer, Result, Selector, Tag};

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    let mut out = f.debug_tuple(stringify!($name));
                    match self.0.engine.try_read() {
                        Ok(engine) => out.field(&engine.address()).finish(),
                        Err(_) => out.finish_non_exhaustive(),
                    }
                }
            }

            impl Sealed for $name {}

            impl Requests for $name {
                #[inline]
                fn test(&self, request: RequestId) -> Option<Outcome> {
                    self.0.engine.enter(move |engine| engine.test(request))
                }
                fn is_done(&self, request: RequestId) -> bool {
                    self.0.engine.read(|engine| engine.$($table).+.is_over(request))
                }
                fn news(&self) -> u64 {
                    self.0.engine.read(|engine| engine.news())
                }
                #[inline(always)]
                fn wait(&self, request: RequestId) -> Outcome {
                    self.0.engine.enter(move |engine| engine.wait(request))
                }
                fn wait_any(&self, requests: &[RequestId]) -> Option<(usize, Outcome)> {
                    self.0.engine.enter(move |engine| engine.wait_any(requests))
                }
                fn cancel(&self, request: RequestId) -> Result<()> {
                    self.0.engine.enter_and_free(move |engine| engine.cancel(request))
                }
                fn watch(&self, request: RequestId, name: u64) -> Result<()> {
                    self.0.engine.enter(move |engine| engine.$($table).+.watch(request, name))
                }
                #[inline]
                fn next_completed(&self) -> Option<(u64, Outcome)> {
                    self.0.engine.enter(move |engine| engine.$($table).+.next_completed())
                }
                fn watched(&self, name: u64) -> Option<RequestId> {
                    self.0.engine.read(|engine| engine.$($table).+.watched(name))
                }
                fn insert_done(&self, outcome: Outcome, owner: u32) -> RequestId {
                    self.0
                        .engine
                        .enter(move |engine| engine.$($table).+.insert_done(outcome, owner))
                }
                fn new_owner(&self) -> u32 {
                    self.0.engine.enter(move |engine| engine.$($table).+.new_owner())
                }
                #[inline]
                unsafe fn set_owner(&self, request: RequestId, owner: u32) {
                    self.0.engine.enter(move |engine| {
                        if let Some(slot) = engine.$($table).+.find(request) {
                            engine.$($table).+.set_owner(slot, Owner::Scope(owner));
                        }
                    });
                }
                fn owned_by(&self, owner: u32) -> Option<RequestId> {
                    self.0.engine.enter(move |engine| engine.$($table).+.owned_by(owner))
                }
                fn abandon(&self, request: RequestId, buffer: Box<dyn Any + Send>) {
                    self.0.engine.enter_and_free(move |engine| engine.abandon(request, buffer));
                }
            }

            impl OneSided for $name {
                fn expose(&self, memory: Vec<u8>) -> Result<(RegionId, u64)> {
                    self.0.engine.enter(move |engine| engine.expose(memory))
                }
                unsafe fn expose_raw(
                    &self,
                    memory: RawSliceMut,
                    key: Option<u64>,
                    access: Access,
                    origin: u64,
                ) -> Result<(RegionId, u64)> {
                    self.0.engine.enter(move |engine| {
                        // SAFETY: the caller's promise.
                        unsafe { engine.expose_raw(memory, key, access, origin) }
                    })
                }
                fn region_read(
                    &self,
                    region: RegionId,
                    offset: u64,
                    into: &mut [u8],
                ) -> Result<()> {
                    self.0.engine.enter(move |engine| engine.region_read(region, offset, into))
                }
                fn region_write(&self, region: RegionId, offset: u64, from: &[u8]) -> Result<()> {
                    self.0.engine.enter(move |engine| engine.region_write(region, offset, from))
                }
                fn revoke(&self, region: RegionId) -> Result<Vec<u8>> {
                    self.0.engine.enter(move |engine| engine.revoke(region))
                }
                fn try_revoke(&self, region: RegionId) -> Result<Option<Vec<u8>>> {
                    self.0.engine.enter(move |engine| engine.try_revoke(region))
                }
                unsafe fn post_read(
                    &self,
                    peer: Peer,
                    key: u64,
                    offset: u64,
                    into: &[RawSliceMut],
                ) -> Result<Posted> {
                    self.0.engine.enter(move |engine| {
                        // SAFETY: the caller's promise.
                        unsafe { engine.read(peer.0, key, offset, into) }
                    })
                }
                unsafe fn post_write(
                    &self,
                    peer: Peer,
                    key: u64,
                    offset: u64,
                    from: &[RawSlice],
                ) -> Result<Posted> {
                    self.0.engine.enter(move |engine| {
                        // SAFETY: the caller's promise.
                        unsafe { engine.write(peer.0, key, offset, from) }
                    })
                }
                #[inline]
                fn is_helping(&self, peer: Peer) -> bool {
                    self.0.engine.read(|engine| engine.is_helping(peer.0))
                }
            }

            impl Runtime for $name {
                fn keep_any_source_receives(&self) {
                    self.0.engine.enter(move |engine| engine.keep_any_source_receives());
                }
                fn reserve_tags(&self, tag: Tag, mask: u64) {
                    self.0.engine.enter(move |engine| engine.reserve_tags(tag.0, mask));
                }
                #[inline]
                fn has_reserved(&self) -> bool {
                    self.0.engine.read(|engine| engine.has_reserved())
                }
                fn use_inbox(&self, used: bool) {
                    self.0.engine.enter(move |engine| engine.use_inbox(used));
                }
                #[inline]
                fn take_inbox(&self, inbox: &mut Inbox) {
                    self.0.engine.enter(move |engine| engine.take_inbox(inbox));
                }
                fn take_reserved(&self) -> Option<Reserved> {
                    self.0.engine.enter(move |engine| engine.take_reserved())
                }
                fn report_accesses(&self, key: u64, kinds: Access) {
                    self.0.engine.enter(move |engine| engine.report_accesses(key, kinds));
                }
                #[inline]
                fn takes_receipts(&self, peer: Peer) -> bool {
                    self.0.engine.read(|engine| engine.takes_receipts(peer.0))
                }
                #[inline]
                fn give_receipt(&self, peer: Peer, receipt: u64) {
                    self.0.engine.enter(move |engine| engine.give_receipt(peer.0, receipt));
                }
                #[inline]
                fn receipt_of(&self, peer: Peer) -> u64 {
                    self.0.engine.enter(move |engine| engine.receipt_of(peer.0))
                }
                fn connects_at_start(&self, peer: Peer) -> Result<bool> {
                    self.0.engine.enter(move |engine| engine.connects_at_start(peer.0))
                }
                fn patience(&self) -> Duration {
                    self.0.engine.read(|engine| engine.patience())
                }
                fn say_awaited(&self, call: &'static str, selector: &Selector) {
                    self.0.engine.enter(move |engine| {
                        engine.say_awaited(Awaited::Message(call, selector));
                    });
                }
                fn say_contact(&self, peer: Peer) {
                    self.0.engine.enter(move |engine| engine.say_awaited(Awaited::Contact(peer.0)));
                }
                fn say_under_way(&self, call: &'static str) {
                    self.0.engine.enter(move |engine| {
                        engine.say_awaited(Awaited::UnderWay(call));
                    });
                }
                fn is_busy(&self) -> bool {
                    self.0.engine.is_busy()
                }
            }

            impl Endpoint for $name {
                fn address(&self) -> Address {
                    self.0.engine.read(|engine| engine.address())
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
                    self.0.engine.progress(|engine| engine.poll())
                }
                fn sleep(&self, timeout: Option<Duration>) {
                    self.0.engine.enter_and_free(move |engine| engine.sleep(timeout));
                }
                fn wake_fd(&self) -> BorrowedFd<'_> {
                    self.0.wake.as_fd()
                }
                fn arm(&self) -> bool {
                    self.0.engine.enter_and_free(move |engine| engine.arm_for_poll())
                }
                fn counters(&self) -> Counters {
                    self.0.engine.read(|engine| engine.counters())
                }
                fn close(&self) {
                    self.0.engine.enter_and_free(move |engine| engine.close());
                }
            }
        };
    };
}
pub(crate) use calls;
