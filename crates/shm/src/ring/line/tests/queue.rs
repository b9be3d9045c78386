//! Against a queue: any order of calls in one thread, and two threads.

use std::collections::VecDeque;
use std::thread;

use proptest::prelude::*;

use super::{receive, receive_expected, ring_with_hot, send, send_tagged};
use crate::ring::line::MIN_LINES;
use crate::ring::watchdog::Watchdog;

#[derive(Debug, Clone)]
enum Step {
    Send(u32),
    Abandon(u32),
    Receive(u8),
    ReturnCredit,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..1500_u32).prop_map(Step::Send),
        6 => (0..60_u32).prop_map(Step::Send),
        1 => (0..1500_u32).prop_map(Step::Abandon),
        6 => (1..6_u8).prop_map(Step::Receive),
        1 => Just(Step::ReturnCredit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 400 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn ring_line_behaves_as_a_queue(
        log_lines in 2..7_u32,
        hot in 0..3_u32,
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 30 } else { 600 }),
    ) {
        let lines = 1 << log_lines;
        // All of it, or a quarter or an eighth of a ring that is large enough for two laps.
        let hot = if hot == 0 || lines >> (hot + 1) < MIN_LINES { lines } else { lines >> (hot + 1) };
        let (mut producer, mut consumer) = ring_with_hot(lines, hot.into());
        let mut model = VecDeque::new();
        let mut seed = 0;
        for step in steps {
            match step {
                Step::Send(len) => {
                    seed += 1;
                    let legal = len <= producer.max_record_payload();
                    // Three records have one tag, then three with another each.
                    let tag = if seed % 6 < 3 { seed / 6 } else { seed };
                    if send_tagged(&mut producer, (seed, tag), len) {
                        prop_assert!(legal);
                        model.push_back((seed, tag, len));
                    } else if legal {
                        prop_assert!(!model.is_empty(), "an idle ring has room");
                    }
                }
                Step::Abandon(len) => {
                    if let Some(mut room) = producer.reserve(len) {
                        room.write_bytes(0, &vec![0xee; len as usize]);
                    }
                }
                Step::Receive(count) => {
                    for _ in 0..count {
                        receive_expected(&mut consumer, model.pop_front());
                    }
                }
                Step::ReturnCredit => consumer.return_credit(),
            }
        }
        while let Some(expected) = model.pop_front() {
            receive_expected(&mut consumer, Some(expected));
        }
        receive_expected(&mut consumer, None);
    }
}

#[test]
fn ring_line_keeps_order_and_bytes_between_threads() {
    let (mut producer, mut consumer) = ring_with_hot(64, 8);
    let records: u64 = if cfg!(miri) { 60 } else { 200_000 };
    let length = |seed: u64| {
        let len = match seed % 5 {
            0 => 8,
            1 => 48,
            2 => 49,
            3 => (seed * 13 % 600) as u32,
            _ => 0,
        };
        // Miri's model of weak memory cannot follow a word that is written as a
        // whole by atomics, and later in part as payload.
        if cfg!(miri) {
            len.next_multiple_of(8)
        } else {
            len
        }
    };
    let sender = thread::spawn(move || {
        let watchdog = Watchdog::new();
        for seed in 0..records {
            while !send(&mut producer, seed, length(seed)) {
                watchdog.turn();
            }
        }
    });
    let watchdog = Watchdog::new();
    for seed in 0..records {
        let received = loop {
            if let Some(received) = receive(&mut consumer) {
                break received;
            }
            watchdog.turn();
        };
        assert_eq!(received, (seed, length(seed)));
    }
    assert!(consumer.peek().expect("empty").is_none());
    sender.join().expect("sender");
}
