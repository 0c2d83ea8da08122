//! The suite for consuming: a source and an inbox, under the engine's consumer. The author of a source runs it
//! with the inbox in memory, and the author of an inbox with the broker in memory.
//!
//! | promise | cases |
//! |---|---|
//! | handler and mark commit together; a duplicate is acknowledged unseen | `the_handlers_write_and_the_mark_commit_together`, `a_duplicate_is_acknowledged_without_running_the_handler` |
//! | of two concurrent duplicates one runs; the other is a duplicate, or runs if the first rolled back | `two_concurrent_duplicates_run_the_handler_once`, `a_concurrent_duplicate_runs_if_the_first_failed` |
//! | a failed handler leaves no mark and the event comes again, also after its own unique violation or a panic | `a_failed_handler_leaves_no_mark_and_the_event_comes_again`, `the_handlers_own_unique_violation_is_a_failure`, `a_panicking_handler_is_a_failed_delivery`, `a_retry_in_the_process_has_a_fresh_transaction` |
//! | a commit is known to have committed: a transaction that its handler has ruined is a failure | `a_swallowed_error_that_ruins_the_transaction_loses_nothing`, `a_handler_that_ends_its_transaction_loses_nothing`, `a_handler_whose_connection_breaks_loses_nothing` |
//! | distinct consumers are independent; the id comes from the envelope; without one a message is refused | `distinct_consumers_are_independent`, `a_message_without_an_id_is_parked`, `what_cannot_be_decoded_is_parked`, `what_the_handler_rejects_is_parked`, `a_payload_of_another_shape_is_parked` |
//! | stamps are merged for fresh events only, before the handler runs; correlation is kept, causation becomes the consumed event | `a_stamp_is_merged_for_fresh_events_only`, `a_reaction_is_stamped_after_its_cause`, `what_follows_keeps_the_correlation_and_names_its_cause`, `an_event_arrives_with_its_whole_context` |
//! | over `max_deliveries` parked unseen, at it still run; without a count never parked | `a_message_delivered_too_often_is_parked_unseen`, `without_a_delivery_count_nothing_is_parked` |
//! | lost answers are not fatal; with the inbox off, the same loss shows real duplicates | `an_event_whose_answer_was_lost_is_a_duplicate`, `a_failed_event_whose_answer_was_lost_comes_again`, `without_the_inbox_the_same_loss_runs_the_handler_again` |
//! | cancellation is clean; a shutdown finishes what is in flight; a lost stream is opened again | `a_dropped_consumer_leaves_nothing_half_done`, `a_shutdown_finishes_the_message_in_flight`, `a_lost_stream_is_opened_again` |
//! | messages of one key stay in order, and wait for their own key only; consumers share the work | `messages_of_one_key_stay_in_order`, `a_slow_key_does_not_hold_up_the_others`, `two_consumers_share_the_work` |
//! | where the source says so, a key keeps its order when one of its events fails and goes back to the broker | `newer_events_of_a_key_wait_for_one_that_failed`, `newer_events_of_a_key_wait_for_one_that_failed_in_a_batch` |
//! | a batch follows every rule of the single event: duplicates inside it, parking, order per key through failures, lost answers and commits, shutdown | `a_batch_is_applied_once_whatever_is_in_it_twice`, `a_handler_of_one_is_called_for_each_event_of_a_batch`, `a_rejected_event_is_parked_and_its_batch_is_applied`, `a_failing_event_of_a_batch_holds_back_its_key_only`, `what_cannot_be_decoded_is_parked_beside_a_batch`, `a_batch_whose_answers_were_lost_is_all_duplicates`, `a_batch_whose_commit_failed_loses_nothing`, `a_shutdown_finishes_the_batch_in_flight`, `a_stale_publish_in_a_batch_does_not_overtake_its_key` |
//! | what an owner published after it had lost its lane does not overtake, and nothing is lost by that | `a_stale_publish_does_not_overtake_its_key`, `a_stale_publish_that_nobody_else_brings_is_applied`, `what_was_published_before_a_take_over_is_applied_after_it` |

pub mod batches;
pub mod context;
pub mod failing;
mod harness;
pub mod once;
mod one_clock;
pub mod owners;
pub mod parking;
pub mod running;
mod steps;
mod wrap;

pub use harness::{InboxHarness, SourceHarness, Tx};
pub use one_clock::the_process_has_one_clock;
pub use steps::ConsumerInput;

use super::case::Case;
use super::suite::{run_named, table};

/// The one list of cases: the tests of an adapter and the table below are made from it.
#[doc(hidden)]
#[macro_export]
macro_rules! __consumer_cases {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $($then)+! {
            [$($arguments)*]
            once {
                the_handlers_write_and_the_mark_commit_together,
                a_duplicate_is_acknowledged_without_running_the_handler,
                two_concurrent_duplicates_run_the_handler_once,
                a_concurrent_duplicate_runs_if_the_first_failed,
                distinct_consumers_are_independent,
                an_event_whose_answer_was_lost_is_a_duplicate,
                without_the_inbox_the_same_loss_runs_the_handler_again,
            }
            failing {
                a_failed_handler_leaves_no_mark_and_the_event_comes_again,
                the_handlers_own_unique_violation_is_a_failure,
                a_panicking_handler_is_a_failed_delivery,
                a_retry_in_the_process_has_a_fresh_transaction,
                a_failed_event_whose_answer_was_lost_comes_again,
                newer_events_of_a_key_wait_for_one_that_failed,
                newer_events_of_a_key_wait_for_one_that_failed_in_a_batch,
                a_swallowed_error_that_ruins_the_transaction_loses_nothing,
                a_handler_that_ends_its_transaction_loses_nothing,
                a_handler_whose_connection_breaks_loses_nothing,
            }
            parking {
                a_message_without_an_id_is_parked,
                what_cannot_be_decoded_is_parked,
                what_the_handler_rejects_is_parked,
                a_payload_of_another_shape_is_parked,
                a_message_delivered_too_often_is_parked_unseen,
                without_a_delivery_count_nothing_is_parked,
            }
            context {
                a_stamp_is_merged_for_fresh_events_only,
                a_reaction_is_stamped_after_its_cause,
                what_follows_keeps_the_correlation_and_names_its_cause,
                an_event_arrives_with_its_whole_context,
            }
            running {
                messages_of_one_key_stay_in_order,
                a_slow_key_does_not_hold_up_the_others,
                a_shutdown_finishes_the_message_in_flight,
                a_lost_stream_is_opened_again,
                a_dropped_consumer_leaves_nothing_half_done,
                two_consumers_share_the_work,
            }
            batches {
                a_batch_is_applied_once_whatever_is_in_it_twice,
                a_handler_of_one_is_called_for_each_event_of_a_batch,
                a_rejected_event_is_parked_and_its_batch_is_applied,
                a_failing_event_of_a_batch_holds_back_its_key_only,
                what_cannot_be_decoded_is_parked_beside_a_batch,
                a_batch_whose_answers_were_lost_is_all_duplicates,
                a_batch_whose_commit_failed_loses_nothing,
                a_shutdown_finishes_the_batch_in_flight,
            }
            owners {
                a_stale_publish_does_not_overtake_its_key,
                a_stale_publish_in_a_batch_does_not_overtake_its_key,
                a_stale_publish_that_nobody_else_brings_is_applied,
                what_was_published_before_a_take_over_is_applied_after_it,
            }
        }
    };
}

/// Every case of the suite.
#[must_use]
pub fn cases<I: InboxHarness>() -> Vec<Case<ConsumerInput<I>>> {
    crate::__consumer_cases!([table] ConsumerInput<I>)
}

/// Runs one case by its name on a fresh source and inbox; what `consumer_conformance!` expands to.
///
/// # Panics
/// When they do not behave as the case says, or no case has this name.
pub fn run<B: SourceHarness, I: InboxHarness>(name: &'static str) {
    // Where one of the two is in memory, the other is the adapter under test.
    let suite = if B::name().starts_with("memory") { I::NAME } else { B::name() };
    run_named(suite, &cases::<I>(), name, ConsumerInput::start::<B>());
}

/// Expands to one test per case of the suite for consuming: of a source with the inbox in memory, or of a source
/// and an inbox.
///
/// ```no_run
/// # mod it {
/// # use pillarbox_conformance::{MemoryBrokerHarness, MemoryInboxHarness};
/// pillarbox_conformance::consumer_conformance!(MemoryBrokerHarness, MemoryInboxHarness);
/// # }
/// ```
#[macro_export]
macro_rules! consumer_conformance {
    ($source:ty) => {
        $crate::consumer_conformance!($source, $crate::MemoryInboxHarness);
    };
    ($source:ty, $inbox:ty) => {
        $crate::__consumer_cases!([$crate::__conformance_tests] $crate::consumer::run::<$source, $inbox>);
    };
}

#[cfg(test)]
mod tests {
    use super::{Case, ConsumerInput};
    use crate::memory::MemoryInboxHarness;
    use crate::suite::{lists, promises};

    fn cases() -> Vec<Case<ConsumerInput<MemoryInboxHarness>>> {
        super::cases()
    }

    #[test]
    fn every_public_case_is_in_the_list() {
        let sources = [
            ("batches", include_str!("batches.rs")),
            ("context", include_str!("context.rs")),
            ("failing", include_str!("failing.rs")),
            ("once", include_str!("once.rs")),
            ("owners", include_str!("owners.rs")),
            ("parking", include_str!("parking.rs")),
            ("running", include_str!("running.rs")),
        ];
        lists(&cases(), &sources);
    }

    #[test]
    fn the_table_of_promises_names_every_case_and_no_other() {
        let lines = include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("//! "));
        promises(&cases(), &lines.collect::<Vec<_>>().join("\n"));
    }
}
