//! A panic of the application's code never leaves an endpoint with a pointer to a buffer that is
//! gone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use limic::raw::{Messages, Posted, RawSlice, Requests};
use limic::{Endpoint, HybridEndpoint, Tag};
use limic_tests::{Cast, check, content};

const LONG: u64 = 1;
const SHORT: u64 = 2;
const BYTES: usize = 1 << 20;

/// The buffer of a long send, and a `Drop` that goes wrong.
struct PanicsOnDrop(#[expect(dead_code, reason = "kept until the send is over")] Vec<u8>);

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("the Drop of an abandoned buffer");
    }
}

#[test]
fn a_drop_that_panics_does_not_unwind_out_of_a_receive() {
    let cast = Cast::new("a_drop_that_panics_does_not_unwind_out_of_a_receive");
    cast.run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let other = rank.connect(&endpoint)[1 - rank.rank as usize];
        let mut short = [0; 64];
        if rank.rank == 0 {
            let long = content(rank.seed, BYTES);
            // SAFETY: the bytes go with the request, and are dropped when it is over.
            let posted =
                unsafe { endpoint.post_send(other, Tag(LONG), &[RawSlice::from(&long[..])]) };
            let Ok(Posted::Pending(id)) = posted else {
                panic!("a long message waits for its receiver: {posted:?}");
            };
            endpoint.abandon(id, Box::new(PanicsOnDrop(long)));
            rank.link.meet(&endpoint);
            // The send is over, and its buffer dropped, while this waits.
            let status = endpoint
                .recv((other, SHORT), &mut short)
                .expect("a message");
            assert_eq!(status.len, 64);
            check(rank.seed, &short);
        } else {
            rank.link.meet(&endpoint);
            let mut long = vec![0; BYTES];
            endpoint.recv((other, LONG), &mut long).expect("a message");
            check(rank.seed, &long);
            // The other rank has seen the end of its send before this comes.
            endpoint
                .send(other, SHORT, &content(rank.seed, 64))
                .expect("sent");
        }
        rank.link.meet(&endpoint);
    });
}

/// What is no tag.
struct NoTag;

impl From<NoTag> for Tag {
    fn from(_: NoTag) -> Self {
        panic!("as wanted");
    }
}

#[test]
fn a_tag_that_panics_does_not_keep_the_loan() {
    let endpoint = HybridEndpoint::open().expect("open");
    let me = endpoint.myself();
    let place = || endpoint.loan(1 << 20).expect("a loan").as_ptr();
    let before = place();
    for at_once in [true, false] {
        let loan = endpoint.loan(1 << 20).expect("a loan");
        let send = AssertUnwindSafe(|| {
            if at_once {
                return loan.send(me, NoTag);
            }
            loan.isend(me, NoTag).map(drop)
        });
        catch_unwind(send).expect_err("it panics");
        assert_eq!(place(), before);
    }
}

/// A log subscriber that panics at each event.
struct Panics;

impl tracing::Subscriber for Panics {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        panic!("a log subscriber");
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// Receives for ever, with a subscriber that panics when the peer's failure is logged.
const CHILD: &str = "LIMIC_TEST_PANICKING_SUBSCRIBER";

#[test]
fn a_log_subscriber_that_panics_ends_the_process() {
    if std::env::var_os(CHILD).is_some() {
        let gone = HybridEndpoint::open().expect("open").address();
        let endpoint = HybridEndpoint::open().expect("open");
        let gone = endpoint.connect(&gone.to_bytes()).expect("an address");
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tracing::subscriber::with_default(Panics, || {
                let mut buffer = [0; 8];
                let _ = endpoint.send(gone, 1, &[0; 1 << 20]);
                let _ = endpoint.recv((gone, 1), &mut buffer);
            });
        }));
        panic!("it goes on: {}", caught.is_ok());
    }
    let output = std::process::Command::new(std::env::current_exe().expect("a path"))
        .args([
            "a_log_subscriber_that_panics_ends_the_process",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .output()
        .expect("the test binary starts again");
    let text = String::from_utf8_lossy(&output.stderr);
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(libc::SIGABRT), "{text}");
    assert!(text.contains("cannot unwind"), "{text}");
}
