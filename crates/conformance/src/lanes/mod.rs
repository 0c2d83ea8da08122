//! The suite for stores that lease lanes, one module per section of the checklist.

pub mod burying;
pub mod mixing;
pub mod operating;
pub mod reading;
pub mod running;
pub mod settling;
pub mod sharing;
mod steps;

use pillarbox_core::port::Lanes;

use super::StoreHarness;
use super::case::Case;
use super::suite::{run_named, table};

/// A store under test that leases lanes: the harness of the store is enough.
pub trait LanesHarness: StoreHarness<Store: Lanes> {}

impl<H: StoreHarness<Store: Lanes>> LanesHarness for H {}

/// The one list of cases: the tests of an adapter and the table below are made from it, so that a case that
/// is in it runs everywhere. A unit test compares it with the functions in the source.
#[doc(hidden)]
#[macro_export]
macro_rules! __lanes_cases {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $($then)+! {
            [$($arguments)*]
            sharing {
                joining_takes_all_lanes,
                joining_twice_is_one_session,
                a_session_that_is_not_there_is_lost,
                two_sessions_share_evenly_after_a_hand_over,
                three_sessions_share_evenly,
                with_one_share_the_second_session_stands_by,
                the_number_of_shares_can_change_while_running,
                sessions_that_differ_in_shares_leave_no_lane_unread,
                the_fence_of_a_lane_grows_with_every_owner,
                a_lane_that_comes_back_has_a_new_fence,
                leaving_frees_lanes_at_once_and_spends_nothing,
                only_an_owner_hands_a_lane_over,
                sessions_that_join_at_once_share_no_lane,
                two_routes_do_not_share_lanes,
                what_no_lane_can_mean_is_refused,
            }
            burying {
                what_an_expired_session_had_in_flight_spends_one_attempt,
                a_late_sign_of_life_counts_while_nobody_came,
                followers_of_a_waiting_head_spend_nothing,
                followers_of_a_dead_head_spend_nothing,
                followers_of_a_dead_head_that_is_skipped_spend_one_attempt,
                a_head_that_is_due_again_may_have_been_in_flight,
                entries_that_were_not_read_spend_nothing,
                what_was_fetched_spends_one_attempt,
                a_session_that_read_nothing_spends_nothing,
                what_was_settled_or_handed_over_spends_nothing,
                the_last_attempt_of_a_buried_session_is_a_death,
                a_burial_that_cannot_be_audited_changes_nothing,
                a_buried_session_is_lost,
                a_crash_loop_by_lanes_runs_out_of_attempts,
                two_dead_sessions_are_buried_at_once,
                of_many_who_bury_at_once_one_does,
                a_settle_and_a_burial_at_once_agree,
            }
            mixing {
                rows_claim_nothing_while_a_route_is_read_by_lanes,
                what_rows_have_in_flight_is_told_as_a_head,
                readers_of_lanes_reap_what_rows_left,
                a_reap_by_rows_buries_sessions_of_lanes,
                a_session_that_says_what_it_has_is_taken_at_its_word,
                a_session_that_says_nothing_is_not_accused_of_suspects,
                a_burial_in_company_is_not_held_against_an_entry,
                a_session_whose_lease_begins_later_than_it_is_long_is_over,
            }
            reading {
                a_lane_is_read_in_order_within_the_limit,
                reading_a_lane_changes_no_entry,
                a_session_reads_only_its_own_lanes,
                a_lane_that_was_handed_over_is_not_read,
                a_run_that_the_cursor_does_not_know_begins_anew,
                passed_is_what_is_unsettled_up_to_the_cursor,
                a_lower_seq_that_commits_later_is_told,
                a_lower_seq_that_commits_after_idle_reads_is_told,
                a_fetch_returns_what_is_unsettled_by_seq,
                an_undecodable_row_of_a_lane_is_told,
                a_delayed_entry_is_read_with_its_time,
                a_rolled_back_entry_is_never_read,
                keys_keep_their_lane,
                plain_staging_gets_the_same_lane,
                plain_staging_without_a_key_is_read,
                a_row_that_was_claimed_is_not_read_before_it_is_reaped,
                steps_of_sagas_are_in_no_lane,
            }
            settling {
                a_delivered_entry_of_a_lane_is_kept,
                a_delivered_entry_of_a_lane_is_deleted_when_nothing_is_kept,
                a_retry_of_a_lane_is_written,
                a_death_of_a_lane_is_audited_in_the_same_step,
                a_death_of_a_lane_that_cannot_be_audited_is_not_recorded,
                a_release_of_a_lane_changes_nothing_but_its_reason,
                fenced_entries_do_not_disturb_the_rest_of_a_batch,
                settling_a_lane_twice_changes_nothing,
                a_retry_of_before_a_requeue_is_fenced,
                a_stale_fence_of_a_lane_settles_nothing,
                a_row_is_settled_wherever_it_is,
                an_entry_of_another_route_is_not_settled,
                settling_nothing_of_a_lane_changes_nothing,
                a_large_batch_of_lanes_settles_at_once,
            }
            operating {
                a_requeue_is_noticed_by_the_lane,
                a_discard_is_noticed_by_the_lane,
                dead_heads_are_listed_by_lane,
                counts_show_what_lanes_have_handed_out,
                lanes_tell_what_waits_and_who_holds_them,
                a_listing_agrees_with_the_counts_of_lanes,
                a_paused_route_leaves_no_lane_to_anybody,
                an_entry_of_a_held_lane_is_not_cancelled,
                a_hastened_entry_is_noticed_by_the_lane,
            }
            running {
                a_long_line_behind_a_failing_head_is_read_once_and_slows_nobody,
                a_running_relay_by_lanes_honours_a_pause,
                a_hastened_entry_is_delivered_by_a_running_relay,
            }
        }
    };
}

/// Every case of the suite.
#[must_use]
pub fn cases<H: LanesHarness>() -> Vec<Case<H>> {
    crate::__lanes_cases!([table] H)
}

/// Runs one case by its name on a fresh harness; what `lanes_conformance!` expands to.
///
/// # Panics
/// When the store does not behave as the case says, or no case has this name.
pub fn run<H: LanesHarness>(name: &'static str) {
    run_named(H::NAME, &cases::<H>(), name, H::start());
}

/// Expands to one test per case of the suite for lanes.
///
/// ```no_run
/// # mod it {
/// # use pillarbox_conformance::MemoryHarness;
/// pillarbox_conformance::lanes_conformance!(MemoryHarness);
/// # }
/// ```
#[macro_export]
macro_rules! lanes_conformance {
    ($harness:ty) => {
        $crate::__lanes_cases!([$crate::__conformance_tests] $crate::lanes::run::<$harness>);
    };
}

#[cfg(test)]
mod tests {
    use crate::suite::{lists, names, promises};

    #[test]
    fn every_public_case_is_in_the_list() {
        let sources = [
            ("burying", include_str!("burying.rs")),
            ("mixing", include_str!("mixing.rs")),
            ("operating", include_str!("operating.rs")),
            ("reading", include_str!("reading.rs")),
            ("running", include_str!("running.rs")),
            ("settling", include_str!("settling.rs")),
            ("sharing", include_str!("sharing.rs")),
        ];
        lists(&crate::__lanes_cases!([names]), &sources);
    }

    #[test]
    fn the_checklist_names_every_case_and_no_other() {
        let (_, table) = include_str!("../checklist.md").split_once("## Lanes").unwrap();
        promises(&crate::__lanes_cases!([names]), table);
    }
}
