//! Messages in several pieces.

use std::io::{IoSlice, IoSliceMut};

use limic::Endpoint;

use crate::party::TAG;
use crate::{Case, Random, check, content};

/// Cuts a length into pieces, some of them empty.
fn cut(random: &mut Random, len: usize) -> Vec<usize> {
    let mut left = len;
    let mut pieces = Vec::new();
    while left > 0 {
        let piece = random.length(16).min(left);
        pieces.push(piece);
        left -= piece;
    }
    pieces.push(0);
    random.shuffle(&mut pieces);
    pieces
}

/// Cut one way by the sender and another way by the receiver.
pub fn odd_shapes<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let mut random = party.random(1);
        for number in 0..150_u64 {
            let len = random.length(20);
            let (out, into) = (cut(&mut random, len), cut(&mut random, len));
            if party.rank == 0 {
                let data = content(number, len);
                let mut rest = &data[..];
                let pieces: Vec<IoSlice<'_>> = out
                    .iter()
                    .map(|piece| {
                        let (first, others) = rest.split_at(*piece);
                        rest = others;
                        IoSlice::new(first)
                    })
                    .collect();
                party
                    .endpoint
                    .send_vectored(party.other(), TAG, &pieces)
                    .expect("send");
            } else {
                let mut buffers: Vec<Vec<u8>> = into.iter().map(|len| vec![0; *len]).collect();
                let mut pieces: Vec<_> = buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
                let status = party
                    .endpoint
                    .recv_vectored((party.other(), TAG), &mut pieces);
                assert_eq!(status.map(|status| status.len), Ok(len as u64));
                check(number, &buffers.concat());
            }
        }
    });
}

/// No pieces, and pieces of nothing.
pub fn empty_pieces<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 0 {
            let (to, endpoint) = (party.other(), &party.endpoint);
            endpoint.send_vectored(to, TAG, &[]).expect("send");
            endpoint
                .send_vectored(to, TAG, &[IoSlice::new(&[]); 5])
                .expect("send");
            let mut pieces = vec![IoSlice::new(&[]); 2000];
            pieces[777] = IoSlice::new(b"one");
            pieces[1999] = IoSlice::new(b"two");
            endpoint.send_vectored(to, TAG, &pieces).expect("send");
        } else {
            for wanted in [&b""[..], b"", b"onetwo"] {
                let mut buffer = [0; 10];
                let status = party
                    .endpoint
                    .recv((party.other(), TAG), &mut buffer)
                    .expect("recv");
                assert_eq!(&buffer[..status.len as usize], wanted);
            }
        }
    });
}

/// Thousands of pieces of a long message: more than one system call takes.
pub fn scoped_pieces<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let len = 700_000;
        if party.rank == 0 {
            let data = content(1, len);
            party
                .endpoint
                .scope(|scope| {
                    scope
                        .isend_vectored(party.other(), TAG, data.chunks(101))?
                        .wait()
                })
                .expect("send");
        } else {
            let mut buffer = vec![0; len];
            let status = party.endpoint.scope(|scope| {
                let pieces = buffer.chunks_mut(257);
                scope.irecv_vectored((party.other(), TAG), pieces)?.wait()
            });
            assert_eq!(status.map(|status| status.len), Ok(len as u64));
            check(1, &buffer);
        }
    });
}
