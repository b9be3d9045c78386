//! What is explained, for pairs that nobody disturbs.

use super::*;
use crate::{Capabilities, PathSet, Receiver, Table};

fn explained(question: &Question) -> Explanation {
    explained_where(question, true)
}

fn explained_where(question: &Question, far_by_memory: bool) -> Explanation {
    match question.receiver {
        Receiver::Near {
            locality,
            pace,
            capabilities,
        } => {
            let pair = Pair {
                table: &Table::built_in(),
                locality,
                far_by_memory,
                capabilities,
                longest_record: select::LONGEST_RECORD,
                fragment_bytes: crate::PIPELINE_FRAGMENT,
                buffer_bytes: 32 << 10,
                window: 8,
                unexpected_budget: 16 << 20,
            };
            near(&pair, pace, question)
        }
        Receiver::Network(limits) => over_network(&limits, question),
        Receiver::Module => by_module(question),
    }
}

fn within_a_cache(bytes: u64) -> Question {
    Question::near(bytes, Locality::SharedCache)
}

/// With the capabilities that `change` leaves.
fn changed(bytes: u64, change: impl FnOnce(&mut Capabilities)) -> Question {
    let mut question = within_a_cache(bytes);
    if let Receiver::Near { capabilities, .. } = &mut question.receiver {
        change(capabilities);
    }
    question
}

#[test]
fn the_row_is_named() {
    assert_eq!(
        explained(&within_a_cache(128 << 10)).to_string(),
        "128K (131072 bytes) go by pipeline in fragments of 32K\n\
         \x20 that is: rendezvous, two copies, in fragments\n\
         \x20 row: shared-cache, usual, up to unlimited: pipeline\n\
         \x20 from: built-in\n\
         \x20 why: two overlapped copies through the shared cache; cross-memory attach pays per page\n\
         \x20 measured at run time, unless endpoints outnumber CPUs: a path that is faster here takes over\n"
    );
}

#[test]
fn the_longest_fragment_of_the_message_is_named() {
    for (bytes, fragment) in [
        (16 << 10, 8 << 10),
        (64 << 10, 16 << 10),
        (2 << 20, 64 << 10),
    ] {
        assert_eq!(explained(&within_a_cache(bytes)).fragment_bytes, fragment);
    }
}

#[test]
fn a_reply_goes_without_asking() {
    let question = within_a_cache(512 << 10);
    let reply = explained(&Question {
        history: History::Reply,
        ..question
    });
    assert_eq!(reply.path, Path::EagerFragments);
    assert!(
        reply
            .to_string()
            .contains("but: a reply goes without asking")
    );
    assert_eq!(explained(&question).path, Path::Pipeline);
}

#[test]
fn a_stream_goes_without_asking_where_it_is_asked_for_in_fragments() {
    let stream = |question| {
        explained(&Question {
            history: History::Stream,
            ..question
        })
    };
    let longest = stream(within_a_cache(1 << 20));
    assert_eq!(longest.path, Path::EagerFragments);
    assert!(
        longest
            .to_string()
            .starts_with("1M (1048576 bytes) in a stream go by eager-fragments")
    );
    assert!(longest.to_string().contains("but: the receiver has said"));
    assert_eq!(stream(within_a_cache((1 << 20) + 1)).path, Path::Pipeline);
    // Where fragments are only what is left, another path may be faster.
    let left = changed(128 << 10, |can| {
        can.max_eager = select::LONGEST_EAGER;
        for path in [Path::Pipeline, Path::SplitCopy, Path::Cma, Path::Kmod] {
            can.demote(path);
        }
    });
    assert_eq!(stream(left).path, Path::Pipeline);
    let far = Question::near(256 << 10, Locality::SamePackage);
    assert_eq!(stream(far).path, Path::SplitCopy);
}

#[test]
fn a_long_reply_to_a_far_core_goes_by_single_copy_where_all_cores_share_a_cache() {
    let reply = Question {
        history: History::Reply,
        ..Question::near(256 << 10, Locality::SamePackage)
    };
    assert_eq!(explained_where(&reply, true).path, Path::EagerFragments);
    assert_eq!(explained_where(&reply, false).path, Path::SplitCopy);
}

#[test]
fn a_message_that_gains_little_by_fragments_goes_in_record() {
    let path = |len| explained(&within_a_cache(len)).path;
    assert_eq!(path(select::LONGEST_RECORD + 1), Path::Eager);
    assert_eq!(path(12 << 10), Path::Eager);
    assert_eq!(path((12 << 10) + 1), Path::EagerFragments);
}

#[test]
fn a_slow_receiver_finds_the_message_in_an_arena() {
    let mut question = within_a_cache(32 << 10);
    assert_eq!(explained(&question).path, Path::EagerFragments);
    if let Receiver::Near { pace, .. } = &mut question.receiver {
        *pace = ReceiverPace::Slow;
    }
    assert_eq!(explained(&question).path, Path::SendAhead);
}

#[test]
fn refused_paths_are_named_once_with_their_reason() {
    let explanation = explained(&changed(4096, |capabilities| {
        capabilities.paths = PathSet::ALL.without(Path::Pipeline);
        capabilities.max_eager = 2048;
    }));
    assert_eq!(explanation.path, Path::SplitCopy);
    let named = |path: &str| {
        let text = explanation.to_string();
        text.matches(&format!("  not {path}: ")).count()
    };
    assert_eq!((named("eager"), named("pipeline")), (1, 1));
}

/// Every pair can move bytes in fragments, whatever is allowed.
#[test]
fn where_nothing_is_allowed_bytes_go_in_fragments() {
    let explanation = explained(&changed(64 << 10, |capabilities| {
        capabilities.paths = PathSet::EMPTY.with(Path::Inline);
    }));
    assert_eq!(explanation.path, Path::Pipeline);
    assert!(
        explanation
            .to_string()
            .contains("no allowed path can carry it")
    );
}

/// Several slices have no one address, at which another process could read them.
#[test]
fn slices_go_by_two_copies() {
    let question = Question {
        slices: 3,
        memory: SendMemory::PeerReadable,
        ..within_a_cache(4 << 20)
    };
    let explanation = explained(&question);
    assert_eq!(explanation.path, Path::Pipeline);
    let slices = |refused: &RefusedPath| refused.why == Refusal::Vectored;
    assert!(explanation.refused.iter().any(slices), "{explanation}");
}

#[test]
fn the_part_of_the_sender_is_told() {
    let explain = |bytes, locality| {
        let question = Question {
            memory: SendMemory::PeerReadable,
            ..Question::near(bytes, locality)
        };
        explained(&question)
    };
    let far = explain(1 << 20, Locality::SamePackage);
    assert_eq!(far.path, Path::PeerReadable);
    assert!(
        far.to_string().contains("its sender writes a part"),
        "{far}"
    );
    for alone in [
        explain(512 << 10, Locality::SamePackage),
        explain(1 << 20, Locality::SharedCache),
    ] {
        assert_eq!(alone.path, Path::PeerReadable);
        assert!(!alone.to_string().contains("writes a part"), "{alone}");
    }
}

#[test]
fn a_loan_is_handed_over_where_that_is_allowed() {
    let loan = |question| {
        explained(&Question {
            memory: SendMemory::Loan,
            ..question
        })
    };
    assert_eq!(loan(within_a_cache(1 << 20)).path, Path::Loan);
    let refused = loan(changed(1 << 20, |pair| pair.demote(Path::Loan)));
    assert_eq!(refused.path, Path::Pipeline);
    assert!(refused.to_string().contains("  not loan: "), "{refused}");
    let to_itself = loan(Question::near(64, Locality::Itself));
    assert_eq!(to_itself.path, Path::SelfCopy);
}

/// What TCP and verbs say.
const NETWORKS: [Limits; 2] = [
    Limits {
        longest: 1 << 20,
        in_place_from: 8 << 10,
        has_reads: false,
        sends_cost: true,
    },
    Limits {
        longest: 8 << 10,
        in_place_from: u64::MAX,
        has_reads: true,
        sends_cost: false,
    },
];

#[test]
fn a_network_carries_short_messages_in_records_and_is_asked_for_long_ones() {
    for (limits, long) in NETWORKS.into_iter().zip([Path::Network, Path::NetworkRead]) {
        let explain = |bytes, slices| {
            let question = Question::new(bytes, Receiver::Network(limits));
            explained(&Question { slices, ..question })
        };
        assert_eq!(explain(8, 1).path, Path::Network);
        assert_eq!(explain(1 << 20, 1).path, long);
        assert_eq!(explain(1 << 20, 9).path, Path::Network);
        let parts = |bytes| explain(bytes, 1).parts.protocol;
        assert_eq!(parts(8), Protocol::Eager);
        assert_eq!(parts(1 << 20), Protocol::Rendezvous);
        let text = explain(1 << 20, 9).to_string();
        assert!(text.contains("why: over the eager limit"), "{text}");
        assert!(text.contains("not network-read: "), "{text}");
    }
}

#[test]
fn the_module_keeps_short_messages_and_copies_long_ones_once() {
    let path = |bytes| explained(&Question::new(bytes, Receiver::Module)).path;
    assert_eq!((path(4096), path(4097)), (Path::Eager, Path::Kmod));
}
