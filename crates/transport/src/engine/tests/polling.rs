//! A caller that polls in a loop.

use core::time::Duration;

use super::{
    Log, attach_both, open, open_with, pending, post_receive, send, turns, until, with_private_ring,
};
use crate::Peer;
use crate::engine::{Engine, SOCKETS_WHILE_BUSY};

#[test]
fn who_polls_in_vain_for_long_says_once_for_what() {
    let mut engine = open_with(|settings| settings.patience(Duration::from_millis(1)));
    let mut other = open(0);
    let (of_other, _) = attach_both(&mut engine, &mut other);
    let (log, line) = (
        Log::default(),
        format!("recv of tag 5 from peer {of_other}"),
    );
    let poll = |engine: &mut Engine| {
        for _ in 0..5000 {
            engine.poll();
        }
    };
    tracing::subscriber::with_default(log.writer(), || {
        for _ in 0..100 {
            poll(&mut engine);
        }
        assert_eq!(log.count("calls that poll"), 0, "it waits for nothing");
        // SAFETY: no room.
        pending(unsafe { post_receive(&mut engine, (Peer(of_other), 5), &mut []) });
        until(&mut [&mut engine], |engines| {
            poll(engines[0]);
            log.count(&line) > 0
        });
        for _ in 0..10 {
            poll(&mut engine);
        }
    });
    assert_eq!(log.count(&line), 1);
}

#[test]
fn an_endpoint_that_knows_nobody_polls_as_others_do() {
    let mut engine = open(1);
    for _ in 0..2 * SOCKETS_WHILE_BUSY {
        assert!(!engine.poll());
    }
}

/// A wait may give the processor away after any turn there, also if private rings have delivered.
#[test]
fn where_processors_are_shared_each_turn_takes_from_all_rings() {
    let mut reader = open(1);
    let [mut often, mut seldom] = [(); 2].map(|()| open(0));
    let (_, at_often) = attach_both(&mut reader, &mut often);
    let (_, at_seldom) = attach_both(&mut reader, &mut seldom);
    with_private_ring(&mut often, at_often, &mut reader);
    turns(10, &mut [&mut reader, &mut often, &mut seldom]);
    reader.cx.wakeup.set_oversubscribed(true);
    for _ in 0..3 {
        let before = reader.cx.matching.kept();
        send(&mut often, at_often, 1);
        send(&mut seldom, at_seldom, 1);
        reader.progress();
        assert_eq!(reader.cx.matching.kept(), before + 2);
    }
}
