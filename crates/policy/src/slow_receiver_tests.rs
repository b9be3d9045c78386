//! The lag of a receiver, as senders and receivers see it.

use proptest::prelude::*;

use super::*;

/// A receiver that takes one message after the other, `gap_ns` apart, out of a queue that its
/// sender keeps `deep`.
fn consume(
    lag: &mut SlowReceiver,
    clock: &mut u64,
    messages: u32,
    deep: u32,
    gap_ns: u64,
) -> Vec<ReceiverPace> {
    let mut told = Vec::new();
    for _ in 0..messages {
        while lag.waiting < deep {
            lag.unexpected_arrived(|| *clock);
        }
        *clock += gap_ns;
        told.extend(lag.taken(0, *clock));
        lag.active(*clock);
    }
    told
}

#[test]
fn a_slow_consumer_lags_and_a_quick_one_ends_it() {
    let (mut lag, mut clock) = (SlowReceiver::default(), 1_000_000);
    let told = consume(&mut lag, &mut clock, 64, 32, 10_000);
    assert_eq!(told, [ReceiverPace::Slow]);
    assert_eq!(lag.pace(), ReceiverPace::Slow);
    let told = consume(&mut lag, &mut clock, 64, 32, 1_000);
    assert_eq!(told, [ReceiverPace::Steady]);
    // Once is enough: the sender is not told again and again.
    assert!(consume(&mut lag, &mut clock, 1000, 32, 1_000).is_empty());
}

#[test]
fn a_stream_at_full_bandwidth_is_no_skew() {
    let (mut lag, mut clock) = (SlowReceiver::default(), 0);
    assert!(consume(&mut lag, &mut clock, 10_000, 64, LATE_NS - 1).is_empty());
    // Long copies are work, not lag.
    for _ in 0..1000 {
        while lag.waiting < 64 {
            lag.unexpected_arrived(|| clock);
        }
        assert_eq!(lag.taken(0, clock), None);
        clock += 50 * LATE_NS;
        lag.active(clock);
    }
}

#[test]
fn a_receiver_that_waits_for_its_sender_does_not_lag() {
    let (mut lag, mut clock) = (SlowReceiver::default(), 0);
    assert!(consume(&mut lag, &mut clock, 10_000, 1, 50_000).is_empty());
    assert_eq!(lag.was_posted(), None);
    assert_eq!(
        lag,
        SlowReceiver {
            idle_since_ns: clock,
            ..SlowReceiver::default()
        }
    );
}

#[test]
fn what_the_sender_counts_is_believed_where_the_ring_hides_it() {
    let (mut lag, mut clock) = (SlowReceiver::default(), 0);
    let mut told = Vec::new();
    for _ in 0..ENTER {
        lag.unexpected_arrived(|| clock);
        clock += 10_000;
        told.extend(lag.taken(LONG, clock));
    }
    assert_eq!(told, [ReceiverPace::Slow]);
}

#[test]
fn a_few_messages_of_the_other_kind_change_nothing() {
    let (mut lag, mut clock) = (SlowReceiver::default(), 0);
    // A pause now and then: one in three messages late.
    for _ in 0..200 {
        assert!(consume(&mut lag, &mut clock, 1, 8, 10_000).is_empty());
        assert!(consume(&mut lag, &mut clock, 2, 8, 1_000).is_empty());
    }
    consume(&mut lag, &mut clock, 64, 8, 10_000);
    assert_eq!(lag.pace(), ReceiverPace::Slow);
    for _ in 0..200 {
        assert!(consume(&mut lag, &mut clock, 2, 8, 10_000).is_empty());
        assert!(consume(&mut lag, &mut clock, 1, 8, 1_000).is_empty());
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrived,
    Taken { behind: u32 },
    Expected,
    Withdrawn,
    AtWork,
}

fn events() -> impl Strategy<Value = Vec<(Event, u64)>> {
    let event = prop_oneof![
        4 => Just(Event::Arrived),
        4 => (0..80_u32).prop_map(|behind| Event::Taken { behind }),
        2 => Just(Event::Expected),
        1 => Just(Event::Withdrawn),
        2 => Just(Event::AtWork),
    ];
    proptest::collection::vec((event, 0..20_000_u64), 0..400)
}

proptest! {
    /// Against a model that keeps the whole history: the state follows from the late messages
    /// alone, it changes only when a message is taken or expected, and never twice within fewer
    /// messages than hysteresis asks for.
    #[test]
    fn the_state_machine_keeps_its_promises(events in events()) {
        let mut lag = SlowReceiver::default();
        let (mut now, mut waiting, mut idle_since) = (0_u64, 0_u32, 0_u64);
        let (mut judged_since_change, mut skewed) = (u32::from(ENTER), false);
        for (event, passes) in events {
            now += passes;
            let change = match event {
                Event::Arrived => {
                    lag.unexpected_arrived(|| now);
                    waiting += 1;
                    if waiting == LONG {
                        idle_since = idle_since.max(now);
                    }
                    None
                }
                Event::Taken { behind } => {
                    let late = waiting.max(behind) >= LONG && now - idle_since >= LATE_NS;
                    let before = lag.bucket;
                    let change = lag.taken(behind, now);
                    if change.is_none() {
                        prop_assert_eq!(late, lag.bucket > before || (before == FULL && lag.bucket == FULL));
                    }
                    waiting = waiting.saturating_sub(1);
                    idle_since = now;
                    judged_since_change += 1;
                    change
                }
                Event::Expected => {
                    judged_since_change += 1;
                    lag.was_posted()
                }
                Event::Withdrawn => {
                    lag.withdrawn();
                    waiting = waiting.saturating_sub(1);
                    None
                }
                Event::AtWork => {
                    lag.active(now);
                    idle_since = idle_since.max(now);
                    None
                }
            };
            prop_assert_eq!(lag.waiting, waiting);
            prop_assert!(lag.bucket <= FULL);
            if let Some(skew) = change {
                prop_assert_eq!(skew, lag.pace());
                prop_assert!(skewed != (skew == ReceiverPace::Slow), "told what it knew");
                let least = if skewed { u32::from(FULL) } else { u32::from(ENTER) };
                prop_assert!(judged_since_change >= least, "flapped after {}", judged_since_change);
                skewed = !skewed;
                judged_since_change = 0;
            }
            prop_assert_eq!(skewed, lag.pace() == ReceiverPace::Slow);
        }
    }
}
