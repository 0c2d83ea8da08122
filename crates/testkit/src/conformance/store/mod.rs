//! The suite for stores, one module per section of the checklist.

pub mod claiming;
pub mod staging;
mod steps;

use super::StoreHarness;
use super::case::{Case, block_on};

/// The one list of cases: the tests of an adapter and the table below are made from it, so that a case that
/// is in it runs everywhere. A unit test compares it with the functions in the source.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_cases {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $($then)+! {
            [$($arguments)*]
            staging {
                a_staged_event_is_visible_inside_its_own_transaction,
                a_staged_event_is_invisible_to_others_before_the_commit,
                a_committed_event_is_claimable,
                a_rolled_back_event_is_never_delivered,
                a_savepoint_rollback_takes_its_events_with_it,
                staging_nothing_changes_nothing,
                any_number_of_events_is_staged_at_once,
                many_events_keep_their_order,
                the_same_event_id_on_the_same_route_is_one_entry,
                the_same_event_id_twice_in_one_call_is_one_entry,
                a_duplicate_does_not_poison_the_transaction,
                a_duplicate_of_a_settled_entry_is_a_duplicate,
                another_route_may_carry_the_same_event_id,
                buffered_events_are_staged_once_at_the_flush,
                two_buffers_do_not_share_events,
                a_delayed_event_is_invisible_until_due,
                what_is_out_of_bounds_is_refused_before_anything_is_written,
                a_refused_event_does_not_poison_the_transaction,
                what_is_at_the_bound_is_stored_as_it_is,
                payload_bytes_round_trip_unchanged,
                every_field_of_an_event_round_trips,
                an_event_that_names_nothing_gets_the_defaults,
                a_fresh_event_id_grows_with_time,
                a_plain_insert_of_three_columns_stages,
            }
            claiming {
                entries_are_claimed_oldest_first_within_the_limit,
                a_lower_priority_number_is_claimed_first,
                claimed_entries_show_their_state_after_the_claim,
                an_entry_due_at_exactly_now_is_claimable,
                an_entry_under_a_live_lease_is_not_claimable,
                a_terminal_entry_is_not_claimable,
                a_claim_leaves_other_routes_alone,
                an_expired_lease_is_claimed_again_and_counts_as_an_attempt,
                a_crash_loop_runs_out_of_attempts,
                an_entrys_own_limit_of_attempts_wins,
                two_concurrent_claimers_never_share_an_entry,
                a_claim_skips_locked_rows_without_waiting,
                a_lower_seq_that_commits_later_is_still_claimed,
                a_limit_of_zero_claims_nothing,
                what_is_out_of_range_is_refused_with_a_typed_error,
                without_a_pinned_time_the_databases_clock_decides,
                the_fence_grows_with_every_claim,
                the_fence_grows_when_the_clock_steps_back,
                retries_and_fresh_entries_share_a_batch,
                a_lease_can_be_extended,
                a_stale_fence_extends_nothing,
            }
        }
    };
}

/// Makes the table of cases from the list.
macro_rules! table {
    ([$harness:ident] $($section:ident { $($case:ident),* $(,)? })*) => {
        vec![$($(Case {
            section: stringify!($section),
            name: stringify!($case),
            run: |harness: &$harness| Box::pin($section::$case(harness)),
        }),*),*]
    };
}

/// Every case of the suite.
#[must_use]
pub fn cases<H: StoreHarness>() -> Vec<Case<H>> {
    crate::__store_cases!([table] H)
}

/// Runs one case by its name on a fresh harness; what `store_conformance!` expands to.
///
/// # Panics
/// When the store does not behave as the case says, or no case has this name.
pub fn run<H: StoreHarness>(name: &'static str) {
    let cases = cases::<H>();
    let case = cases.iter().find(|case| case.name == name).expect("the name of a case");
    block_on(H::NAME, name, cases.len(), async {
        let harness = H::start().await;
        (case.run)(&harness).await;
    });
}

/// Expands to one test per case of the suite for stores.
///
/// ```no_run
/// # mod it {
/// # use pillarbox_testkit::MemoryHarness;
/// pillarbox_testkit::store_conformance!(MemoryHarness);
/// # }
/// ```
#[macro_export]
macro_rules! store_conformance {
    ($harness:ty) => {
        $crate::__store_cases!([$crate::__store_tests] $harness);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __store_tests {
    ([$harness:ty] $($section:ident { $($case:ident),* $(,)? })*) => {
        $($(
            #[test]
            fn $case() {
                $crate::conformance::store::run::<$harness>(stringify!($case));
            }
        )*)*
    };
}
