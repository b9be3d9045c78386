//! Sends that follow each other at once go together over TCP.

use std::time::Instant;

use super::networks::listening;
use super::{attach_both, in_child, meet, send, tags, until};
use crate::engine::Engine;
use crate::engine::fabric::WITHIN;
use crate::engine::request::sent;
use crate::raw::{Posted, RawSlice, SendOptions};
use crate::settings::FabricUse;

fn over_tcp() -> Engine {
    listening(FabricUse::TcpOnly)
}

/// A send that is waited for later.
fn start(from: &mut Engine, to: u32, tag: u64) {
    let data = [7_u8; 8];
    let options = SendOptions::WAITED_FOR_LATER;
    // SAFETY: it is done when the call returns, or the test fails.
    let posted = unsafe { from.post_send(to, tag, options, &[RawSlice::from(&data[..])]) };
    assert!(matches!(posted, Ok(Posted::Done(Ok(_)))), "{posted:?}");
}

/// Sends until the last one waits: mostly that is the second. Gives the next tag.
fn start_some(from: &mut Engine, to: u32, mut tag: u64) -> u64 {
    from.progress();
    start(from, to, tag);
    assert!(!from.holds_messages(), "the first one goes at once");
    while !from.holds_messages() {
        tag += 1;
        start(from, to, tag);
    }
    tag + 1
}

#[test]
fn those_that_follow_wait_until_a_call_lets_them_go() {
    let (mut one, mut other, there, here) = meet(over_tcp(), over_tcp());
    let mut third = over_tcp();
    let (of_third, _) = attach_both(&mut one, &mut third);

    let next = start_some(&mut one, there, 0);
    one.progress();
    assert!(!one.holds_messages(), "progress was made");

    let next = start_some(&mut one, there, next);
    one.flush_pending();
    assert!(!one.holds_messages(), "it was waited for");

    let next = start_some(&mut one, there, next);
    let over = one.cx.requests.insert_done(sent(there, next, 8), 0);
    assert!(one.test(over).is_some());
    assert!(!one.holds_messages(), "it was tested");

    let next = start_some(&mut one, there, next);
    send(&mut one, there, next);
    assert!(!one.holds_messages(), "one went that does not wait");

    let next = start_some(&mut one, there, next + 1);
    start(&mut one, of_third, 0);
    assert!(!one.holds_messages(), "another peer had its turn");

    let next = start_some(&mut one, there, next);
    let begun = Instant::now();
    while begun.elapsed() < WITHIN {}
    start(&mut one, there, next);
    assert!(!one.holds_messages(), "time has passed");

    let mut came = Vec::new();
    until(&mut [&mut one, &mut other], |engines| {
        came.extend(tags(engines[1], here));
        came.len() as u64 > next
    });
    assert!(came.into_iter().eq(0..=next));
}

#[test]
fn an_endpoint_that_closes_lets_them_go() {
    let (mut one, mut other, there, here) = meet(over_tcp(), over_tcp());
    let next = start_some(&mut one, there, 0);
    one.close();
    let mut came = Vec::new();
    until(&mut [&mut other], |engines| {
        came.extend(tags(engines[0], here));
        came.len() as u64 == next
    });
    assert!(came.into_iter().eq(0..next));
}

/// The child has a copy of what waits, and of the socket.
#[test]
fn a_forked_child_lets_nothing_go() {
    let (mut one, mut other, there, here) = meet(over_tcp(), over_tcp());
    let next = start_some(&mut one, there, 0);
    in_child(|| {
        one.flush_pending();
    });
    start(&mut one, there, next);
    one.flush_pending();
    let mut came = Vec::new();
    until(&mut [&mut one, &mut other], |engines| {
        came.extend(tags(engines[1], here));
        came.contains(&next)
    });
    assert!(came.into_iter().eq(0..=next), "each once");
}
