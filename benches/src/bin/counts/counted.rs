//! What is counted: loops over one operation, out of line, so that each is compiled as it is in an
//! application that calls it in a loop, wherever the call stands.

use std::hint::black_box;

use limic::counters::size_class;
use limic::{Endpoint, HybridEndpoint, Peer, Result, Scope, ScopedRecv};
use limic_benches::{Pair, TAG};
use limic_matching::{Envelope, HeapMatcher, Selector};
use limic_policy::{Query, Table};
use limic_shm::ring::shared::Peek;
use limic_shm::ring::{LineConsumer, LineProducer, Mapped, SharedConsumer, SharedProducer};

const ENVELOPE: Envelope = Envelope { source: 3, tag: 7 };

#[inline(never)]
pub(crate) fn send(pair: &Pair, message: &[u8], count: usize) -> Result<()> {
    for _ in 0..count {
        pair.sender.send(pair.to, TAG, black_box(message))?;
    }
    Ok(())
}

#[inline(never)]
pub(crate) fn receive(pair: &Pair, room: &mut [u8], count: usize) -> Result<()> {
    for _ in 0..count {
        black_box(pair.receiver.recv((pair.from, TAG), &mut *room)?);
    }
    Ok(())
}

#[inline(never)]
pub(crate) fn send_loans(pair: &Pair, len: usize, count: usize) -> Result<()> {
    for _ in 0..count {
        let loan = pair.sender.loan(black_box(len))?;
        loan.send(pair.to, TAG)?;
    }
    Ok(())
}

#[inline(never)]
pub(crate) fn take_loans(pair: &Pair, count: usize) -> Result<()> {
    for _ in 0..count {
        black_box(pair.receiver.recv_loaned((pair.from, TAG))?);
    }
    Ok(())
}

#[inline(never)]
pub(crate) fn post<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env, HybridEndpoint>,
    from: Peer,
    rooms: &'scope mut [[u8; 1024]],
    len: usize,
    requests: &mut [Option<ScopedRecv<'scope, HybridEndpoint>>],
) -> Result<()> {
    for (request, room) in requests.iter_mut().zip(rooms) {
        *request = Some(scope.irecv((from, TAG), &mut room[..len])?);
    }
    Ok(())
}

#[inline(never)]
pub(crate) fn complete<const N: usize>(
    requests: [Option<ScopedRecv<'_, HybridEndpoint>>; N],
) -> Result<()> {
    for request in requests.into_iter().flatten() {
        black_box(request.wait()?);
    }
    Ok(())
}

#[inline(never)]
pub(crate) fn take_in(pair: &Pair, count: usize) {
    // 32 messages leave the ring in one turn.
    for _ in 0..count.div_ceil(32) {
        black_box(pair.receiver.progress());
    }
}

#[inline(never)]
pub(crate) fn progress(endpoint: &HybridEndpoint, count: usize) {
    for _ in 0..count {
        black_box(endpoint.progress());
    }
}

#[inline(never)]
pub(crate) fn match_posted(matcher: &mut HeapMatcher, selector: &Selector, count: usize) {
    for token in 0..count as u32 {
        let _ = black_box(matcher.post(black_box(selector), token));
        black_box(matcher.take_posted(black_box(&ENVELOPE)));
    }
}

#[inline(never)]
pub(crate) fn match_unexpected(matcher: &mut HeapMatcher, selector: &Selector, count: usize) {
    for token in 0..count as u32 {
        let _ = black_box(matcher.push_unexpected(black_box(&ENVELOPE), token));
        black_box(matcher.take_unexpected(black_box(selector)));
    }
}

#[inline(never)]
pub(crate) fn look_up(table: &Table, query: &Query, count: usize) {
    for _ in 0..count {
        black_box(table.choose(black_box(query)));
    }
}

#[inline(never)]
pub(crate) fn size_classes(count: usize) {
    for bytes in 0..count as u64 {
        black_box(size_class(black_box(bytes)));
    }
}

#[inline(never)]
pub(crate) fn push_line(producer: &mut LineProducer<Mapped>, count: usize) {
    for _ in 0..count {
        if let Some(mut room) = producer.reserve(black_box(8)) {
            room.write_bytes(0, black_box(&[1; 8]));
            room.publish(1, 7);
        }
    }
}

#[inline(never)]
pub(crate) fn pop_line(consumer: &mut LineConsumer<Mapped>, count: usize) {
    for _ in 0..count {
        if let Ok(Some(record)) = consumer.peek() {
            let mut bytes = [0; 8];
            black_box(record.read_bytes(0, &mut bytes));
            black_box(bytes);
        }
        consumer.pop();
    }
}

#[inline(never)]
pub(crate) fn push_shared(producer: &mut SharedProducer<Mapped>, count: usize) {
    for _ in 0..count {
        if let Some(mut room) = producer.reserve(black_box(8)) {
            room.write_bytes(0, black_box(&[1; 8]));
            room.publish(1, 7);
        }
    }
}

#[inline(never)]
pub(crate) fn pop_shared(consumer: &mut SharedConsumer<Mapped>, count: usize) {
    for _ in 0..count {
        if let Ok(Peek::Ready(_, record)) = consumer.peek() {
            let mut bytes = [0; 8];
            black_box(record.read_bytes(0, &mut bytes));
            black_box(bytes);
        }
        consumer.pop();
    }
}
