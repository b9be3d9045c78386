//! The allocator under a whole program: threads, growth, long blocks.

use limic_heap::{PeerReadable, place};

#[global_allocator]
static HEAP: PeerReadable = PeerReadable::new();

fn is_readable(bytes: &[u8]) -> bool {
    place(bytes.as_ptr(), bytes.len()).is_some()
}

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % end
    }
}

#[test]
fn long_blocks_can_be_read_by_peers_and_short_ones_are_the_systems() {
    assert!(is_readable(&vec![1; 16 << 10]));
    assert!(!is_readable(&vec![1; 1000]));
    let mut grows = vec![1_u8; 1000];
    grows.resize(100_000, 2);
    assert!(is_readable(&grows) && grows[..1000].iter().all(|byte| *byte == 1));
    grows.truncate(10);
    grows.shrink_to_fit();
    assert!(!is_readable(&grows) && grows == [1; 10]);
}

/// So many pages that their number has other low bits: those of none, and of one.
#[test]
fn a_block_that_no_memory_can_hold_leaves_the_old_one_as_it_is() {
    let mut grows = vec![1_u8; 100_000];
    let pages = 1_usize << 32;
    for room in [isize::MAX as usize, pages * 4096, (pages + 1) * 4096] {
        let answer = grows.try_reserve_exact(room - grows.len());
        // A system may promise memory that it does not have.
        if answer.is_ok() {
            assert!(grows.capacity() >= room && room < isize::MAX as usize);
            grows.shrink_to_fit();
        }
        let other = vec![2_u8; 100_000];
        assert!(grows.iter().all(|byte| *byte == 1) && other[0] == 2);
        // Other blocks are had as before.
        assert!(is_readable(&other) && is_readable(&vec![0; 40 << 20]));
    }
}

#[test]
fn memory_that_comes_back_is_zero_where_that_was_asked_for() {
    for round in 0..50 {
        let len = 20_000 + round * 4096;
        let mut bytes = vec![0_u8; len];
        assert!(bytes.iter().all(|byte| *byte == 0), "round {round}");
        bytes.fill(0xff);
    }
}

#[test]
fn blocks_of_many_threads_do_not_overlap() {
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            scope.spawn(move || {
                let mut numbers = Numbers(u64::from(thread) + 1);
                let mut held: Vec<Vec<u8>> = Vec::new();
                for step in 0..3000 {
                    let mark = thread * 64 + (step % 64) as u8;
                    match numbers.below(3) {
                        0 if held.len() < 20 => {
                            let len = 1 + numbers.below(400_000);
                            held.push(vec![mark; len]);
                        }
                        1 if !held.is_empty() => {
                            let which = numbers.below(held.len());
                            let block = &mut held[which];
                            let (first, len) = (block[0], 1 + numbers.below(400_000));
                            block.resize(len, first);
                            assert!(block.iter().step_by(509).all(|byte| *byte == first));
                        }
                        _ if !held.is_empty() => {
                            let block = held.swap_remove(numbers.below(held.len()));
                            assert!(block.iter().all(|byte| *byte == block[0]));
                        }
                        _ => {}
                    }
                }
            });
        }
    });
}

#[test]
fn a_block_goes_to_another_thread_and_ends_there() {
    let block = vec![5_u8; 50 << 20];
    assert!(is_readable(&block));
    let sum = std::thread::spawn(move || block.iter().map(|byte| u64::from(*byte)).sum::<u64>());
    assert_eq!(sum.join().expect("a sum"), 5 * (50 << 20));
}
