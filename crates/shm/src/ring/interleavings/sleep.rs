//! Both ends of a ring under loom, which sleep when they have nothing to do: the receiver until a
//! record comes, the sender until there is room. Loom reports the sleeper that nobody wakes.

use std::sync::Arc;

use loom::sync::{Condvar, Mutex};
use loom::thread;

use crate::ring::line::{self, LineConsumer, LineProducer};
use crate::ring::memory::modelled::Modelled;
use crate::ring::wakeup::{AREA_LEN, AsymmetricFence, Sleeper, Waker};

/// Too few for three records of two lines.
const LINES: u32 = 4;

/// Payload of two lines.
const LEN: u32 = 112;

/// A doorbell, which stays rung until it is heard.
struct Bell(Mutex<bool>, Condvar);

impl Bell {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(false), Condvar::new()))
    }

    fn ring(&self) {
        *self.0.lock().expect("nobody panics") = true;
        self.1.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.0.lock().expect("nobody panics");
        while !*rung {
            rung = self.1.wait(rung).expect("nobody panics");
        }
        *rung = false;
    }
}

/// How one end sleeps, and how it wakes the other one.
struct End {
    sleeper: Sleeper<Modelled>,
    bell: Arc<Bell>,
    other: Waker<Modelled>,
    other_bell: Arc<Bell>,
}

impl End {
    /// Two ends that wake each other, by these fences.
    fn pair(fences: [AsymmetricFence; 2]) -> [Self; 2] {
        let words = [(); 2].map(|()| Modelled::new(AREA_LEN));
        let bells = [(); 2].map(|()| Bell::new());
        [(0, 1), (1, 0)].map(|(own, other)| Self {
            sleeper: Sleeper::new(words[own].clone(), fences[own]).expect("geometry"),
            bell: Arc::clone(&bells[own]),
            other: Waker::new(words[other].clone(), fences[own]).expect("geometry"),
            other_bell: Arc::clone(&bells[other]),
        })
    }

    /// After something was published.
    fn wake_other(&self) {
        if self.other.must_ring() {
            self.other_bell.ring();
        }
    }

    /// Sleeps, unless there is something to do at the second look.
    fn sleep_unless(&mut self, second_look: impl FnOnce() -> bool) {
        assert!(self.sleeper.announce());
        if !second_look() {
            self.bell.wait();
        }
        self.sleeper.wake_up();
    }
}

/// What an end forgets, to show that loom finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The receiver does not look again once it has announced its sleep.
    SecondLook,
    /// The sender is not woken when there is room.
    Room,
}

/// So many records; the first of them fill the ring. The ends' fences are these of
/// [`AsymmetricFence::all`].
fn transfer(records: u64, fences: [usize; 2], fault: Fault) {
    loom::model(move || {
        let all = AsymmetricFence::all();
        let mem = Modelled::new(line::area_len(LINES));
        let mut producer = LineProducer::new(mem.clone(), LINES).expect("geometry");
        let mut consumer = LineConsumer::new(mem, LINES).expect("geometry");
        let [mut sender, mut receiver] = End::pair(fences.map(|at| all[at]));
        let sending = thread::spawn(move || {
            for tag in 0..records {
                loop {
                    if let Some(mut room) = producer.reserve(LEN) {
                        room.write_bytes(0, &[tag as u8; LEN as usize]);
                        room.publish(1, tag);
                        sender.wake_other();
                        break;
                    }
                    sender.sleep_unless(|| producer.reserve(LEN).is_some());
                }
            }
        });
        for tag in 0..records {
            loop {
                if let Some(record) = consumer.peek().expect("an honest sender") {
                    let mut payload = [0; LEN as usize];
                    assert!(record.read_bytes(0, &mut payload));
                    assert_eq!((record.tag, payload), (tag, [tag as u8; LEN as usize]));
                    if consumer.pop() && fault != Fault::Room {
                        receiver.wake_other();
                    }
                    break;
                }
                receiver.sleep_unless(|| {
                    let looks = fault != Fault::SecondLook;
                    looks && consumer.peek().expect("an honest sender").is_some()
                });
            }
        }
        sending.join().expect("the sender");
    });
}

#[test]
fn no_end_sleeps_through_a_record_or_through_room() {
    for fences in (0..4).flat_map(|a| (0..4).map(move |b| [a, b])) {
        transfer(1, fences, Fault::None);
        transfer(3, fences, Fault::None);
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_end_sleeps_through_a_record_if_it_looks_once() {
    transfer(1, [3, 3], Fault::SecondLook);
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_end_sleeps_through_room_of_which_it_is_not_told() {
    transfer(3, [3, 3], Fault::Room);
}
