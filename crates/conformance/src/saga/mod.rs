//! The suite for stores that keep sagas, one module per section of the checklist.

pub mod auditing;
pub mod completing;
pub mod handling;
pub mod leaving;
pub mod operating;
pub mod ordering;
mod steps;
pub mod sweeping;

use std::sync::Arc;

use pillarbox_core::port::{SagaAdmin, SagaHooks, Sagas, StageSaga};

use super::StoreHarness;
use super::case::Case;
use super::suite::{run_named, table};

/// A store under test that keeps sagas.
pub trait SagaHarness:
    StoreHarness<Store: SagaAdmin, Outbox: StageSaga<<Self as StoreHarness>::Tx>, Tx: 'static>
{
    /// The sagas of the store, with these callbacks and sinks.
    fn sagas(&self, hooks: SagaHooks<Self::Tx>) -> Arc<dyn Sagas>;
}

/// The one list of cases: the tests of an adapter and the table below are made from it, so that a case that
/// is in it runs everywhere. A unit test compares it with the functions in the source.
#[doc(hidden)]
#[macro_export]
macro_rules! __saga_cases {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $($then)+! {
            [$($arguments)*]
            completing {
                a_saga_is_staged_in_the_callers_transaction,
                a_saga_completes_once_with_its_last_step,
                a_saga_completes_once_when_its_steps_are_settled_together,
                concurrent_finishers_complete_a_saga_once,
                a_dead_step_blocks_completion,
                a_requeued_step_lets_its_saga_complete,
                completion_is_scoped_to_its_own_saga,
                the_same_subject_again_is_a_new_generation,
                a_saga_staged_twice_under_one_id_is_one,
                concurrent_sagas_on_one_subject_are_two_generations,
                the_callback_is_part_of_the_transaction,
                a_callback_that_ruins_its_transaction_ends_nothing,
                a_stale_runner_changes_nothing,
                a_step_that_is_not_there_completes_nothing,
                a_saga_completes_when_nothing_is_kept,
                an_entry_of_a_group_without_a_saga_is_plain,
            }
            auditing {
                every_end_is_in_the_trail_of_its_subject,
                a_retried_step_leaves_no_record,
                nothing_is_recorded_while_the_audit_fails,
                a_sink_is_told_before_the_status,
                one_failing_record_does_not_run_its_batch_again,
                a_reaped_step_is_noticed,
            }
            ordering {
                steps_in_order_follow_each_other_and_pass_data_on,
                a_failure_before_the_pivot_compensates_in_reverse,
                a_step_that_may_have_run_is_compensated_too,
                after_the_pivot_a_saga_only_goes_forward,
                an_unknown_outcome_compensates_nothing,
                an_operator_compensates_what_is_unknown,
                a_failed_compensation_is_seen_and_the_rest_still_run,
                a_saga_past_its_deadline_goes_back,
                a_saga_past_its_deadline_waits_for_a_step_whose_lease_expired,
            }
            handling {
                a_relay_runs_a_saga_to_its_end,
                a_relay_compensates_a_saga_to_its_end,
                a_handler_is_given_its_key_reference_and_data,
                a_step_that_was_done_before_is_done,
                a_parked_step_comes_back_with_a_fresh_budget,
                an_unknown_handler_blocks_its_saga_at_once,
                a_handler_that_misbehaves_wedges_nothing,
            }
            sweeping {
                sagas_that_fail_every_time_hold_up_no_other,
                a_relay_reaches_what_is_behind_a_hundred_sagas_that_fail,
            }
            leaving {
                a_claim_without_sagas_leaves_steps_alone,
                a_reap_without_sagas_leaves_steps_alone,
                a_relay_without_sagas_delivers_everything_else,
            }
            operating {
                sagas_are_listed_and_narrowed,
                a_list_of_sagas_goes_on_behind_its_last_saga,
                sagas_are_counted_by_status,
                a_sagas_timeline_joins_steps_attempts_and_audit,
                only_a_stuck_saga_is_resumed,
                a_dead_step_of_an_open_saga_is_not_discarded,
                an_operator_skips_a_step_and_the_saga_completes,
                an_operator_abandons_a_saga_wherever_it_is,
                an_ended_saga_goes_by_age_and_its_trail_stays,
                a_purge_of_sagas_is_bounded_and_audited_with_its_count,
            }
        }
    };
}

/// Every case of the suite.
#[must_use]
pub fn cases<H: SagaHarness>() -> Vec<Case<H>> {
    crate::__saga_cases!([table] H)
}

/// Runs one case by its name on a fresh harness; what `saga_conformance!` expands to.
///
/// # Panics
/// When the store does not behave as the case says, or no case has this name.
pub fn run<H: SagaHarness>(name: &'static str) {
    run_named(H::NAME, &cases::<H>(), name, H::start());
}

/// Expands to one test per case of the suite for sagas.
///
/// ```no_run
/// # mod it {
/// # use pillarbox_conformance::MemoryHarness;
/// pillarbox_conformance::saga_conformance!(MemoryHarness);
/// # }
/// ```
#[macro_export]
macro_rules! saga_conformance {
    ($harness:ty) => {
        $crate::__saga_cases!([$crate::__conformance_tests] $crate::saga::run::<$harness>);
    };
}

#[cfg(test)]
mod tests {
    use crate::suite::{lists, names, promises};

    #[test]
    fn every_public_case_is_in_the_list() {
        let sources = [
            ("auditing", include_str!("auditing.rs")),
            ("completing", include_str!("completing.rs")),
            ("handling", include_str!("handling.rs")),
            ("leaving", include_str!("leaving.rs")),
            ("operating", include_str!("operating.rs")),
            ("ordering", include_str!("ordering.rs")),
            ("sweeping", include_str!("sweeping.rs")),
        ];
        lists(&crate::__saga_cases!([names]), &sources);
    }

    #[test]
    fn the_checklist_names_every_case_and_no_other() {
        let (_, table) = include_str!("../checklist.md").split_once("## Sagas").unwrap();
        let (table, _) = table.split_once("## Lanes").unwrap();
        promises(&crate::__saga_cases!([names]), table);
    }
}
