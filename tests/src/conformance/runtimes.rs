//! What runtimes above the raw interface use: immediate words, lists of finished requests, messages
//! kept out of matching, regions in memory of their own.

use limic::counters::Event;
use limic::raw::{Posted, RawSlice, RawSliceMut, Reserved, SendOptions};
use limic::{Access, Endpoint, Error, RequestId, Selector, Status, Tag};

use super::sizes::lengths;
use crate::party::TAG;
use crate::{Case, Party, check, content};

/// The request of an operation that goes on, or the status of one that is over.
fn started(posted: limic::Result<Posted>) -> Result<Status, RequestId> {
    match posted.expect("posted") {
        Posted::Done(outcome) => Ok(outcome.expect("done")),
        Posted::Pending(id) => Err(id),
    }
}

fn finish<E: Endpoint>(party: &Party<E>, posted: limic::Result<Posted>) -> Status {
    started(posted).unwrap_or_else(|id| party.endpoint.wait(id).expect("done"))
}

/// Receives a message of these contents, and the word with it.
fn receive<E: Endpoint>(party: &Party<E>, number: u64, len: usize, word: Option<u64>) {
    let mut buffer = vec![0; len];
    let room = [RawSliceMut::from(&mut buffer[..])];
    // SAFETY: `buffer` lives until the receive is done.
    let posted = unsafe { party.endpoint.post_recv(&Selector::any_source(TAG), &room) };
    let status = finish(party, posted);
    assert_eq!((status.len, status.immediate), (len as u64, word));
    check(number, &buffer);
}

/// The word arrives with messages of every length, however they travel, and only with those that
/// have one.
pub fn immediate_words<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in (0_u64..).zip(lengths()) {
            let word = (number % 3 != 0).then_some(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            if party.rank == 0 {
                let data = content(number, len);
                let slices = [RawSlice::from(&data[..])];
                let other = party.other();
                let options = SendOptions {
                    immediate: word,
                    ..SendOptions::default()
                };
                // SAFETY: `data` lives until the send is done.
                let posted = unsafe { party.endpoint.post_send_with(other, TAG, options, &slices) };
                assert_eq!(finish(party, posted).len, len as u64);
                continue;
            }
            if number % 2 == 0 {
                // Late: the message waits unexpected.
                while party
                    .endpoint
                    .probe(Selector::any())
                    .expect("probe")
                    .is_none()
                {}
                let seen = party.endpoint.probe(Selector::any()).expect("probe");
                assert_eq!(seen.and_then(|status| status.immediate), word);
            }
            receive(party, number, len, word);
        }
        party.meet();
    });
}

/// A send that has to be delivered is like any other to its receiver. To another node it is not
/// over before it is received.
pub fn delivered_sends<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in (0_u64..).zip(lengths()) {
            let word = (number % 3 != 0).then_some(number);
            if party.rank == 0 {
                let data = content(number, len);
                let slices = [RawSlice::from(&data[..])];
                let other = party.other();
                let options = SendOptions {
                    immediate: word,
                    delivered: true,
                    ..SendOptions::default()
                };
                // SAFETY: `data` lives until the send is done.
                let posted = unsafe { party.endpoint.post_send_with(other, TAG, options, &slices) };
                let posted = started(posted);
                party.meet();
                let over = match posted {
                    Ok(_) => true,
                    Err(id) => party.endpoint.is_done(id),
                };
                let network = party.endpoint.counters().event(Event::NetworkMessages) > 0;
                assert!(!(network && over), "{len} bytes, which nobody has received");
                party.meet();
                let sent = posted.unwrap_or_else(|id| party.endpoint.wait(id).expect("done"));
                assert_eq!(sent.len, len as u64);
                continue;
            }
            party.meet();
            // The sender has looked now.
            party.meet();
            receive(party, number, len, word);
        }
        party.meet();
    });
}

/// A send that waits for its match is over only when a receive has taken its message, however short
/// that is, and whoever has looked at it. Endpoints over the kernel module refuse such sends.
pub fn matched_sends<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let options = SendOptions {
            matched: true,
            ..SendOptions::default()
        };
        let data = content(0, 70_000);
        // SAFETY: `data` lives until the sends are done; so below.
        let post = |to, len| unsafe {
            let slices = [RawSlice::from(&data[..len])];
            party.endpoint.post_send_with(to, TAG, options, &slices)
        };
        let to_itself = match post(party.endpoint.myself(), 8) {
            Err(error @ limic::Error::System { .. }) => return println!("SKIPPED: {error}"),
            posted => started(posted).expect_err("nobody has received it"),
        };
        receive(party, 0, 8, None);
        party.endpoint.wait(to_itself).expect("received");
        for len in lengths().into_iter().filter(|len| *len <= data.len()) {
            if party.rank == 0 {
                let pending = started(post(party.other(), len)).expect_err("not received");
                // The other one has seen it, and taken nothing, when it comes here.
                party.meet();
                party.endpoint.progress();
                assert!(!party.endpoint.is_done(pending), "{len} bytes");
                party.meet();
                assert_eq!(party.endpoint.wait(pending).expect("done").len, len as u64);
                continue;
            }
            party
                .endpoint
                .wait_probe(Selector::any())
                .expect("it comes");
            party.meet();
            party.meet();
            receive(party, 0, len, None);
        }
        party.meet();
    });
}

/// Watched requests are listed once each, with the names that they were given.
pub fn finished_requests_are_listed<E: Endpoint>(case: &Case<E>) {
    const COUNT: u64 = 64;
    const LEN: usize = 70_000;
    case.run(2, |party| {
        let other = party.other();
        let mut buffers: Vec<Vec<u8>> = (0..COUNT)
            .map(|number| match party.rank {
                0 => content(number, LEN),
                _ => vec![0; LEN],
            })
            .collect();
        let mut listed = vec![0_u32; COUNT as usize];
        for (number, buffer) in (0..).zip(&mut buffers) {
            let tag = Tag(number);
            // SAFETY: the buffers live until all requests are done.
            let posted = unsafe {
                if party.rank == 0 {
                    let slices = [RawSlice::from(&buffer[..])];
                    party.endpoint.post_send(other, tag, &slices)
                } else {
                    let room = [RawSliceMut::from(&mut buffer[..])];
                    party
                        .endpoint
                        .post_recv(&Selector::exact(other, tag), &room)
                }
            };
            match started(posted) {
                Ok(_) => listed[number as usize] += 1,
                Err(id) => party.endpoint.watch(id, number).expect("watch"),
            }
        }
        while listed.contains(&0) {
            party.endpoint.progress();
            while let Some((name, outcome)) = party.endpoint.next_completed() {
                assert_eq!(outcome.expect("done").len, LEN as u64);
                listed[name as usize] += 1;
            }
        }
        assert!(listed.iter().all(|times| *times == 1), "{listed:?}");
        if party.rank == 1 {
            for (number, buffer) in (0..).zip(&buffers) {
                check(number, buffer);
            }
        }
        party.meet();
        assert!(party.endpoint.next_completed().is_none());
    });
}

/// Messages that are kept out of matching come by another way, in order, and no wildcard sees them.
pub fn set_aside_messages<E: Endpoint>(case: &Case<E>) {
    const SIGN: u64 = 1 << 63;
    case.run(2, |party| {
        let other = party.other();
        let sizes = [0_usize, 40, 5000, 200_000];
        if party.rank == 0 {
            for (number, len) in (0..).zip(sizes) {
                for sign in [SIGN, 0] {
                    let data = content(number, len);
                    // SAFETY: `data` lives until the send is done.
                    let posted = unsafe {
                        let slices = [RawSlice::from(&data[..])];
                        party.endpoint.post_send(other, Tag(number | sign), &slices)
                    };
                    finish(party, posted);
                }
            }
            party.meet();
            return party.meet();
        }
        party.endpoint.reserve_tags(Tag(SIGN), SIGN);
        for (number, len) in (0..).zip(sizes) {
            let (status, claim) = loop {
                party.endpoint.progress();
                match party.endpoint.take_reserved() {
                    Some(Reserved::Claimed(status, claim)) => break (status, claim),
                    Some(Reserved::Ended(_, why, _)) => panic!("{why}"),
                    Some(Reserved::Accessed(..)) => panic!("nobody asked for that"),
                    None => {}
                }
            };
            assert_eq!((status.tag, status.len), (Tag(number | SIGN), len as u64));
            let mut buffer = vec![0; len];
            // SAFETY: `buffer` lives until the receive is done.
            let posted = unsafe {
                let room = [RawSliceMut::from(&mut buffer[..])];
                party.endpoint.post_claimed(claim, &room)
            };
            finish(party, posted);
            check(number, &buffer);
            let mut buffer = vec![0; len];
            // SAFETY: as above.
            let posted = unsafe {
                let room = [RawSliceMut::from(&mut buffer[..])];
                party.endpoint.post_recv(&Selector::any(), &room)
            };
            assert_eq!(finish(party, posted).tag, Tag(number));
            check(number, &buffer);
        }
        party.meet();
        assert!(party.endpoint.take_reserved().is_none());
        // The other one does not close before, which would be told too.
        party.meet();
    });
}

/// Memory of the caller under keys of its choice, more pieces of it than the shared table has
/// places.
pub fn regions_in_place<E: Endpoint>(case: &Case<E>) {
    const COUNT: u64 = 80;
    const LEN: usize = 3000;
    // Offsets count from 0 in some regions, from elsewhere in others.
    let origin = |key: u64| (key % 3) << 40;
    case.run(2, |party| {
        let other = party.other();
        let mut memory = vec![content(party.rank.into(), LEN); COUNT as usize];
        let mut ids = Vec::new();
        for (key, piece) in (1..).zip(&mut memory) {
            let access = if key % 2 == 0 {
                Access::BOTH
            } else {
                Access::READ
            };
            // SAFETY: the memory is not touched until the region is revoked.
            let id = unsafe {
                party.endpoint.expose_raw(
                    RawSliceMut::from(&mut piece[..]),
                    Some(key),
                    access,
                    origin(key),
                )
            };
            ids.push(id.expect("a region").0);
        }
        // SAFETY: refused.
        let again = unsafe {
            party.endpoint.expose_raw(
                RawSliceMut::from(&mut memory[0][..]),
                Some(1),
                Access::BOTH,
                0,
            )
        };
        assert_eq!(again, Err(Error::KeyInUse { key: 1 }));
        party.meet();
        while !party.endpoint.attach(other).expect("the peer is alive") {
            party.endpoint.progress();
        }
        for key in 1..=COUNT {
            let mut found = vec![0; LEN - 8];
            // SAFETY: `found` lives until the read is done.
            let posted = unsafe {
                let room = [RawSliceMut::from(&mut found[..])];
                party.endpoint.post_read(other, key, origin(key) + 8, &room)
            };
            finish(party, posted);
            assert_eq!(found, content(1 - u64::from(party.rank), LEN)[8..]);
            let data = content(key, 8);
            // SAFETY: `data` lives until the write is done.
            let posted = unsafe {
                let slices = [RawSlice::from(&data[..])];
                party.endpoint.post_write(other, key, origin(key), &slices)
            };
            let outcome = match posted {
                Ok(Posted::Done(outcome)) => outcome,
                Ok(Posted::Pending(id)) => party.endpoint.wait(id),
                Err(error) => Err(error),
            };
            if key % 2 == 0 {
                outcome.expect("it may be written");
            } else {
                let refused = matches!(outcome, Err(Error::UnknownRegion { .. }));
                assert!(refused, "{outcome:?}");
            }
        }
        party.meet();
        for id in ids {
            assert_eq!(party.endpoint.revoke(id), Ok(Vec::new()));
        }
        for (key, piece) in (1..).zip(&memory) {
            let mine = content(party.rank.into(), LEN);
            let first = if key % 2 == 0 {
                content(key, 8)
            } else {
                mine[..8].to_vec()
            };
            assert_eq!((&piece[..8], &piece[8..]), (&first[..], &mine[8..]));
        }
        party.meet();
    });
}
