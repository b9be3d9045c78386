//! Buffers that begin and end anywhere in a page, on both sides, through primitives and messages.

use limic_module_tests::abi::{COPY_READ, COPY_WRITE, DONE, EXPOSE_READ, EXPOSE_WRITE, PENDING};
use limic_module_tests::{Memory, PAGE, Random, Session, To, check, fill, guest_test, token};

/// Where buffers begin in a page: around every boundary of a word, a cache line and the page.
const OFFSETS: [usize; 14] = [0, 1, 2, 3, 7, 8, 63, 64, 65, 2047, 4031, 4033, 4094, 4095];
/// How long they are: around no page, one page, and several.
const LENGTHS: [usize; 12] = [
    1,
    2,
    63,
    65,
    PAGE - 1,
    PAGE,
    PAGE + 1,
    2 * PAGE - 1,
    2 * PAGE,
    2 * PAGE + 1,
    5 * PAGE - 3,
    5 * PAGE + 7,
];
const ROOM: usize = 8 * PAGE;
/// Around what is to be written.
const UNTOUCHED: u8 = 0x5a;

/// A source and a target, and where in them the bytes lie.
struct Case {
    session: Session,
    source: Memory,
    target: Memory,
}

impl Case {
    fn new() -> Self {
        Self {
            session: Session::member(token(), 0),
            source: Memory::new(ROOM),
            target: Memory::new(ROOM),
        }
    }

    /// Moves `len` bytes from one offset to another in each way that there is, and checks every
    /// byte of both buffers.
    fn run(&mut self, from: usize, to: usize, len: usize, seed: u64) {
        fill(&mut self.source, seed);
        type Way = fn(&Case, usize, usize, usize);
        for way in [read as Way, write, sender_first, receiver_first] {
            self.target.fill(UNTOUCHED);
            way(self, from, to, len);
            check(&self.target[to..to + len], seed, from);
            let around = self.target[..to].iter().chain(&self.target[to + len..]);
            for byte in around {
                assert_eq!(*byte, UNTOUCHED, "{len} bytes from {from} to {to}");
            }
        }
        check(&self.source, seed, 0);
    }
}

fn read(case: &Case, from: usize, to: usize, len: usize) {
    let session = &case.session;
    let handle = session
        .expose(&[case.source.part(from, len)], EXPOSE_READ, To::Group)
        .expect("expose");
    let copied = session.copy(handle, 0, &[case.target.part(to, len)], COPY_READ);
    assert_eq!(copied, (len as u64, Ok(())));
    session.revoke(handle).expect("revoke");
}

fn write(case: &Case, from: usize, to: usize, len: usize) {
    let session = &case.session;
    let handle = session
        .expose(&[case.target.part(to, len)], EXPOSE_WRITE, To::Group)
        .expect("expose");
    let copied = session.copy(handle, 0, &[case.source.part(from, len)], COPY_WRITE);
    assert_eq!(copied, (len as u64, Ok(())));
    session.revoke(handle).expect("revoke");
}

fn sender_first(case: &Case, from: usize, to: usize, len: usize) {
    let session = &case.session;
    let sent = session.send(&[case.source.part(from, len)], 0, 1, 0);
    assert_eq!(sent, Ok(PENDING));
    let received = session.recv(&[case.target.part(to, len)], 0, 1, 1);
    assert_eq!(received, Ok(DONE));
    assert_eq!((session.status(0).error, session.status(1).error), (0, 0));
}

fn receiver_first(case: &Case, from: usize, to: usize, len: usize) {
    let session = &case.session;
    let received = session.recv(&[case.target.part(to, len)], 0, 1, 1);
    assert_eq!(received, Ok(PENDING));
    let sent = session.send(&[case.source.part(from, len)], 0, 1, 0);
    assert_eq!(sent, Ok(DONE));
    assert_eq!((session.status(0).error, session.status(1).error), (0, 0));
}

#[test]
fn both_sides_begin_and_end_anywhere() {
    guest_test(|| {
        let mut case = Case::new();
        let mut seed = 0;
        for len in LENGTHS {
            for from in OFFSETS {
                // Each offset of one side meets several of the other, and over all lengths every
                // one.
                for to in OFFSETS.iter().skip(seed as usize % 3).step_by(3) {
                    seed += 1;
                    case.run(from, *to, len, seed);
                }
            }
        }
        println!("REPORT: {seed} pairs of offsets, each in 4 ways");
    });
}

#[test]
fn every_offset_of_a_page() {
    guest_test(|| {
        let mut case = Case::new();
        let mut random = Random::new(5);
        for from in (1..PAGE).step_by(3) {
            let to = 1 + random.below(PAGE as u64 - 1) as usize;
            let len = random.pick(&LENGTHS);
            case.run(from, to, len, from as u64);
        }
    });
}

#[test]
fn lists_of_pieces_that_begin_anywhere() {
    guest_test(|| {
        let mut case = Case::new();
        let mut random = Random::new(6);
        for seed in 0..300 {
            fill(&mut case.source, seed);
            case.target.fill(UNTOUCHED);
            // The same bytes, cut into other pieces on the two sides.
            let (from, to) = (random.below(4096) as usize, random.below(4096) as usize);
            let len = 1 + random.below(5 * PAGE as u64) as usize;
            let mut cut = |memory: &Memory, start: usize| {
                let mut pieces = Vec::new();
                let mut at = 0;
                while at < len {
                    let most = random.pick(&[1, 63, 4095, 4096, 9000]);
                    let piece = (random.below(most) as usize).min(len - at);
                    pieces.push(memory.part(start + at, piece));
                    at += piece;
                    if pieces.len() == 1000 {
                        pieces.push(memory.part(start + at, len - at));
                        break;
                    }
                }
                pieces
            };
            let (source, target) = (cut(&case.source, from), cut(&case.target, to));
            let session = &case.session;
            if seed % 2 == 0 {
                let handle = session.expose(&source, EXPOSE_READ, To::Group);
                let handle = handle.expect("expose");
                let copied = session.copy(handle, 0, &target, COPY_READ);
                assert_eq!(copied, (len as u64, Ok(())));
                session.revoke(handle).expect("revoke");
            } else {
                assert_eq!(session.send(&source, 0, 1, 0), Ok(PENDING));
                assert_eq!(session.recv(&target, 0, 1, 1), Ok(DONE));
            }
            check(&case.target[to..to + len], seed, from);
            let around = case.target[..to].iter().chain(&case.target[to + len..]);
            assert!(around.copied().all(|byte| byte == UNTOUCHED));
        }
    });
}
