//! The online correction of the path of long messages, between processes for which the table is
//! wrong.

use std::time::Duration;

use limic::counters::Event;
use limic::settings::{Path, Settings, SettingsBuilder};
use limic::{Counters, Endpoint, HybridEndpoint};
use limic_tests::{Cast, Rank, check, content, skip};

const DATA: u64 = 1;
const GO_ON: u64 = 2;
const BYTES: usize = 256 << 10;

/// Sends messages with little progress of its own, so that the pipeline, which needs it, is slow; a
/// single copy is not.
fn send_idly(
    rank: &Rank,
    settings: SettingsBuilder,
    most: u32,
    done: fn(&Counters) -> bool,
) -> Option<Counters> {
    let endpoint = HybridEndpoint::with(settings.build().expect("settings")).expect("open");
    let other = rank.connect(&endpoint)[1 - rank.rank as usize];
    let message = content(rank.seed, BYTES);
    let mut counters = None;
    for number in 1..=most {
        if rank.rank == 0 {
            let mut request = endpoint.isend(other, DATA, message.clone()).expect("isend");
            while !request.test() {
                limic_tests::process::pass(Duration::from_millis(1));
            }
            request.wait().expect("sent");
            let mut word = [0];
            endpoint.recv((other, GO_ON), &mut word).expect("go on");
            if word[0] == 0 {
                break;
            }
        } else {
            let mut buffer = vec![0; BYTES];
            endpoint
                .recv((other, DATA), &mut buffer)
                .expect("a message");
            check(rank.seed, &buffer);
            let now = endpoint.counters();
            let over = done(&now) || number == most;
            endpoint
                .send(other, GO_ON, &[u8::from(!over)])
                .expect("go on");
            counters = Some(now);
            if over {
                break;
            }
        }
    }
    rank.link.meet(&endpoint);
    counters
}

fn messages(counters: &Counters, path: Path) -> u64 {
    let found = counters.paths.iter().find(|(other, _)| *other == path);
    found.map_or(0, |(_, traffic)| traffic.messages)
}

#[test]
fn a_wrong_table_is_corrected_and_a_wish_is_respected() {
    if let Err(refused) = limic_copy::explain().available {
        return skip(&format!("single copy: {refused}"));
    }
    let cast = Cast::new("a_wrong_table_is_corrected_and_a_wish_is_respected").alone();
    cast.limit(Duration::from_secs(120)).run(|rank| {
        let settings = || Settings::builder().without_environment().pipeline_window(2);
        let corrected = |counters: &Counters| !counters.tuned.is_empty();
        if let Some(counters) = send_idly(rank, settings(), 20_000, corrected) {
            let [correction] = counters.tuned[..] else {
                panic!("{:?}", counters.tuned);
            };
            assert_eq!(correction.from_bytes, BYTES as u64);
            assert_ne!(correction.path, Path::Pipeline);
        }
        let never = |_: &Counters| false;
        for settings in [
            settings().autotune(false),
            settings().long_path(Path::Pipeline),
        ] {
            if let Some(counters) = send_idly(rank, settings, 150, never) {
                // The table takes both sides for this length, at every distance.
                assert_eq!(messages(&counters, Path::Cma), 0, "{:?}", counters.paths);
                assert!(counters.tuned.is_empty());
            }
        }
    });
}

/// A message in several pieces has no address from which it could be read, so it takes no part in
/// tries of single copies, nor of both sides: those would fail, and the pair would be without them
/// for ever.
#[test]
fn messages_in_pieces_cost_nobody_the_single_copy() {
    if let Err(refused) = limic_copy::explain().available {
        return skip(&format!("single copy: {refused}"));
    }
    Cast::new("messages_in_pieces_cost_nobody_the_single_copy").run(|rank| {
        let settings = Settings::builder().without_environment();
        let endpoint = HybridEndpoint::with(settings.build().expect("settings")).expect("open");
        let other = rank.connect(&endpoint)[1 - rank.rank as usize];
        let message = content(rank.seed, BYTES);
        let mut buffers = [vec![0; BYTES], vec![0; BYTES]];
        for _ in 0..100 {
            let done = endpoint.scope(|scope| {
                if rank.rank == 0 {
                    // One beside the other, of one length.
                    scope.isend(other, DATA, &message)?;
                    let pieces = [&message[..1000], &message[1000..]];
                    scope.isend_vectored(other, DATA, pieces)?;
                } else {
                    let [one, two] = &mut buffers;
                    scope.irecv((other, DATA), one)?;
                    scope.irecv((other, DATA), two)?;
                }
                Ok(())
            });
            done.expect("both arrive");
            buffers
                .iter()
                .filter(|_| rank.rank == 1)
                .for_each(|buffer| check(rank.seed, buffer));
            rank.link.meet(&endpoint);
        }
        let counters = endpoint.counters();
        assert_eq!(
            counters.event(Event::Demotions),
            0,
            "{:?}",
            counters.reasons
        );
    });
}

/// The first few dozen messages of a length go every way there is, if only for a try: with ordinary
/// stores and past the caches, and by each path of this machine.
#[test]
fn long_messages_are_whole_whichever_way_they_go() {
    const LEN: usize = (4 << 20) + 5;
    Cast::new("long_messages_are_whole_whichever_way_they_go").run(|rank| {
        let settings = Settings::builder().without_environment();
        let endpoint = HybridEndpoint::with(settings.build().expect("settings")).expect("open");
        let other = rank.connect(&endpoint)[1 - rank.rank as usize];
        let mut room = vec![0; LEN + 1];
        for number in 0..60 {
            let seed = rank.seed.wrapping_add(number);
            if rank.rank == 0 {
                let message = content(seed, LEN);
                endpoint.send(other, DATA, &message).expect("sent");
                endpoint.recv((other, GO_ON), &mut []).expect("go on");
            } else {
                let room = &mut room[1..];
                endpoint.recv((other, DATA), room).expect("a message");
                check(seed, room);
                endpoint.send(other, GO_ON, &[]).expect("go on");
            }
        }
        rank.link.meet(&endpoint);
    });
}
