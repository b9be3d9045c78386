//! What is explained, for pairs that nobody disturbs.

use super::super::{PathSet, Table};
use super::*;

fn explained(query: &Query, history: History) -> Explanation {
    explain(&pair(&Table::built_in(), query), query, history)
}

fn pair<'a>(table: &'a Table, query: &Query) -> Pair<'a> {
    Pair {
        table,
        locality: query.locality,
        capabilities: query.capabilities,
        longest_record: select::LONGEST_RECORD,
        buffer_bytes: 32 << 10,
        window: 8,
        unexpected_budget: 16 << 20,
    }
}

#[test]
fn the_row_is_named() {
    let query = Query::new(128 << 10, Locality::SharedCache);
    assert_eq!(
        explained(&query, History::OneWay).to_string(),
        "128K (131072 bytes) go by pipeline in fragments of 32K\n\
         \x20 that is: rendezvous, two copies, in fragments\n\
         \x20 row: shared-cache, usual, up to unlimited: pipeline\n\
         \x20 from: built-in\n\
         \x20 why: two overlapped copies through the shared cache; cross-memory attach pays per page\n\
         \x20 measured at run time: a path that is faster here takes over\n"
    );
}

#[test]
fn a_reply_goes_without_asking() {
    let query = Query::new(512 << 10, Locality::SharedCache);
    let reply = explained(&query, History::Reply);
    assert_eq!(reply.path, Path::EagerFragments);
    assert!(
        reply
            .to_string()
            .contains("but: a reply goes without asking")
    );
    assert_eq!(explained(&query, History::OneWay).path, Path::Pipeline);
}

#[test]
fn a_message_that_gains_little_by_fragments_goes_in_record() {
    let path = |len| explained(&Query::new(len, Locality::SharedCache), History::OneWay).path;
    assert_eq!(path(select::LONGEST_RECORD + 1), Path::Eager);
    assert_eq!(path(12 << 10), Path::Eager);
    assert_eq!(path((12 << 10) + 1), Path::EagerFragments);
}

#[test]
fn a_slow_receiver_finds_the_message_in_an_arena() {
    let mut query = Query::new(32 << 10, Locality::SharedCache);
    assert_eq!(
        explained(&query, History::OneWay).path,
        Path::EagerFragments
    );
    query.pace = ReceiverPace::Slow;
    assert_eq!(explained(&query, History::OneWay).path, Path::SendAhead);
}

#[test]
fn refused_paths_are_named_once_with_their_reason() {
    let mut query = Query::new(4096, Locality::SharedCache);
    query.capabilities.paths = PathSet::ALL.without(Path::Pipeline);
    query.capabilities.max_eager = 2048;
    let explanation = explained(&query, History::OneWay);
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
    let mut query = Query::new(64 << 10, Locality::SharedCache);
    query.capabilities.paths = PathSet::EMPTY.with(Path::Inline);
    let explanation = explained(&query, History::OneWay);
    assert_eq!(explanation.path, Path::Pipeline);
    assert!(
        explanation
            .to_string()
            .contains("no allowed path can carry it")
    );
}
