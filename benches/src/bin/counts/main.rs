//! The hot paths, each in a function of its own, for `cargo xtask counts`: callgrind counts the
//! instructions of each call of a function of `counted`, and writes them down under the case's
//! name.
//!
//! Prints what the counts depend on, and the number of operations of one call. Without callgrind it
//! prints the same and measures nothing.

mod callgrind;
mod counted;

use std::ffi::CString;

use limic::{Endpoint, Result, Settings};
use limic_benches::{Pair, TAG};
use limic_matching::{HeapMatcher, Selector, Source};
use limic_policy::{Locality, Query};
use limic_shm::ring::{LineConsumer, LineProducer, SharedConsumer, SharedProducer, heap};
use limic_shm::ring::{line, shared};

/// Operations of one call. A quarter of the direct receives between two turns of everything else,
/// so that most calls hold no such turn.
const OPERATIONS: usize = 16;
/// Calls of each function; the least one counts, since now and then one has more to do.
const CALLS: usize = 8;

fn main() -> Result<()> {
    println!("features: {}", features());
    println!("operations: {OPERATIONS}");
    messages(&Pair::open()?)?;
    matching();
    policy();
    rings();
    Ok(())
}

/// Calls a function and has its instructions written down.
#[inline(always)]
fn count<T>(name: &str, counted: impl FnOnce() -> T) -> T {
    let name = CString::new(name).unwrap_or_default();
    callgrind::zero();
    let result = counted();
    callgrind::dump(&name);
    result
}

/// The calls of one case; `prepare` before each and `tidy` after it.
fn calls(
    name: &str,
    mut prepare: impl FnMut() -> Result<()>,
    mut counted: impl FnMut() -> Result<()>,
    mut tidy: impl FnMut() -> Result<()>,
) -> Result<()> {
    for _ in 0..CALLS {
        prepare()?;
        count(name, &mut counted)?;
        tidy()?;
    }
    Ok(())
}

fn nothing() -> Result<()> {
    Ok(())
}

fn messages(pair: &Pair) -> Result<()> {
    let small = [1_u8; 8];
    let large = [1_u8; 1024];
    for (len, message) in [("8", &small[..]), ("64", &large[..64]), ("1K", &large[..])] {
        let room = &mut [0_u8; 1024][..message.len()];
        calls(
            &format!("send {len}"),
            nothing,
            || counted::send(pair, message, OPERATIONS),
            || pair.empty(OPERATIONS, room),
        )?;
        let room = &mut [0_u8; 1024][..message.len()];
        calls(
            &format!("receive {len}, direct"),
            || pair.fill(OPERATIONS, message),
            || counted::receive(pair, room, OPERATIONS),
            nothing,
        )?;
        calls(
            &format!("receive {len}, unexpected"),
            || {
                pair.fill(OPERATIONS, message)?;
                pair.take_in(OPERATIONS as u64);
                Ok(())
            },
            || counted::receive(pair, room, OPERATIONS),
            nothing,
        )?;
        posted(pair, len, message)?;
    }
    answers(pair, "1K", &large)?;
    answers(pair, "16K", &[1; 16 << 10])?;
    let (back, room) = (&mut [0_u8; 1024], &mut [0_u8; 1024]);
    calls(
        "receive answer 1K, direct",
        || {
            pair.back(OPERATIONS, &large, back)?;
            pair.fill(OPERATIONS, &large)
        },
        || counted::receive(pair, room, OPERATIONS),
        nothing,
    )?;
    let room = &mut [0_u8; 8];
    calls(
        "arrive 8, unexpected",
        || pair.fill(OPERATIONS, &small),
        || {
            counted::take_in(pair, OPERATIONS);
            Ok(())
        },
        || pair.empty(OPERATIONS, room),
    )?;
    loans(pair)?;
    calls(
        "progress, nothing there",
        nothing,
        || {
            counted::progress(&pair.receiver, OPERATIONS);
            Ok(())
        },
        nothing,
    )
}

/// Messages that answer others: in the pieces in which those came.
fn answers(pair: &Pair, name: &str, message: &[u8]) -> Result<()> {
    let [mut back, mut room] = [message, message].map(<[u8]>::to_vec);
    calls(
        &format!("answer {name}"),
        || pair.back(OPERATIONS, message, &mut back),
        || counted::send(pair, message, OPERATIONS),
        || pair.empty(OPERATIONS, &mut room),
    )
}

/// Loans, there and taken in place: from a first buffer on, which hands over the memory that they
/// lie in.
fn loans(pair: &Pair) -> Result<()> {
    const LEN: usize = 1 << 20;
    let take = || counted::take_loans(pair, OPERATIONS);
    counted::send_loans(pair, LEN, OPERATIONS)?;
    take()?;
    calls(
        "loan and send 1M",
        nothing,
        || counted::send_loans(pair, LEN, OPERATIONS),
        take,
    )?;
    calls(
        "take loan 1M",
        || counted::send_loans(pair, LEN, OPERATIONS),
        take,
        nothing,
    )
}

/// Posting receives, and completing them.
fn posted(pair: &Pair, len: &str, message: &[u8]) -> Result<()> {
    for what in ["post", "complete"] {
        for _ in 0..CALLS {
            let mut rooms = [[0_u8; 1024]; OPERATIONS];
            pair.receiver.scope(|scope| {
                let mut requests = [const { None }; OPERATIONS];
                if what == "post" {
                    count(&format!("post {len}"), || {
                        counted::post(scope, pair.from, &mut rooms, message.len(), &mut requests)
                    })?;
                    pair.fill(OPERATIONS, message)?;
                    requests
                        .into_iter()
                        .flatten()
                        .try_for_each(|request| request.wait().map(drop))
                } else {
                    for (request, room) in requests.iter_mut().zip(&mut rooms) {
                        *request = Some(scope.irecv((pair.from, TAG), &mut room[..message.len()])?);
                    }
                    pair.fill(OPERATIONS, message)?;
                    count(&format!("complete {len}"), || counted::complete(requests))
                }
            })?;
        }
    }
    Ok(())
}

fn matching() {
    let exact = Selector {
        source: Source::Is(3),
        tag: 7,
        mask: !0,
    };
    let wildcard = Selector {
        source: Source::Any,
        tag: 0,
        mask: !0xff,
    };
    for (name, selector) in [("exact", exact), ("wildcard", wildcard)] {
        let Ok(mut matcher) = HeapMatcher::with_capacity(128, 128) else {
            return;
        };
        for _ in 0..CALLS {
            count(&format!("match {name}, posted"), || {
                counted::match_posted(&mut matcher, &selector, OPERATIONS);
            });
        }
        for _ in 0..CALLS {
            count(&format!("match {name}, unexpected"), || {
                counted::match_unexpected(&mut matcher, &selector, OPERATIONS);
            });
        }
    }
}

fn policy() {
    let settings = Settings::default();
    let query = Query::new(100_000, Locality::SharedCache);
    for _ in 0..CALLS {
        count("policy look-up", || {
            counted::look_up(settings.policy(), &query, OPERATIONS);
        });
    }
    for _ in 0..CALLS {
        count("size class", || {
            counted::size_classes(OPERATIONS);
        });
    }
}

fn rings() {
    const LINES: u32 = 1024;
    const SLOTS: u32 = 256;
    let mem = heap(line::area_len(LINES));
    if let (Ok(mut producer), Ok(mut consumer)) = (
        LineProducer::new(mem.clone(), LINES),
        LineConsumer::new(mem, LINES),
    ) {
        for _ in 0..CALLS {
            count("private ring push 8", || {
                counted::push_line(&mut producer, OPERATIONS);
            });
            count("private ring pop 8", || {
                counted::pop_line(&mut consumer, OPERATIONS);
            });
        }
    }
    let mem = heap(shared::area_len(SLOTS));
    if let (Ok(mut producer), Ok(mut consumer)) = (
        SharedProducer::new(mem.clone(), SLOTS, 1),
        SharedConsumer::new(mem, SLOTS),
    ) {
        for _ in 0..CALLS {
            count("shared ring push 8", || {
                counted::push_shared(&mut producer, OPERATIONS);
            });
            count("shared ring pop 8", || {
                counted::pop_shared(&mut consumer, OPERATIONS);
            });
        }
    }
}

/// What the processor offers that changes which instructions run; callgrind has its own.
fn features() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            "x86-64 with avx512f"
        } else if std::arch::is_x86_feature_detected!("avx2") {
            "x86-64 with avx2"
        } else if std::arch::is_x86_feature_detected!("avx") {
            "x86-64 with avx"
        } else {
            "x86-64"
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::env::consts::ARCH
}
