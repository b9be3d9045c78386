//! Cost of matching by depth of the queue and kind of receive.
//!
//! One iteration is a post and the arrival that matches it (`post+arrive`), or an arrival and the
//! receive that takes it (`arrive+receive`), on a queue that holds `depth` other entries of the
//! same kind. In `newest` the entry just queued is the one that matches; in `oldest` it is the one
//! that waited longest, so at depth 100 000 its cache lines have long left the inner caches.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use limic_matching::{Envelope, HeapMatcher, Selector, Source};

const DEPTHS: [u32; 3] = [1, 1_000, 100_000];
/// What Open MPI's receives leave out of the comparison over libfabric.
const PROTOCOL_BITS: u64 = 1 << 32;
/// Tag bits of "any tag": the lower half but its top bit, which keeps the library's messages apart.
const TAG_BITS: u64 = 0x7fff_ffff;
const CONTEXT: u64 = 5 << 40;

#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    any_source: bool,
    mask: u64,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "exact",
        any_source: false,
        mask: !0,
    },
    Kind {
        name: "any source",
        any_source: true,
        mask: !0,
    },
    Kind {
        name: "any tag",
        any_source: false,
        mask: !TAG_BITS,
    },
    Kind {
        name: "both",
        any_source: true,
        mask: !TAG_BITS,
    },
    Kind {
        name: "protocol mask",
        any_source: false,
        mask: !PROTOCOL_BITS,
    },
];

impl Kind {
    /// The n-th message, distinct from the others in what this kind of receive looks at (if it
    /// looks at any).
    fn message(self, n: u32) -> (Envelope, Selector) {
        let any_tag = self.mask & TAG_BITS == 0;
        let envelope = Envelope {
            source: if any_tag { n } else { n % 64 },
            tag: CONTEXT | (u64::from(n) & TAG_BITS),
        };
        let source = if self.any_source {
            Source::Any
        } else {
            Source::Is(envelope.source)
        };
        (
            envelope,
            Selector {
                source,
                tag: envelope.tag,
                mask: self.mask,
            },
        )
    }
}

fn post_arrive(matcher: &mut HeapMatcher, posted: &Selector, arriving: &Envelope) {
    assert!(matcher.post(black_box(posted), 1).is_ok());
    assert!(matcher.take_posted(black_box(arriving)).is_some());
}

fn arrive_receive(matcher: &mut HeapMatcher, arriving: &Envelope, receive: &Selector) {
    assert!(matcher.push_unexpected(black_box(arriving), 1).is_ok());
    assert!(matcher.take_unexpected(black_box(receive)).is_some());
}

fn matching(c: &mut Criterion) {
    for oldest in [false, true] {
        let which = if oldest { "oldest" } else { "newest" };
        for kind in KINDS {
            let mut group = c.benchmark_group(format!("post+arrive/{which}/{}", kind.name));
            for depth in DEPTHS {
                let mut matcher =
                    HeapMatcher::with_capacity(depth as usize + 1, 0).expect("memory");
                for n in 0..depth {
                    matcher.post(&kind.message(n).1, n).expect("room");
                }
                let mut n = depth;
                group.bench_function(BenchmarkId::from_parameter(depth), |b| {
                    b.iter(|| {
                        let posted = kind.message(n).1;
                        let arriving = kind
                            .message(if oldest { n.wrapping_sub(depth) } else { n })
                            .0;
                        post_arrive(&mut matcher, &posted, &arriving);
                        n = n.wrapping_add(1);
                    });
                });
            }
            group.finish();

            let mut group = c.benchmark_group(format!("arrive+receive/{which}/{}", kind.name));
            for depth in DEPTHS {
                let mut matcher =
                    HeapMatcher::with_capacity(0, depth as usize + 1).expect("memory");
                for n in 0..depth {
                    matcher
                        .push_unexpected(&kind.message(n).0, n)
                        .expect("room");
                }
                let mut n = depth;
                group.bench_function(BenchmarkId::from_parameter(depth), |b| {
                    b.iter(|| {
                        let arriving = kind.message(n).0;
                        let receive = kind
                            .message(if oldest { n.wrapping_sub(depth) } else { n })
                            .1;
                        arrive_receive(&mut matcher, &arriving, &receive);
                        n = n.wrapping_add(1);
                    });
                });
            }
            group.finish();
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .without_plots();
    targets = matching
}
criterion_main!(benches);
