//! All safe calls of endpoints in any order: two or three endpoints of one thread, whose calls a
//! property test picks. No call panics or hangs, and what comes out is what the model allows.
//!
//! Calls that wait are made where nobody else has to answer: with one thread, nobody would. What
//! has to end is driven to its end by the progress of all endpoints.
//!
//! `LIMIC_TEST_CASES` says how many cases there are.

#![forbid(unsafe_code)]

mod calls;
mod era;
mod finish;
mod made_up;
mod model;
mod raw;
mod waits;

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use limic::settings::{Path, PathSet, Settings};
use limic::{Endpoint, HybridEndpoint};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use era::Era;
use made_up::MadeUp;
use model::Model;
use raw::Raw;
use waits::Waits;

/// Far longer than a case takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Calls of the case that have returned.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Which message or which handle, among those that there are.
type Which = usize;

/// A call. Endpoints are numbered by their place; which of the handles is meant is taken modulo
/// their number.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Connect(usize, usize),
    Send(usize, Sent),
    /// So many short messages, for which peers get rings of their own.
    Burst(usize, Sent, usize),
    Receive(usize, Asked, usize),
    TestSend(Which),
    TestReceive(Which),
    CancelSend(Which),
    CancelReceive(Which),
    DropSend(Which),
    DropReceive(Which),
    Probe(usize, Asked),
    Claim(usize, Asked, bool),
    Borrow(usize, usize),
    SendLoan(Which, usize, u64),
    ReturnLoan(Which),
    TakeLoaned(usize, Asked),
    DropLoaned(Which),
    Expose(usize, usize),
    Access(usize, Which, (usize, usize), bool, Way),
    WriteAt(Which, usize, usize),
    CopyTo(Which, usize, usize),
    Revoke(Which),
    Progress(usize),
    Sleep(usize),
    Arm(usize),
    Close(usize),
    Scope(usize, Vec<Scoped>, Vec<(Raw, Which)>, End),
    Raw(usize, Raw, Which),
    Waits(usize, Waits, Asked, usize),
    MadeUp(usize, MadeUp, Asked, (Which, usize, usize)),
}

/// How a region is accessed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Handle,
    Scope,
    /// By a call that waits, if it is an own one.
    Waits,
}

/// To whom, under which tag, and how long.
pub(crate) type Sent = (usize, u64, usize);

/// From whom, and under which tag.
pub(crate) type Asked = (Option<usize>, Option<u64>);

/// A request within a scope.
#[derive(Clone, Debug)]
pub(crate) enum Scoped {
    /// In one piece, or in three.
    Send(Sent, bool),
    Receive(Asked, usize),
}

/// How the body of a scope ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Done,
    Error,
    Panic,
}

/// Calls between two changes of who is there: then the endpoint at a place is dropped, and another
/// one is opened there.
type Part = (Vec<Call>, usize);

fn place() -> impl Strategy<Value = usize> {
    0..3_usize
}

/// Lengths of each way to send, as they begin.
fn length() -> impl Strategy<Value = usize> {
    prop::sample::select(vec![0, 8, 40, 200, 900, 6000, 40_000, 150_000, 600_000])
}

fn room() -> impl Strategy<Value = usize> {
    prop_oneof![1 => length(), 2 => Just(1 << 20)]
}

fn sent() -> impl Strategy<Value = Sent> {
    (place(), 0..3_u64, length())
}

fn asked() -> impl Strategy<Value = Asked> {
    (prop::option::of(place()), prop::option::of(0..3_u64))
}

fn raw() -> impl Strategy<Value = Raw> {
    prop_oneof![
        3 => (any::<bool>(), any::<bool>())
            .prop_map(|(new_owner, fails)| Raw::Enter { new_owner, fails }),
        10 => prop::sample::select(vec![
            Raw::IsDone,
            Raw::Test,
            Raw::Wait,
            Raw::WaitAny,
            Raw::Cancel,
            Raw::Watch,
            Raw::Abandon,
            Raw::OwnedBy,
            Raw::Watched,
            Raw::NextCompleted,
        ]),
    ]
}

fn waits() -> impl Strategy<Value = Waits> {
    prop::sample::select(vec![
        Waits::Send,
        Waits::SendVectored,
        Waits::SendBuffer,
        Waits::SendRecv,
        Waits::Recv,
        Waits::RecvVectored,
        Waits::RecvTimeout,
        Waits::RecvTooLong,
        Waits::Probe,
        Waits::Any,
        Waits::Some,
        Waits::All,
    ])
}

fn made_up() -> impl Strategy<Value = MadeUp> {
    prop::sample::select(vec![
        MadeUp::Expose,
        MadeUp::ReadRegion,
        MadeUp::WriteRegion,
        MadeUp::Revoke,
        MadeUp::Peek,
        MadeUp::Claim,
        MadeUp::BorrowLoan,
        MadeUp::TakeLoan,
        MadeUp::ReserveTags,
        MadeUp::TakeReserved,
        MadeUp::KeepAnySourceReceives,
    ])
}

fn call() -> impl Strategy<Value = Call> {
    let which = || 0..64_usize;
    let scoped = prop_oneof![
        (sent(), any::<bool>()).prop_map(|(sent, parted)| Scoped::Send(sent, parted)),
        (asked(), room()).prop_map(|(asked, room)| Scoped::Receive(asked, room)),
    ];
    let calls = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec((raw(), which()), 0..6),
    ];
    let way = prop::sample::select(vec![Way::Handle, Way::Scope, Way::Waits]);
    let end = prop::sample::select(vec![End::Done, End::Error, End::Panic]);
    prop_oneof![
        1 => (place(), place()).prop_map(|(at, to)| Call::Connect(at, to)),
        8 => (place(), sent()).prop_map(|(at, sent)| Call::Send(at, sent)),
        3 => (place(), sent(), 2..40_usize)
            .prop_map(|(at, sent, count)| Call::Burst(at, sent, count)),
        8 => (place(), asked(), room()).prop_map(|(at, asked, room)| Call::Receive(at, asked, room)),
        2 => which().prop_map(Call::TestSend),
        2 => which().prop_map(Call::TestReceive),
        2 => which().prop_map(Call::CancelSend),
        2 => which().prop_map(Call::CancelReceive),
        1 => which().prop_map(Call::DropSend),
        1 => which().prop_map(Call::DropReceive),
        2 => (place(), asked()).prop_map(|(at, asked)| Call::Probe(at, asked)),
        2 => (place(), asked(), any::<bool>()).prop_map(|(at, asked, take)| Call::Claim(at, asked, take)),
        2 => (place(), length()).prop_map(|(at, len)| Call::Borrow(at, len)),
        2 => (which(), place(), 0..3_u64).prop_map(|(loan, to, tag)| Call::SendLoan(loan, to, tag)),
        1 => which().prop_map(Call::ReturnLoan),
        2 => (place(), asked()).prop_map(|(at, asked)| Call::TakeLoaned(at, asked)),
        1 => which().prop_map(Call::DropLoaned),
        1 => (place(), length()).prop_map(|(at, len)| Call::Expose(at, len)),
        3 => (place(), which(), (length(), length()), any::<bool>(), way)
            .prop_map(|(at, region, range, write, way)| Call::Access(at, region, range, write, way)),
        1 => which().prop_map(Call::Revoke),
        6 => place().prop_map(Call::Progress),
        1 => place().prop_map(Call::Sleep),
        1 => place().prop_map(Call::Arm),
        1 => prop::sample::select(vec![None, None, None, Some(0), Some(1)])
            .prop_map(|at| at.map_or(Call::Progress(0), Call::Close)),
        3 => (place(), prop::collection::vec(scoped, 0..5), calls, end)
            .prop_map(|(at, requests, calls, end)| Call::Scope(at, requests, calls, end)),
        6 => (place(), raw(), which()).prop_map(|(at, raw, which)| Call::Raw(at, raw, which)),
        1 => (which(), length(), length())
            .prop_map(|(region, offset, len)| Call::WriteAt(region, offset, len)),
        1 => (which(), length(), length())
            .prop_map(|(loaned, offset, len)| Call::CopyTo(loaned, offset, len)),
        6 => (place(), waits(), asked(), length())
            .prop_map(|(at, waits, asked, len)| Call::Waits(at, waits, asked, len)),
        6 => (place(), made_up(), asked(), (which(), length(), length()))
            .prop_map(|(at, call, asked, range)| Call::MadeUp(at, call, asked, range)),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    (prop::collection::vec(call(), 1..60), place())
}

/// Kinds of settings that take other ways through the engine. With the second one, senders ask
/// first, so that short messages are not at hand once they have arrived.
const KINDS: u32 = 6;
const ASKS_FIRST: u32 = 1;

fn settings(kind: u32) -> Settings {
    let settings = Settings::builder().without_environment();
    let settings = match kind {
        0 => {
            let few = settings.private_rings(1).shared_slots(8);
            few.ring_bytes(4096).staging_buffers(4)
        }
        ASKS_FIRST => settings.eager_max(1024),
        2 => settings.long_path(Path::Cma),
        3 => settings.allowed(PathSet::ALL.without(Path::Cma)),
        _ => settings,
    };
    let budget = if kind == ASKS_FIRST {
        64 << 10
    } else {
        1 << 30
    };
    let settings = settings
        .linger(Duration::ZERO)
        .unexpected_budget_bytes(budget);
    settings.build().expect("settings that are possible")
}

/// The same few cases each time, so that a change is to blame for what they find; or as many others
/// as are wanted.
fn config() -> ProptestConfig {
    let wanted = std::env::var("LIMIC_TEST_CASES").ok();
    let wanted = wanted.and_then(|text| text.parse().ok());
    ProptestConfig {
        cases: wanted.unwrap_or(48),
        rng_seed: wanted.map_or(RngSeed::Fixed(1), |_| RngSeed::Random),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn run(kind: u32, parts: &[Part]) {
    let settings = settings(kind);
    let open = || HybridEndpoint::with(settings.clone()).expect("an endpoint opens");
    let mut model = Model::default();
    let mut endpoints: Vec<_> = (0..3).map(|_| open()).collect();
    let mut names: Vec<usize> = endpoints
        .iter()
        .map(|endpoint: &HybridEndpoint| model.open(endpoint.address()))
        .collect();
    let mut loaned = Vec::new();
    for (calls, leaver) in parts {
        let mut era = Era::new(
            &endpoints,
            &names,
            &mut model,
            &mut loaned,
            kind != ASKS_FIRST,
        );
        for call in calls {
            era.make(call);
            CALLS.fetch_add(1, Ordering::Relaxed);
        }
        era.finish();
        model.check_order();
        model.leave(names[*leaver]);
        // The old one is dropped here.
        endpoints[*leaver] = open();
        names[*leaver] = model.open(endpoints[*leaver].address());
    }
    let closed = endpoints.into_iter().map(|endpoint| endpoint.close());
    assert_eq!(closed.count(), 3);
    // What was received where it lies outlives its sender.
    loaned.drain(..).for_each(era::check_loaned);
}

/// Runs a case; one that hangs ends the whole test, and is shown.
fn watched(kind: u32, parts: &[Part]) {
    let (done, over) = channel::<()>();
    let shown = format!("kind {kind}: {parts:?}");
    CALLS.store(0, Ordering::Relaxed);
    let guard = std::thread::spawn(move || {
        if over.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            let calls = CALLS.load(Ordering::Relaxed);
            // Not what the test harness keeps until the test is over.
            let mut stderr = std::io::stderr();
            let _shown = writeln!(stderr, "it hangs behind {calls} calls of {shown}");
            std::process::abort();
        }
    });
    run(kind, parts);
    drop(done);
    guard.join().expect("the watchdog does not panic");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn safe_calls_in_any_order_keep_the_promises_of_endpoints(
        kind in 0..KINDS,
        parts in prop::collection::vec(part(), 1..3),
    ) {
        watched(kind, &parts);
    }
}
