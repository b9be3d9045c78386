//! Tables of fixed size, as a kernel module or a program without a heap brings them.

use limic_matching::{
    Bucket, Envelope, Full, Link, Matcher, PostedMemory, PostedNode, Selector, SliceStorage,
    Source, Storage, UnexpectedMemory, UnexpectedNode,
};

const ROOM: usize = 8;

/// A storage of one's own: everything in place, links for one class more than the two of the nodes.
struct Arrays {
    posted: [PostedNode; ROOM],
    posted_buckets: [Bucket; ROOM],
    unexpected: [UnexpectedNode; ROOM],
    unexpected_buckets: [Bucket; ROOM],
    links: [Link; ROOM],
}

impl Default for Arrays {
    fn default() -> Self {
        Self {
            posted: [PostedNode::EMPTY; ROOM],
            posted_buckets: [Bucket::EMPTY; ROOM],
            unexpected: [UnexpectedNode::EMPTY; ROOM],
            unexpected_buckets: [Bucket::EMPTY; ROOM],
            links: [Link::EMPTY; ROOM],
        }
    }
}

impl Storage for Arrays {
    fn posted(&mut self) -> PostedMemory<'_> {
        PostedMemory {
            nodes: &mut self.posted,
            buckets: &mut self.posted_buckets,
        }
    }

    fn unexpected(&mut self) -> UnexpectedMemory<'_> {
        UnexpectedMemory {
            nodes: &mut self.unexpected,
            buckets: &mut self.unexpected_buckets,
            links: &mut self.links,
        }
    }

    fn grow(&mut self, posted: usize, _: usize) -> Result<(), Full> {
        Err(if posted > ROOM {
            Full::Posted { capacity: ROOM }
        } else {
            Full::Unexpected { capacity: ROOM }
        })
    }
}

fn fill_and_empty<S: Storage>(matcher: &mut Matcher<S>) {
    let receive = |n: u64| Selector {
        source: Source::Is(1),
        tag: n,
        mask: !(n << 16),
    };
    let message = |n: u64| Envelope { source: 1, tag: n };
    for round in 0..3 {
        for n in 0..ROOM as u32 {
            matcher.post(&receive(n.into()), n).expect("room");
            matcher
                .push_unexpected(&message(n.into()), n)
                .expect("room");
        }
        let full = Full::Posted { capacity: ROOM };
        assert_eq!(matcher.post(&receive(0), 99), Err(full));
        assert_eq!(matcher.reserve(1, 0), Err(full));
        let full = Full::Unexpected { capacity: ROOM };
        assert_eq!(matcher.push_unexpected(&message(0), 99), Err(full));
        assert_eq!(matcher.reserve(0, 1), Err(full));
        assert_eq!(matcher.reserve(0, 0), Ok(()));
        // 8 masks, but links for 3 classes only: the rest is scanned.
        for n in (0..ROOM as u32).rev() {
            assert_eq!(matcher.probe(&receive(77)), None, "round {round}");
            let token = matcher.take_unexpected(&receive(n.into()));
            assert_eq!(token, Some((message(n.into()), n)));
            assert_eq!(matcher.take_posted(&message(n.into())), Some(n));
        }
        assert_eq!((matcher.posted_len(), matcher.unexpected_len()), (0, 0));
    }
}

#[test]
fn arrays() {
    fill_and_empty(&mut Matcher::<Arrays>::new());
}

#[test]
fn slices_that_held_something_else() {
    let mut arrays = Arrays::default();
    for seed in 0..3 {
        // What the matcher before left in the slices does not matter.
        let storage = SliceStorage::new(
            (&mut arrays.posted, &mut arrays.posted_buckets),
            (
                &mut arrays.unexpected,
                &mut arrays.unexpected_buckets,
                &mut arrays.links,
            ),
        );
        let mut matcher = Matcher::with_seed(storage, seed);
        fill_and_empty(&mut matcher);
        let left = Selector {
            source: Source::Any,
            tag: 0,
            mask: 0,
        };
        matcher.post(&left, 5).expect("room");
    }
}

#[test]
fn without_links_or_buckets() {
    let mut arrays = Arrays::default();
    let storage = SliceStorage::new(
        (&mut arrays.posted, &mut arrays.posted_buckets[..1]),
        (
            &mut arrays.unexpected,
            &mut arrays.unexpected_buckets[..3],
            &mut [],
        ),
    );
    fill_and_empty(&mut Matcher::with_storage(storage));

    let storage = SliceStorage::new((&mut arrays.posted, &mut []), (&mut [], &mut [], &mut []));
    let mut matcher = Matcher::with_storage(storage);
    let receive = Selector {
        source: Source::Any,
        tag: 0,
        mask: 0,
    };
    assert_eq!(matcher.post(&receive, 1), Err(Full::Posted { capacity: 0 }));
    assert_eq!(matcher.reserve(1, 0), Err(Full::Posted { capacity: 0 }));
    assert_eq!(matcher.take_posted(&Envelope { source: 0, tag: 0 }), None);
    assert_eq!(matcher.take_unexpected(&receive), None);
}
