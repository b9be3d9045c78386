//! Operations that own their buffers.

use std::sync::Arc;

use limic::{Endpoint, Error, Request, Selector};

use crate::party::TAG;
use crate::{Case, check, content};

const LENGTHS: [usize; 5] = [0, 48, 4000, 100_000, 2 << 20];

/// The sender forgets about them at once, and goes on to something else.
pub fn dropped_early_still_delivered<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 0 {
            for (number, len) in (0..).zip(LENGTHS) {
                drop(
                    party
                        .endpoint
                        .isend(party.other(), TAG, content(number, len))
                        .expect("isend"),
                );
            }
            party
                .endpoint
                .recv((party.other(), TAG), &mut [])
                .expect("recv");
        } else {
            for (number, len) in (0..).zip(LENGTHS) {
                let mut buffer = vec![0; len];
                party
                    .endpoint
                    .recv((party.other(), TAG), &mut buffer)
                    .expect("recv");
                check(number, &buffer);
            }
            // A receive that is dropped takes its message all the same.
            drop(
                party
                    .endpoint
                    .irecv((party.other(), 5), vec![0; 100_000])
                    .expect("irecv"),
            );
            party.endpoint.send(party.other(), TAG, &[]).expect("send");
        }
        if party.rank == 0 {
            party
                .endpoint
                .send(party.other(), 5, &content(1, 100_000))
                .expect("send");
            party.endpoint.send(party.other(), 6, &[]).expect("send");
        } else {
            party
                .endpoint
                .recv((party.other(), 6), &mut [])
                .expect("recv");
            assert_eq!(party.endpoint.probe(Selector::any()), Ok(None));
        }
    });
}

/// What was to be kept is kept until the receive is done, and who waits for it is told that it is
/// nobody's any more.
pub fn an_abandoned_receive_keeps_its_buffers<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 0 {
            party.meet();
            let sent = party.endpoint.send(party.other(), TAG, &content(3, 4096));
            return sent.expect("send");
        }
        let receive = party
            .endpoint
            .irecv((party.other(), TAG), vec![0; 4096])
            .expect("irecv");
        let id = receive.pending().expect("nothing was sent yet");
        let kept = [Arc::new(()), Arc::new(())];
        party.endpoint.abandon(id, Box::new(kept[0].clone()));
        drop(receive);
        party.endpoint.abandon(id, Box::new(kept[1].clone()));
        assert_eq!(kept.each_ref().map(Arc::strong_count), [2, 2]);
        party.meet();
        assert_eq!(party.endpoint.wait(id), Err(Error::UnknownRequest));
        party.endpoint.progress();
        assert_eq!(kept.each_ref().map(Arc::strong_count), [1, 1]);
    });
}

/// Memory is lost, nothing else.
pub fn leaked_requests_are_harmless<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in (0..).zip(LENGTHS) {
            if party.rank == 0 {
                let send = party
                    .endpoint
                    .isend(party.other(), TAG, content(number, len));
                std::mem::forget(send.expect("isend"));
                let data = content(number + 10, len);
                party
                    .endpoint
                    .send(party.other(), TAG, &data)
                    .expect("send");
                let third = content(number + 20, len);
                party
                    .endpoint
                    .send(party.other(), TAG, &third)
                    .expect("send");
            } else {
                let mut buffer = vec![0; len];
                party
                    .endpoint
                    .recv((party.other(), TAG), &mut buffer)
                    .expect("recv");
                check(number, &buffer);
                let receive = party.endpoint.irecv((party.other(), TAG), vec![0; len]);
                std::mem::forget(receive.expect("irecv"));
                party
                    .endpoint
                    .recv((party.other(), TAG), &mut buffer)
                    .expect("recv");
                check(number + 20, &buffer);
            }
        }
        // Still pending when the endpoint is dropped.
        std::mem::forget(
            party
                .endpoint
                .irecv((party.other(), 77), vec![0; 10])
                .expect("irecv"),
        );
    });
}

/// All sends are under way before any receive is posted, and the receives come from the last to the
/// first.
pub fn many_long_sends_received_in_reverse<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        const SENDS: u64 = 64;
        let len = 256 << 10;
        if party.rank == 0 {
            let sends: Vec<_> = (0..SENDS)
                .map(|tag| {
                    party
                        .endpoint
                        .isend(party.other(), tag, content(tag, len))
                        .expect("isend")
                })
                .collect();
            party
                .endpoint
                .send(party.other(), SENDS, &[])
                .expect("send");
            for (tag, send) in (0..SENDS).zip(sends) {
                check(tag, &send.wait().expect("send"));
            }
        } else {
            party
                .endpoint
                .recv((party.other(), SENDS), &mut [])
                .expect("recv");
            let receives: Vec<_> = (0..SENDS)
                .rev()
                .map(|tag| {
                    let request = party.endpoint.irecv((party.other(), tag), vec![0; len]);
                    (tag, request.expect("irecv"))
                })
                .collect();
            for (tag, receive) in receives {
                check(tag, &receive.wait().expect("receive").1);
            }
        }
    });
}

/// With their capacity, so that a program can use them again and again.
pub fn buffers_come_back<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let mut buffer = Vec::with_capacity(1 << 17);
        buffer.resize(100_000, 0);
        let place = buffer.as_ptr();
        for round in 0..10_u64 {
            if party.rank == 0 {
                buffer.copy_from_slice(&content(round, 100_000));
                let send = party
                    .endpoint
                    .isend(party.other(), TAG, buffer)
                    .expect("isend");
                buffer = send.wait().expect("send");
            } else {
                let receive = party
                    .endpoint
                    .irecv((party.other(), TAG), buffer)
                    .expect("irecv");
                buffer = receive.wait().expect("receive").1;
                check(round, &buffer);
            }
            assert_eq!((buffer.as_ptr(), buffer.capacity()), (place, 1 << 17));
        }
    });
}

/// One thread after the other uses one endpoint, also with messages under way.
pub fn an_endpoint_moves_between_threads<E: Endpoint + 'static>(case: &Case<E>) {
    // An endpoint of its own, since the party's belongs to the thread of the case.
    let open = case.opener();
    case.run(2, move |party| {
        let endpoint = open().expect("another endpoint");
        let blobs = party.link.exchange(&endpoint.address().to_bytes());
        let blob = blobs[1 - party.rank as usize]
            .as_ref()
            .expect("the other rank");
        let other = endpoint.connect(blob).expect("an address");
        let endpoint = std::thread::spawn(move || {
            for round in 0..10_u64 {
                let mut inbox = vec![0; 50_000];
                let data = content(round, 50_000);
                endpoint
                    .send_recv(other, TAG, &data, (other, TAG), &mut inbox)
                    .expect("exchange");
                check(round, &inbox);
            }
            drop(
                endpoint
                    .isend(other, 1, content(1, 1 << 20))
                    .expect("isend"),
            );
            drop(endpoint.irecv((other, 2), vec![0; 8]).expect("irecv"));
            endpoint
        })
        .join()
        .expect("the first thread");
        let mut inbox = vec![0; 1 << 20];
        endpoint.recv((other, 1), &mut inbox).expect("recv");
        check(1, &inbox);
        endpoint.send(other, 2, &[1; 8]).expect("send");
        std::thread::spawn(move || {
            endpoint.send(other, 3, &[]).expect("send");
            endpoint.recv((other, 3), &mut []).expect("recv");
            // Dropped here.
        })
        .join()
        .expect("the last thread");
    });
}
