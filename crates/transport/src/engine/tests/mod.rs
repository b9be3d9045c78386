//! Endpoints of one thread, for tests of single steps: nothing moves but by the turn that a test
//! gives them.

mod answers;
mod blamed;
mod bursts;
mod closing;
mod failure;
mod fragments;
mod greetings;
mod hostile;
mod left_buffers;
mod long_records;
mod networks;
mod offers;
mod one_sided;
mod polling;
mod receive_bypass;
mod region_news;
mod reserved;
mod sleeping;
mod staging;
mod streams;
mod third;
mod trials;
mod unexpected;
mod unmapped;

use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use limic_policy::select::LONGEST_EAGER;
use limic_policy::{Path, PathSet};
use limic_shm::ring::shared::SharedProducer;
use limic_shm::ring::{Mapped, Memory};
use limic_shm::sync::Ordering;
use rustix::time::{ClockId, clock_gettime};

use super::Engine;
use super::contact::failure::fail_peer;
use super::protocol::attempt;
use super::protocol::{receive, regions};
use super::request::sent;
use crate::error::{Outcome, PeerFailure};
use crate::raw::{Owner, Posted, RawSlice, RawSliceMut, RegionId, RequestId, SendOptions};
use crate::settings::SettingsBuilder;
use crate::{Error, Peer, Selector, Settings};

/// An endpoint with so many private rings.
fn open(private_rings: u32) -> Engine {
    open_with(|settings| settings.private_rings(private_rings))
}

fn open_with(with: impl FnOnce(SettingsBuilder) -> SettingsBuilder) -> Engine {
    let settings = with(Settings::builder().without_environment()).build();
    Engine::open(settings.expect("settings")).expect("an endpoint")
}

/// One whose messages of up to 64 KiB go eagerly, through so many staging buffers of 16 KiB.
fn open_fragmenting(staging_buffers: u32) -> Engine {
    open_with(|settings| fragmenting(settings, staging_buffers))
}

fn fragmenting(settings: SettingsBuilder, staging_buffers: u32) -> SettingsBuilder {
    let paths = PathSet::EMPTY.with(Path::Inline).with(Path::Eager);
    settings
        .allowed(paths.with(Path::Pipeline))
        .eager_max(LONGEST_EAGER)
        .staging_buffer_bytes(16 << 10)
        .staging_buffers(staging_buffers)
        .linger(Duration::ZERO)
}

/// One turn of everybody: messages, and first contacts.
fn turn(engines: &mut [&mut Engine]) {
    for engine in engines {
        engine.progress();
        engine.poll_sockets();
    }
}

/// The processor time of this thread, which no neighbour's load is part of.
fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Longer than anything takes that is waited for here.
const PATIENCE: Duration = Duration::from_secs(20);

/// Gives so many turns.
fn turns(count: u32, engines: &mut [&mut Engine]) {
    for _ in 0..count {
        turn(engines);
    }
}

/// Waits until something is so.
#[track_caller]
fn wait_for(mut done: impl FnMut() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < PATIENCE, "it goes on for too long");
    }
}

/// Gives turns until something is so.
#[track_caller]
fn until(engines: &mut [&mut Engine], mut done: impl FnMut(&mut [&mut Engine]) -> bool) {
    wait_for(|| {
        let done = done(engines);
        if !done {
            turn(engines);
        }
        done
    });
}

/// Runs a part of a test in a forked child, which has copies of all endpoints.
#[track_caller]
fn in_child(part: impl FnOnce()) {
    // SAFETY: the child uses its copies alone, and ends without a destructor of the test.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child if it hangs.
        unsafe { libc::alarm(60) };
        let failed = catch_unwind(AssertUnwindSafe(part)).is_err();
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(i32::from(failed)) };
    }
    assert!(child > 0, "a fork");
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child failed; what it says stands above");
}

/// The number of an endpoint at another one, which has not met it yet.
fn known(engine: &mut Engine, other: &Engine) -> u32 {
    let peer = engine.connect(&other.cx.identity.address.to_bytes());
    peer.expect("an address").0
}

/// Posts a send.
///
/// # Safety
/// The data stays until the send is done, or the endpoint is gone.
unsafe fn post(from: &mut Engine, to: u32, tag: u64, data: &[u8]) -> Posted {
    let slices = [RawSlice::from(data)];
    // SAFETY: the caller's promise.
    let posted = unsafe {
        match attempt::whole(&mut from.cx, to, tag, None, &slices) {
            true => Ok(Posted::Done(sent(to, tag, data.len() as u64))),
            false => from.post_send(to, tag, SendOptions::default(), &slices),
        }
    };
    posted.expect("alive")
}

/// Posts a receive.
///
/// # Safety
/// The room stays until the receive is done, or the endpoint is gone.
unsafe fn post_receive(engine: &mut Engine, from: impl Into<Selector>, room: &mut [u8]) -> Posted {
    let into = [RawSliceMut::from(room)];
    // SAFETY: the caller's promise.
    let posted = unsafe { receive::post_recv(&mut engine.cx, &from.into(), &into, Owner::Caller) };
    posted.expect("alive")
}

/// The request of what cannot be over when it is posted.
#[track_caller]
fn pending(posted: Posted) -> RequestId {
    match posted {
        Posted::Pending(id) => id,
        over => panic!("it cannot be over: {over:?}"),
    }
}

/// Whether an operation is over, and well if it was when it was posted.
fn is_over(engine: &Engine, posted: &Posted) -> bool {
    match posted {
        Posted::Done(outcome) => outcome.is_ok(),
        Posted::Pending(id) => engine.cx.requests.is_over(*id),
    }
}

/// What becomes of an operation of the first of these endpoints.
#[track_caller]
fn outcome(engines: &mut [&mut Engine], posted: Posted) -> Outcome {
    let id = match posted {
        Posted::Pending(id) => id,
        Posted::Done(outcome) => return outcome,
    };
    let mut outcome = None;
    until(engines, |engines| {
        outcome = engines[0].test(id);
        outcome.is_some()
    });
    outcome.expect("it is over")
}

/// Gives a peer up that lives.
fn give_up(engine: &mut Engine, peer: u32) {
    let why = PeerFailure::Corrupt("for this test".to_owned());
    fail_peer(&mut engine.cx, peer, why);
}

/// What is said of a peer that has failed.
fn failed(peer: u32, why: PeerFailure) -> Error {
    why.of(Peer(peer))
}

/// Sends eight bytes at once.
fn send(from: &mut Engine, to: u32, tag: u64) {
    // SAFETY: it is done when the call returns, or the test fails.
    let posted = unsafe { post(from, to, tag, &[7_u8; 8]) };
    assert!(matches!(posted, Posted::Done(Ok(_))), "{posted:?}");
}

/// Sends messages until they come through a private ring of the receiver.
#[track_caller]
fn with_private_ring(from: &mut Engine, to: u32, receiver: &mut Engine) {
    let sender = known(receiver, from);
    wait_for(|| {
        send(from, to, 0);
        turn(&mut [receiver, from]);
        receiver.takes_receipts(sender)
    });
}

/// Attaches two endpoints to each other; gives the number of each at the other.
fn attach_both(a: &mut Engine, b: &mut Engine) -> (u32, u32) {
    let (of_b, of_a) = (known(a, b), known(b, a));
    while !a.attach(of_b).expect("alive") || !b.attach(of_a).expect("alive") {
        turn(&mut [a, b]);
    }
    (of_b, of_a)
}

/// Two endpoints that have met, and the number of each at the other.
fn meet(mut a: Engine, mut b: Engine) -> (Engine, Engine, u32, u32) {
    let (of_b, of_a) = attach_both(&mut a, &mut b);
    (a, b, of_b, of_a)
}

/// The same with so many private rings.
fn met(private_rings: u32) -> (Engine, Engine, u32, u32) {
    meet(open(private_rings), open(private_rings))
}

/// A region of 100 bytes of 1, which a peer is in the middle of accessing, and what ends that.
fn accessed_region(owner: &mut Engine, peer: &Engine) -> (RegionId, impl Fn() + use<>) {
    let (region, key) = regions::expose(&mut owner.cx, vec![1; 100]).expect("a region");
    let word = peer.cx.memory.segment.access();
    let announce = move |key| word.word64(0).store(key, Ordering::Release);
    announce(key);
    (region, move || announce(0))
}

/// A claim in the shared ring of `owner`, in the name of a peer: as of one that is preempted before
/// it publishes.
fn claimer(owner: &Engine, peer: u32) -> SharedProducer<Mapped> {
    let slots = owner.cx.memory.segment.shape().shared_slots;
    SharedProducer::new(owner.cx.memory.segment.shared_ring(), slots, peer).expect("a sender")
}

/// Begins to take a region back.
fn start_revoke(owner: &mut Engine, region: RegionId) -> crate::Result<()> {
    let segment = &owner.cx.memory.segment;
    owner.cx.regions.start_revoke(segment, region)
}

/// Tags of the messages of a peer that wait, oldest first.
fn tags(engine: &mut Engine, peer: u32) -> Vec<u64> {
    let selector = Selector::any_tag(Peer(peer));
    let mut found = Vec::new();
    while let Ok(Some((status, _))) = receive::claim(&mut engine.cx, &selector) {
        found.push(status.tag.0);
    }
    found
}

/// From here on as if the kernel gave no pidfd for a peer, as for one of another pid namespace.
fn without_pidfd(engine: &mut Engine, peer: u32) {
    for index in engine.cx.sockets.of_peer(peer) {
        let connection = engine.cx.sockets.get_mut(index);
        connection.expect("a connection").pidfd = None;
    }
}

/// The lines of a log.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Writes it.
    fn writer(&self) -> impl tracing::Subscriber + Send + Sync + use<> {
        let lines = Arc::clone(&self.0);
        OnEvent(move |event: &tracing::Event<'_>| {
            let mut lines = lines.lock().expect("no panic");
            event.record(
                &mut |_: &tracing::field::Field, value: &dyn core::fmt::Debug| {
                    lines.push(format!("{value:?}"));
                },
            );
        })
    }

    /// Lines with this text.
    fn count(&self, text: &str) -> usize {
        let lines = self.0.lock().expect("no panic");
        lines.iter().filter(|line| line.contains(text)).count()
    }
}

/// Does something for each event that is logged.
struct OnEvent<F>(F);

impl<F: Fn(&tracing::Event<'_>) + 'static> tracing::Subscriber for OnEvent<F> {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        (self.0)(event);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
