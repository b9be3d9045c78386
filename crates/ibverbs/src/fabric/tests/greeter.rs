//! Queues for greetings that fail, and what strangers send there.

use super::contact::{gives_up, greets_nobody, impatient};
use super::mending::settle_until;
use super::{Side, on, settle};
use crate::fake::{Nature, adapters, net};

/// Anybody on the network can send a datagram, as long as the adapters let through.
#[test]
fn a_long_datagram_of_a_stranger_ends_no_greetings() {
    adapters(&[Nature::PLAIN; 2]);
    let mut a = Side::open(1, on("fake0"));
    let mut b = Side::open(2, on("fake1"));
    net(|net| net.throw(0, 4096));
    b.connect(&a);
    settle(&mut [&mut a, &mut b]);
    assert_eq!((a.connected.len(), b.connected.len()), (1, 1));
}

#[test]
fn a_queue_for_greetings_that_has_failed_is_made_anew() {
    for greets_before in [false, true] {
        adapters(&[Nature::PLAIN; 3]);
        let mut a = Side::open(1, on("fake0"));
        let mut b = Side::open(2, on("fake1"));
        let mut c = Side::open(3, on("fake2"));
        if greets_before {
            a.connect(&b);
        }
        net(|net| net.spoil(0));
        settle(&mut [&mut a]);
        if !greets_before {
            b.connect(&a);
        }
        settle_until(&mut [&mut a, &mut b], "the first contact", |sides| {
            sides.iter().all(|side| side.connected.len() == 1)
        });
        // That it had to be made anew once does not count for ever.
        net(|net| net.spoil(0));
        settle(&mut [&mut a]);
        c.connect(&a);
        settle_until(&mut [&mut a, &mut c], "the second contact", |sides| {
            sides[0].connected.len() == 2 && sides[1].connected.len() == 1
        });
    }
}

/// Until they do: then peers meet.
#[test]
fn greetings_that_do_not_get_out_hold_nobody_up() {
    adapters(&[Nature::PLAIN; 2]);
    let mut a = greets_nobody(impatient("fake0"));
    net(|net| net.spoilt = Some(0));
    gives_up(&mut a, "LIMIC_VERBS_GREETING_MS");
    settle_until(&mut [&mut a], "a pause, and an end of it", |sides| {
        sides[0].fabric.longest_sleep().is_some()
    });
    net(|net| net.spoilt = None);
    let mut b = Side::open(2, on("fake1"));
    b.connect(&a);
    settle_until(&mut [&mut a, &mut b], "a connection", |sides| {
        sides[1].connected.len() == 1
    });
}
