//! Buffers that change hands: a record says that the bytes are there, and a release flag or an
//! answer that they may be written again. Loom reports bytes that one end writes while the other
//! one may still read them.

use loom::thread;

use crate::ring::LINE;
use crate::ring::line::{self, LineConsumer, LineProducer};
use crate::ring::memory::{Memory, modelled::Modelled};
use crate::ring::release::{FlagsEvery, PackedFlags};

/// Room for all records of a test.
const LINES: u32 = 4;

/// How a buffer comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Return {
    /// By its flag.
    Flag,
    /// With an answer in it, of which a record tells.
    Answer,
}

/// Generations of a buffer, which begin anew, and how it comes back each time.
const LOANS: [(u32, Return); 3] = [(1, Return::Flag), (2, Return::Answer), (1, Return::Flag)];

/// What an end does wrong, to show that loom finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The borrower sets the flag before it reads.
    EarlyFlag,
    /// The borrower tells of its answer before it writes.
    EarlyAnswer,
    /// The owner does not forget the return of a generation that begins anew.
    Remembered,
}

fn ring() -> (LineProducer<Modelled>, LineConsumer<Modelled>) {
    let mem = Modelled::new(line::area_len(LINES));
    let producer = LineProducer::new(mem.clone(), LINES).expect("geometry");
    (producer, LineConsumer::new(mem, LINES).expect("geometry"))
}

/// A record names a generation.
fn tell(producer: &mut LineProducer<Modelled>, generation: u32) {
    let room = producer.reserve(0).expect("room for all records");
    room.publish(1, generation.into());
}

fn hear(consumer: &mut LineConsumer<Modelled>) -> u64 {
    loop {
        if let Some(record) = consumer.peek().expect("an honest sender") {
            let generation = record.tag;
            consumer.pop();
            return generation;
        }
        thread::yield_now();
    }
}

fn write(buffer: &Modelled, bytes: u8) {
    // SAFETY: 8 bytes on both sides; loom checks the order.
    unsafe { buffer.write(0, [bytes; 8].as_ptr(), 8) };
}

fn expect(buffer: &Modelled, bytes: u8) {
    let mut found = [0; 8];
    // SAFETY: as above.
    unsafe { buffer.read(0, found.as_mut_ptr(), 8) };
    assert_eq!(found, [bytes; 8]);
}

/// One buffer goes to and fro. Flags of staging buffers and of loans differ in their distance.
fn hand_over<const STRIDE: usize>(fault: Fault) {
    loom::model(move || {
        let owned = FlagsEvery::<_, STRIDE>::new(Modelled::new(LINE), 1).expect("geometry");
        let buffer = Modelled::new(LINE);
        let (mut records, mut heard) = ring();
        let (mut answers, mut answered) = ring();
        let (flags, lent) = (owned.clone(), buffer.clone());
        let borrower = thread::spawn(move || {
            for (at, (generation, back)) in LOANS.into_iter().enumerate() {
                assert_eq!(hear(&mut heard), u64::from(generation));
                if fault == Fault::EarlyFlag {
                    assert!(flags.release(0, generation));
                }
                expect(&lent, at as u8);
                match back {
                    Return::Flag => assert!(flags.release(0, generation)),
                    Return::Answer if fault == Fault::EarlyAnswer => {
                        tell(&mut answers, generation);
                        write(&lent, at as u8 + 100);
                    }
                    Return::Answer => {
                        write(&lent, at as u8 + 100);
                        tell(&mut answers, generation);
                    }
                }
            }
        });
        for (at, (generation, back)) in LOANS.into_iter().enumerate() {
            if generation == 1 && fault != Fault::Remembered {
                owned.forget(0);
            }
            write(&buffer, at as u8);
            tell(&mut records, generation);
            match back {
                Return::Flag => {
                    while !owned.is_released(0, generation) {
                        thread::yield_now();
                    }
                }
                Return::Answer => {
                    assert_eq!(hear(&mut answered), u64::from(generation));
                    expect(&buffer, at as u8 + 100);
                }
            }
        }
        write(&buffer, 200);
        borrower.join().expect("the borrower");
    });
}

#[test]
fn a_staging_buffer_is_written_again_when_it_is_back() {
    hand_over::<LINE>(Fault::None);
}

#[test]
fn a_loan_is_written_again_when_it_is_back() {
    hand_over::<4>(Fault::None);
}

/// The flags of two loans share a line, and their owner takes the first one that is back.
#[test]
fn loans_of_two_borrowers_come_back_each_by_itself() {
    loom::model(|| {
        let flags = PackedFlags::new(Modelled::new(LINE), 2).expect("geometry");
        let buffers = [(); 2].map(|()| Modelled::new(LINE));
        let mut borrowers = Vec::new();
        for slot in 0..2u8 {
            let buffer = buffers[usize::from(slot)].clone();
            let flags = flags.clone();
            let (mut records, mut heard) = ring();
            write(&buffer, slot);
            borrowers.push(thread::spawn(move || {
                let generation = hear(&mut heard) as u32;
                expect(&buffer, slot);
                assert!(flags.release(slot.into(), generation));
            }));
            tell(&mut records, 7);
        }
        let back = loop {
            let back = (0..2).find(|slot| flags.is_released(*slot, 7));
            if let Some(back) = back {
                break back;
            }
            thread::yield_now();
        };
        write(&buffers[back as usize], 200);
        for borrower in borrowers {
            borrower.join().expect("a borrower");
        }
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_flag_that_is_set_before_the_bytes_are_read_is_found() {
    hand_over::<LINE>(Fault::EarlyFlag);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn an_answer_that_is_told_of_before_it_is_written_is_found() {
    hand_over::<LINE>(Fault::EarlyAnswer);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_return_of_long_ago_that_is_believed_is_found() {
    hand_over::<4>(Fault::Remembered);
}
