//! Programs in safe Rust that reached undefined behaviour, or waited for ever, before they were
//! found. The compiler forbids `unsafe` here, so each shows that it is safe code that does it.
//!
//! A store into a received loan, whose memory is mapped for reading, does not compile:
//! `limic_tests::soundness`, and the documentation of `limic::Loaned`.

#![forbid(unsafe_code)]

use limic::raw::{RequestId, Requests};
use limic::{Barrier, Endpoint, Error, HybridEndpoint, Peer, Selector, Tag};
use limic_tests::process::die;
use limic_tests::{Cast, check, content};

const LONG: usize = 1 << 20;

/// The request that each open scope of this endpoint has under way, in the order of the scopes.
fn of_scopes(endpoint: &HybridEndpoint) -> Vec<RequestId> {
    let last = endpoint.new_owner();
    let owned = (1..=last).filter_map(|owner| endpoint.owned_by(owner));
    owned.collect()
}

struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        std::panic::panic_any(PanicsToo);
    }
}

/// What the panic comes with.
struct PanicsToo;

impl Drop for PanicsToo {
    fn drop(&mut self) {
        panic!("the Drop of a panic in the Drop of what was kept for a request");
    }
}

/// The panic comes in the middle of a receive that waits, and does not leave it. `panics.rs` shows
/// it of buffers that C kept.
#[test]
fn a_panic_in_a_drop_during_progress_leaves_no_pointer_to_a_buffer_that_is_gone() {
    let name = "a_panic_in_a_drop_during_progress_leaves_no_pointer_to_a_buffer_that_is_gone";
    Cast::new(name).run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let other = rank.connect(&endpoint)[1 - rank.rank as usize];
        let (mut short, mut long) = ([0; 64], content(1, LONG));
        if rank.rank == 1 {
            endpoint.recv((other, 1_u64), &mut long).expect("recv");
            check(1, &long);
            endpoint.send(other, 2_u64, &content(2, 64)).expect("send");
            return rank.link.meet(&endpoint);
        }
        let ended = endpoint.scope(|scope| {
            let send = scope.isend(other, 1_u64, &long)?;
            let [id] = of_scopes(&endpoint)[..] else {
                panic!("a long message waits for its receiver");
            };
            endpoint.abandon(id, Box::new(PanicsOnDrop));
            // The other rank takes the long message before it sends this one.
            let received = endpoint.recv((other, 2_u64), &mut short)?;
            assert_eq!(received.len, 64);
            check(2, &short);
            send.wait()
        });
        // What was abandoned is nobody's to wait for.
        assert_eq!(ended.map(|_| ()), Err(Error::UnknownRequest));
        rank.link.meet(&endpoint);
    });
}

/// Both are done, in the list of completions, and waited for; later receives still have requests
/// and buffers of their own.
#[test]
fn requests_that_are_watched_and_waited_for_are_freed_once() {
    Cast::new("requests_that_are_watched_and_waited_for_are_freed_once").run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let other = rank.connect(&endpoint)[1 - rank.rank as usize];
        if rank.rank == 1 {
            endpoint.recv((other, 9_u64), &mut []).expect("recv");
            for tag in 0..8 {
                endpoint.send(other, tag, &content(tag, 500)).expect("send");
            }
            return rank.link.meet(&endpoint);
        }
        let (mut first, mut second) = ([0; 500], [0; 500]);
        let known = [Ok(()), Err(Error::UnknownRequest)];
        endpoint
            .scope(|outer| {
                let one = outer.irecv((other, 0_u64), &mut first)?;
                endpoint.scope(|inner| {
                    let two = inner.irecv((other, 1_u64), &mut second)?;
                    let ids = of_scopes(&endpoint);
                    assert_eq!(ids.len(), 2, "none has come");
                    for (name, id) in (0..).zip(&ids) {
                        endpoint.watch(*id, name)?;
                    }
                    endpoint.send(other, 9_u64, &[])?;
                    while !ids.iter().all(|id| endpoint.is_done(*id)) {
                        endpoint.progress();
                    }
                    assert!(known.contains(&one.wait().map(|_| ())));
                    assert!(known.contains(&two.wait().map(|_| ())));
                    Ok(())
                })
            })
            .expect("both scopes end");
        check(0, &first);
        check(1, &second);
        let later: Vec<_> = (2..8)
            .map(|tag| endpoint.irecv((other, tag), vec![0; 500]).expect("irecv"))
            .collect();
        while endpoint.next_completed().is_some() {}
        for (tag, receive) in (2..).zip(later) {
            check(tag, &receive.wait().expect("a message").1);
        }
        rank.link.meet(&endpoint);
    });
}

/// The receive was posted first, and would match the barrier's messages if any tag were any.
#[test]
fn a_wildcard_receive_does_not_take_the_message_of_a_barrier() {
    let cast = Cast::new("a_wildcard_receive_does_not_take_the_message_of_a_barrier").ranks(3);
    cast.run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let peers = rank.connect(&endpoint);
        let barrier = Barrier::new(rank.rank, &[0, 1, 2]).expect("heads");
        let any = endpoint.irecv(Selector::any(), vec![0; 64]).expect("irecv");
        for _ in 0..3 {
            barrier.wait(&endpoint, Tag::LIBRARY).expect("a barrier");
        }
        let to = peers[(rank.rank as usize + 1) % 3];
        endpoint.send(to, 7_u64, &content(7, 64)).expect("send");
        let (status, bytes) = any.wait().expect("a message");
        assert_eq!((status.tag, status.len), (Tag(7), 64));
        check(7, &bytes);
        rank.link.meet(&endpoint);
    });
}

/// Nobody has met the rank that is gone. `killed_ranks.rs` shows the same of receives that name it.
#[test]
fn a_barrier_of_ranks_of_which_one_died_before_they_met_ends() {
    let cast = Cast::new("a_barrier_of_ranks_of_which_one_died_before_they_met_ends").ranks(3);
    cast.dies(2).run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let _peers = rank.connect(&endpoint);
        if rank.rank == 2 {
            die();
        }
        let barrier = Barrier::new(rank.rank, &[0, 1, 2]).expect("heads");
        let error = barrier.wait(&endpoint, Tag::LIBRARY);
        match error.expect_err("one is dead") {
            Error::PeerFailed { peer, .. } => assert_eq!(peer, Peer::from_index(2)),
            other => panic!("{other}"),
        }
        rank.link.meet(&endpoint);
    });
}

/// Ids of requests are numbers, and anybody can make one up: of what is in the list of completions,
/// or has been, or will be. Each request that is there still has an id of its own.
#[test]
fn ids_that_are_made_up_give_no_two_requests_one_id() {
    let endpoint = HybridEndpoint::open().expect("open");
    let known: Vec<_> = (0..4)
        .map(|name| {
            let id = endpoint.insert_done(Err(Error::Cancelled), 0);
            endpoint.watch(id, name).expect("it is there");
            id
        })
        .collect();
    for id in &known {
        for ahead in 0..3_u64 {
            let made_up = RequestId(id.0.wrapping_add(ahead << 32));
            assert_eq!(endpoint.test(made_up), Some(Err(Error::UnknownRequest)));
            assert_eq!(endpoint.wait(made_up), Err(Error::UnknownRequest));
            assert_eq!(
                endpoint.wait_any(&[made_up]),
                Some((0, Err(Error::UnknownRequest)))
            );
            assert_eq!(endpoint.cancel(made_up), Err(Error::UnknownRequest));
            assert_eq!(endpoint.watch(made_up, 9), Err(Error::UnknownRequest));
            endpoint.abandon(made_up, Box::new(()));
        }
    }
    let mut later: Vec<_> = (0..8)
        .map(|_| endpoint.insert_done(Err(Error::Cancelled), 0).0)
        .collect();
    later.sort_unstable();
    later.dedup();
    assert_eq!(later.len(), 8);
    let names = core::iter::from_fn(|| Some(endpoint.next_completed()?.0));
    assert_eq!(names.collect::<Vec<_>>(), [0, 1, 2, 3]);
}
