//! Shared ring under loom: two senders, two slots, death in the middle.

use loom::thread;

use super::{Peek, SharedConsumer, SharedProducer, area_len};
use crate::ring::memory::modelled::Modelled;

const SLOTS: u32 = 2;

fn send(producer: &mut SharedProducer<Modelled>, tag: u64) {
    loop {
        if let Some(mut room) = producer.reserve(8) {
            room.write_bytes(0, &tag.to_ne_bytes());
            room.publish(1, tag);
            return;
        }
        thread::yield_now();
    }
}

fn receive(consumer: &mut SharedConsumer<Modelled>) -> Option<(u32, u64)> {
    let Peek::Ready(sender, record) = consumer.peek().expect("honest senders") else {
        return None;
    };
    let mut payload = [0; 8];
    assert!(record.read_bytes(0, &mut payload));
    assert_eq!(u64::from_ne_bytes(payload), record.tag);
    let got = (sender, record.tag);
    consumer.pop();
    Some(got)
}

/// Two senders try to send these many records each, and drop what finds the ring
/// full; `before` records have passed the ring already.
fn two_senders(before: u64, counts: [u64; 2]) {
    loom::model(move || {
        let mem = Modelled::new(area_len(SLOTS));
        let mut consumer = SharedConsumer::new(mem.clone(), SLOTS).expect("geometry");
        let mut early = SharedProducer::new(mem.clone(), SLOTS, 9).expect("geometry");
        for tag in 0..before {
            send(&mut early, tag);
            assert_eq!(receive(&mut consumer), Some((9, tag)));
        }
        let senders = [0, 1].map(|id| {
            let mut producer = SharedProducer::new(mem.clone(), SLOTS, id).expect("geometry");
            thread::spawn(move || {
                let mut sent = 0;
                for _ in 0..counts[id as usize] {
                    if let Some(mut room) = producer.reserve(8) {
                        room.write_bytes(0, &u64::to_ne_bytes(sent));
                        room.publish(1, sent);
                        sent += 1;
                    }
                }
                sent
            })
        });
        let mut next = [0; 2];
        let mut take = |consumer: &mut SharedConsumer<Modelled>| {
            let Some((sender, tag)) = receive(consumer) else {
                return false;
            };
            assert_eq!(tag, next[sender as usize], "order of sender {sender}");
            next[sender as usize] += 1;
            true
        };
        for _ in 0..2 {
            if !take(&mut consumer) {
                assert!(!consumer.repair_head(), "all are honest");
            }
        }
        let sent = senders.map(|sender| sender.join().expect("sender"));
        while take(&mut consumer) {}
        assert_eq!(next, sent);
        assert!(sent.iter().sum::<u64>() >= 2, "there was room for two");
        assert!(matches!(consumer.peek(), Ok(Peek::Empty)));
        assert!(!consumer.repair_head(), "all are honest");
    });
}

#[test]
fn shared_ring_keeps_the_records_of_two_senders() {
    two_senders(0, [1, 1]);
}

#[test]
fn shared_ring_keeps_them_across_laps() {
    two_senders(1, [1, 1]);
}

#[test]
fn shared_ring_keeps_them_when_it_is_full() {
    two_senders(0, [2, 1]);
}

#[test]
fn shared_ring_survives_a_sender_that_dies_after_its_claim() {
    loom::model(|| {
        let mem = Modelled::new(area_len(SLOTS));
        let mut consumer = SharedConsumer::new(mem.clone(), SLOTS).expect("geometry");
        let mut dying = SharedProducer::new(mem.clone(), SLOTS, 0).expect("geometry");
        let mut living = SharedProducer::new(mem, SLOTS, 1).expect("geometry");
        let dead = thread::spawn(move || {
            // Before the head hint is moved: the worst moment.
            dying.claim_only()
        });
        let sender = thread::spawn(move || (0..2).for_each(|tag| send(&mut living, tag)));
        let claimed = dead.join().expect("the dead one");
        let (mut next, mut skipped) = (0, false);
        while next < 2 || skipped != claimed {
            match receive(&mut consumer) {
                Some(got) => {
                    assert_eq!(got, (1, next));
                    next += 1;
                }
                None => {
                    if matches!(consumer.peek(), Ok(Peek::Stalled { sender: 0 })) {
                        assert!(consumer.skip_stalled());
                        skipped = true;
                    }
                    thread::yield_now();
                }
            }
        }
        sender.join().expect("sender");
        assert!(matches!(consumer.peek(), Ok(Peek::Empty)));
    });
}
