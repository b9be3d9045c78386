//! Pieces of work with different weights, done side by side as far as there is room.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// One piece of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// The part of the room that it takes.
    pub(crate) weight: usize,
    /// Its duration, in any unit.
    pub(crate) length: f64,
}

/// The pieces that wait, and the room that is left.
#[derive(Debug)]
struct Waiting {
    /// Places in the list of pieces, in the order in which they are to begin.
    places: Vec<usize>,
    room: usize,
}

impl Waiting {
    /// Takes the first piece out that fits.
    fn next(&mut self, pieces: &[Piece], whole: usize) -> Option<(usize, usize)> {
        let weight = |place: usize| pieces[place].weight.clamp(1, whole);
        let fits = |place: &usize| weight(*place) <= self.room;
        let at = self.places.iter().position(fits)?;
        let place = self.places.remove(at);
        self.room -= weight(place);
        Some((place, weight(place)))
    }
}

/// Does every piece, and returns their results in the order of the pieces. A piece that is heavier
/// than the whole room is done alone.
///
/// Heavy pieces come first, so that light ones fill the room that the last long ones leave. Among
/// equally heavy pieces the longest comes first.
pub(crate) fn side_by_side<R: Send>(
    pieces: &[Piece],
    room: usize,
    work: impl Fn(usize) -> R + Sync,
) -> Vec<R> {
    let whole = room.max(1);
    let mut places: Vec<usize> = (0..pieces.len()).collect();
    places.sort_by(|a, b| {
        let (a, b) = (&pieces[*a], &pieces[*b]);
        let heavier = b.weight.cmp(&a.weight);
        heavier.then(b.length.total_cmp(&a.length))
    });
    let state = Mutex::new(Waiting {
        places,
        room: whole,
    });
    let freed = Condvar::new();
    let worker = || {
        let mut done = Vec::new();
        let mut waiting = state.lock().unwrap_or_else(PoisonError::into_inner);
        while !waiting.places.is_empty() {
            let Some((place, weight)) = waiting.next(pieces, whole) else {
                waiting = freed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(waiting);
            done.push((place, work(place)));
            waiting = state.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.room += weight;
            freed.notify_all();
        }
        done
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..whole.min(pieces.len()))
            .map(|_| scope.spawn(worker))
            .collect();
        let done = workers.into_iter().flat_map(|worker| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        done.collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn pieces(weights: &[usize]) -> Vec<Piece> {
        let piece = |weight: &usize| Piece {
            weight: *weight,
            length: 1.0,
        };
        weights.iter().map(piece).collect()
    }

    #[test]
    fn all_is_done_and_never_more_at_a_time_than_there_is_room_for() {
        let pieces = pieces(&[1, 2, 1, 9, 1, 2, 1, 1]);
        for room in 0..5 {
            let held = AtomicUsize::new(0);
            let done = side_by_side(&pieces, room, |place| {
                let weight = pieces[place].weight.min(room.max(1));
                let now = held.fetch_add(weight, Ordering::SeqCst) + weight;
                assert!(now <= room.max(1), "{now} of {room}");
                thread::yield_now();
                held.fetch_sub(weight, Ordering::SeqCst);
                place
            });
            assert_eq!(done, (0..pieces.len()).collect::<Vec<_>>());
        }
    }

    /// Each piece waits for the other one, so that this ends only if both run.
    #[test]
    fn light_ones_run_at_the_same_time() {
        let both = Barrier::new(2);
        side_by_side(&pieces(&[1, 1]), 2, |_| both.wait());
    }

    #[test]
    fn the_heavy_and_the_long_come_first() {
        let mut pieces = pieces(&[1, 1, 2, 1]);
        pieces[1].length = 5.0;
        let order = Mutex::new(Vec::new());
        side_by_side(&pieces, 1, |place| {
            order.lock().expect("no panic").push(place);
        });
        // With room for one, all weigh one. The heavy piece is still first.
        assert_eq!(*order.lock().expect("no panic"), [2, 1, 0, 3]);
    }
}
