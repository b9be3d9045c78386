//! What every endpoint has to do, whatever moves its bytes.
//!
//! Each case is a function over [`Case`](crate::Case), which knows how to open an endpoint.
//! An implementation runs all of them by naming itself:
//!
//! ```
//! # use limic::{Settings, ShmEndpoint};
//! fn open() -> limic::Result<ShmEndpoint> {
//!     ShmEndpoint::with(Settings::default())
//! }
//! limic_tests::conformance!(shm, open);           // two or more processes
//! limic_tests::conformance!(shm_threads, open, threads); // an endpoint per thread
//! # fn main() {}
//! ```

pub mod cancel;
pub mod closing;
pub mod counters;
pub mod crowd;
pub mod loans;
pub mod matching;
pub mod one_sided;
pub mod order;
pub mod owned;
pub mod probe;
pub mod requests;
pub mod runtimes;
pub mod scope;
pub mod sizes;
pub mod timeouts;
pub mod to_self;
pub mod truncation;
pub mod vectored;
pub mod waking;

use limic::settings::SettingsBuilder;
use limic::{Error, Settings};

/// Settings in which the suite runs over any endpoint: so little for loans that cases can use it
/// up, and no long wait for sends that nobody receives.
///
/// # Errors
/// What `with` adds makes no sense.
pub fn settings(with: fn(SettingsBuilder) -> SettingsBuilder) -> limic::Result<Settings> {
    let builder = Settings::builder()
        .without_environment()
        .loan_bytes(16 << 20)
        .linger(std::time::Duration::from_millis(200));
    with(builder)
        .build()
        .map_err(|why| Error::Settings(why.to_string()))
}

/// Makes a module of this name with all conformance cases as tests.
///
/// `$open` names a `fn() -> limic::Result<impl Endpoint>` beside the module. With `threads` the
/// ranks are threads of one process, else processes. With `only $here` the cases do nothing where
/// `$here` says no (and says so aloud).
#[macro_export]
macro_rules! conformance {
    ($name:ident, $open:ident) => {
        $crate::conformance!($name, $open, false, $crate::everywhere;);
    };
    ($name:ident, $open:ident, threads) => {
        $crate::conformance!($name, $open, true, $crate::everywhere;);
    };
    ($name:ident, $open:ident, only $here:path) => {
        $crate::conformance!($name, $open, false, $here;);
    };
    ($name:ident, $open:ident, $threads:literal, $here:path;) => {
        mod $name {
            $crate::conformance_cases! { $open, $threads, $here;
                sizes: every_length_both_ways, thirty_three_mebibytes, a_longer_buffer_keeps_its_rest,
                    posted_receives_of_every_length;
                order: random_lengths_with_one_tag_arrive_in_order,
                    non_blocking_sends_match_in_the_order_of_their_posts,
                    wildcard_and_exact_receives_posted_first_do_not_overtake,
                    wildcard_and_exact_receives_posted_late_do_not_overtake,
                    two_senders_each_keep_their_order, traffic_both_ways_at_once;
                matching: any_source_tells_who_sent, any_tag_and_masks,
                    any_tag_leaves_the_messages_of_libraries, all_64_bits_of_a_tag_count,
                    a_receive_behind_another_finds_what_is_there,
                    unexpected_messages_wait_for_their_receives, posted_receives_are_met,
                    tags_in_reverse_order, mpi_labels_keep_contexts_apart, thousands_of_unexpected_messages;
                probe: a_probe_takes_nothing, wait_probe_waits, a_claimed_message_is_nobody_elses,
                    a_dropped_claim_completes_its_sender, a_claim_into_a_short_buffer_is_truncated,
                    claims_keep_the_order_of_the_rest;
                truncation: posted_first, unexpected, into_no_buffer_at_all, the_next_message_is_whole;
                cancel: a_posted_receive, an_unmatched_long_send, too_late_for_a_matched_send,
                    too_late_for_a_finished_request, races_end_one_way_or_the_other;
                requests: test_until_done, wait_any_takes_each_once,
                    wait_some_takes_what_is_done, wait_all_keeps_the_order,
                    waiting_out_of_order, a_finished_request_is_unknown, unknown_peers_are_refused,
                    large_exchange_both_ways, large_exchange_in_a_ring;
                timeouts: calls_give_up, requests_stay, in_a_scope;
                scope: detached_operations_finish_with_the_scope, nested_scopes, an_error_in_the_body_cancels,
                    a_panic_in_the_body_does_not_hang, the_error_of_a_detached_operation_is_returned,
                    leaked_handles_are_waited_for;
                owned: dropped_early_still_delivered, an_abandoned_receive_keeps_its_buffers,
                    leaked_requests_are_harmless,
                    many_long_sends_received_in_reverse, buffers_come_back,
                    an_endpoint_moves_between_threads;
                vectored: odd_shapes, empty_pieces, scoped_pieces;
                to_self: short_and_long, unexpected_and_posted, truncated, cancelled,
                    in_order_after_access_to_itself;
                loans: received_in_place, received_into_a_buffer, ordinary_messages_received_in_place,
                    exhaustion_recovers, room_comes_back, part_of_a_loan, of_no_bytes, to_self_in_place,
                    outlive_their_endpoint, outlive_their_receiver, in_order_with_messages, truncated_loans,
                    sends_that_go_on;
                one_sided: eight_bytes, a_mebibyte, out_of_range, unknown_and_revoked_keys,
                    beside_messages, own_region, several_at_once;
                runtimes: immediate_words, delivered_sends, matched_sends, finished_requests_are_listed,
                    set_aside_messages, regions_in_place;
                waking: a_sleeping_receiver_is_woken, a_sleeping_sender_is_woken, poll_on_the_descriptor,
                    poll_while_rings_are_full,
                    a_timed_sleep_ends;
                counters: count_messages_and_bytes;
                crowd: everybody_sends_to_everybody, wildcards_between_exact_receives_of_three_senders;
                closing: with_pending_receives, with_unmatched_sends, calls_after_close_are_refused,
                    a_closed_peer_is_told, what_was_sent_before_is_delivered;
            }
        }
    };
}

/// The list inside [`conformance!`].
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($open:ident, $threads:literal, $here:path; $($subject:ident: $($case:ident),+ $(,)?;)+) => {
        $($(
            #[test]
            fn $case() {
                if !$here() {
                    return;
                }
                let path = concat!(module_path!(), "::", stringify!($case));
                $crate::conformance::$subject::$case(&$crate::Case::new(path, super::$open, $threads));
            }
        )+)+
    };
}
