//! Which message meets which receive.

use limic::{Endpoint, Selector, Tag};

use crate::party::TAG;
use crate::{Case, check, content};

/// The status names the sender.
pub fn any_source_tells_who_sent<E: Endpoint>(case: &Case<E>) {
    case.run(3, |party| {
        if party.rank > 0 {
            let data = content(u64::from(party.rank), 100 << (6 * party.rank));
            party
                .endpoint
                .send(party.peers[0], TAG, &data)
                .expect("send");
            return;
        }
        let mut seen = [false; 3];
        for _ in 1..3 {
            let mut buffer = vec![0; 1 << 20];
            let selector = Selector::any_source(TAG);
            let status = party.endpoint.recv(selector, &mut buffer).expect("recv");
            let sender = party.peers.iter().position(|peer| *peer == status.peer);
            let sender = sender.expect("a peer that was connected");
            assert!(!seen[sender], "twice from rank {sender}");
            seen[sender] = true;
            assert_eq!(status.len, 100 << (6 * sender));
            check(sender as u64, &buffer[..status.len as usize]);
        }
    });
}

/// "Any tag" leaves the messages of libraries to them.
pub fn any_tag_leaves_the_messages_of_libraries<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let (endpoint, other) = (&party.endpoint, party.other());
        let library = Tag(Tag::LIBRARY.0 | 1);
        let mut bytes = [0; 8];
        // One that is posted before the library's messages come, and looks after they have.
        let mine = endpoint.irecv(Selector::any(), vec![0; 8]).expect("irecv");
        endpoint.send(other, library, b"").expect("send");
        endpoint.recv((other, library), &mut bytes).expect("recv");
        endpoint.send(other, library, b"library").expect("send");
        while endpoint
            .probe((other, library))
            .expect("the other lives")
            .is_none()
        {}
        let found = endpoint.probe(Selector::any()).expect("the other lives");
        assert_eq!(found, None);
        let found = endpoint.probe(Selector::any_tag(other)).expect("as before");
        assert_eq!(found, None);
        endpoint.send(other, TAG, b"user").expect("send");
        let (status, _) = mine.wait().expect("receive");
        assert_eq!((status.tag, status.len), (TAG, 4));
        let status = endpoint.recv((other, library), &mut bytes).expect("recv");
        assert_eq!(status.len, 7);
    });
}

/// A mask says which bits of the tag count.
pub fn any_tag_and_masks<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 0 {
            for tag in [0x11_u64, 0x12, 0x21, 0x22] {
                party
                    .endpoint
                    .send(party.other(), tag, &tag.to_le_bytes())
                    .expect("send");
            }
            return;
        }
        let upper = |tag| Selector::any_tag(party.other()).with_mask(0xf0).pick(tag);
        let lower = |tag| Selector::any().with_mask(0x0f).pick(tag);
        for (selector, wanted) in [
            (upper(0x2f), 0x21),
            (lower(0xf2), 0x12),
            (Selector::any_tag(party.other()), 0x11),
            (Selector::any(), 0x22_u64),
        ] {
            let mut buffer = [0; 8];
            let status = party.endpoint.recv(selector, &mut buffer).expect("recv");
            assert_eq!(status.tag, Tag(wanted));
            assert_eq!(u64::from_le_bytes(buffer), wanted);
        }
    });
}

trait Pick {
    fn pick(self, tag: u64) -> Self;
}

impl Pick for Selector {
    fn pick(mut self, tag: u64) -> Self {
        self.tag = Tag(tag);
        self
    }
}

/// Tags that differ in one bit only are different.
pub fn all_64_bits_of_a_tag_count<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let tags: Vec<u64> = (0..64).map(|bit| 1 << bit).chain([0, u64::MAX]).collect();
        if party.rank == 0 {
            for tag in &tags {
                party
                    .endpoint
                    .send(party.other(), *tag, &tag.to_le_bytes())
                    .expect("send");
            }
        } else {
            for tag in tags.iter().rev() {
                let mut buffer = [0; 8];
                party
                    .endpoint
                    .recv((party.other(), *tag), &mut buffer)
                    .expect("recv");
                assert_eq!(u64::from_le_bytes(buffer), *tag);
            }
        }
    });
}

/// It lies there for long, and does not fit the receive that was posted before.
pub fn a_receive_behind_another_finds_what_is_there<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let (endpoint, other) = (&party.endpoint, party.other());
        if party.rank == 1 {
            endpoint.send(other, 2, b"there").expect("send");
            endpoint.recv((other, TAG), &mut []).expect("recv");
            endpoint.send(other, 1, b"late").expect("send");
            return;
        }
        let first = endpoint.irecv(Selector::any_source(Tag(1)), vec![0; 8]);
        let first = first.expect("irecv");
        endpoint.wait_probe((other, 2)).expect("the other lives");
        // A look in which the endpoint learns nothing new.
        endpoint.probe((other, 2)).expect("the other lives");
        let status = endpoint.recv(Selector::any(), &mut [0; 8]).expect("recv");
        assert_eq!((status.tag, status.len), (Tag(2), 5));
        endpoint.send(other, TAG, &[]).expect("send");
        assert_eq!(first.wait().expect("receive").0.len, 4);
    });
}

const MIXED: [usize; 8] = [0, 8, 48, 64, 3000, 20_000, 200_000, 1 << 20];

/// The messages are there before anybody asks for them.
pub fn unexpected_messages_wait_for_their_receives<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in MIXED.into_iter().enumerate() {
            let tag = Tag(number as u64);
            if party.rank == 0 {
                let data = content(tag.0, len);
                party
                    .endpoint
                    .send(party.other(), tag, &data)
                    .expect("send");
            } else {
                let status = party
                    .endpoint
                    .wait_probe((party.other(), tag))
                    .expect("probe");
                assert_eq!(status.len, len as u64);
                let mut buffer = vec![0; len];
                party
                    .endpoint
                    .recv((party.other(), tag), &mut buffer)
                    .expect("recv");
                check(tag.0, &buffer);
            }
        }
    });
}

/// The receives are there before the messages.
pub fn posted_receives_are_met<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        for (number, len) in MIXED.into_iter().enumerate() {
            let tag = Tag(number as u64);
            if party.rank == 0 {
                party.meet();
                let data = content(tag.0, len);
                party
                    .endpoint
                    .send(party.other(), tag, &data)
                    .expect("send");
            } else {
                let receive = party
                    .endpoint
                    .irecv(Selector::any_source(tag), vec![0; len]);
                let receive = receive.expect("irecv");
                party.meet();
                let (status, buffer) = receive.wait().expect("receive");
                assert_eq!((status.peer, status.len), (party.other(), len as u64));
                check(tag.0, &buffer);
            }
        }
    });
}

/// Each receive finds its own among many.
pub fn tags_in_reverse_order<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        const MESSAGES: u64 = 300;
        if party.rank == 0 {
            for tag in 0..MESSAGES {
                party
                    .endpoint
                    .send(party.other(), tag, &content(tag, 40))
                    .expect("send");
            }
        } else {
            for tag in (0..MESSAGES).rev() {
                let mut buffer = [0; 40];
                party
                    .endpoint
                    .recv((party.other(), tag), &mut buffer)
                    .expect("recv");
                check(tag, &buffer);
            }
        }
    });
}

/// A wildcard of one context never sees another one's messages.
pub fn mpi_labels_keep_contexts_apart<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 0 {
            for (context, tag) in [(5, 1), (6, 1), (5, 2)] {
                let label = Tag::mpi(context, tag);
                party
                    .endpoint
                    .send(party.other(), label, &label.0.to_le_bytes())
                    .expect("send");
            }
        } else {
            let other = Some(party.other());
            for (selector, context, tag) in [
                (Selector::mpi(None, 6, None), 6, 1),
                (Selector::mpi(other, 5, Some(2)), 5, 2),
                (Selector::mpi(other, 5, None), 5, 1),
            ] {
                let mut buffer = [0; 8];
                let status = party.endpoint.recv(selector, &mut buffer).expect("recv");
                assert_eq!(status.tag.mpi_context(), context);
                assert_eq!(status.tag.mpi_tag(), tag);
                assert_eq!(u64::from_le_bytes(buffer), Tag::mpi(context, tag).0);
            }
        }
    });
}

/// More than any ring or table starts with.
pub fn thousands_of_unexpected_messages<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        const MESSAGES: u64 = 5000;
        if party.rank == 0 {
            let sends: Vec<_> = (0..MESSAGES)
                .map(|number| {
                    let data = content(number, (number % 700) as usize);
                    party
                        .endpoint
                        .isend(party.other(), number, data)
                        .expect("isend")
                })
                .collect();
            party
                .endpoint
                .send(party.other(), MESSAGES, &[])
                .expect("send");
            for send in sends {
                send.wait().expect("send");
            }
        } else {
            party
                .endpoint
                .recv((party.other(), MESSAGES), &mut [])
                .expect("recv");
            for number in (0..MESSAGES).rev() {
                let mut buffer = [0; 700];
                let status = party.endpoint.recv((party.other(), number), &mut buffer);
                let len = status.expect("recv").len as usize;
                assert_eq!(len as u64, number % 700);
                check(number, &buffer[..len]);
            }
        }
    });
}
