//! The suite for stores, one module per section of the checklist.

pub mod batches;
pub(crate) mod between;
pub mod claiming;
pub mod failing;
pub mod forgetting;
pub mod inbox;
pub mod operating;
pub mod outcomes;
pub mod owners;
pub mod presence;
pub mod reading;
pub mod reaping;
pub mod running;
pub mod schema;
pub mod settling;
pub mod staging;
pub mod stamps;
pub(crate) mod steps;
pub mod suspects;

use super::StoreHarness;
use super::case::Case;
use super::suite::{run_named, table};

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
                a_text_of_plain_sql_arrives_byte_for_byte,
                keys_that_differ_in_case_accents_or_spaces_are_different,
                routes_that_differ_in_case_accents_or_spaces_are_different,
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
                what_comes_before_the_last_claim_is_claimed_at_the_databases_time,
                a_limit_of_zero_claims_nothing,
                what_is_out_of_range_is_refused_with_a_typed_error,
                without_a_pinned_time_the_databases_clock_decides,
                the_fence_grows_with_every_claim,
                the_fence_grows_when_the_clock_steps_back,
                retries_and_fresh_entries_share_a_batch,
                a_lease_can_be_extended,
                a_stale_fence_extends_nothing,
            }
            settling {
                a_whole_batch_settles_at_once,
                the_largest_batch_settles_at_once,
                settling_nothing_changes_nothing,
                one_fenced_entry_does_not_disturb_the_others,
                a_stale_fence_settles_nothing,
                a_reused_owner_name_does_not_defeat_the_fence,
                a_late_settle_after_a_reap_is_fenced,
                a_late_settle_that_nobody_overtook_counts,
                settling_twice_changes_nothing,
                a_delivery_clears_the_error_and_keeps_the_time,
                a_retry_keeps_the_error_and_waits,
                a_release_gives_the_attempt_back,
                releases_never_spend_attempts,
                attempts_are_exact,
                settling_an_entry_that_does_not_exist_is_reported,
                an_entry_deleted_under_its_claim_is_reported,
                delivered_entries_are_deleted_at_once_when_nothing_is_kept,
                a_death_is_audited_in_the_same_step,
                a_death_that_cannot_be_audited_is_not_recorded,
                deliveries_settle_while_the_audit_fails,
            }
            suspects {
                suspects_come_back_in_ever_smaller_company,
                a_claim_of_suspects_counts_what_is_in_flight_beside_them,
                the_least_accused_suspects_go_first,
                suspects_are_not_claimed_with_the_others,
                a_crash_in_company_is_not_held_against_an_entry,
                an_answer_ends_the_suspicion,
                a_released_suspect_stays_one,
                a_lease_that_begins_later_than_it_is_long_is_over,
            }
            failing {
                a_rejected_entry_is_dead_on_its_first_attempt,
                an_undecodable_row_is_dead_at_once_and_the_batch_goes_on,
                what_plain_sql_gets_wrong_is_refused_or_dead_with_its_reason,
                a_failing_batch_of_oldest_entries_does_not_hold_up_newer_ones,
                the_stored_error_round_trips,
                requeue_resets_attempts_and_keeps_the_event_id,
                requeue_is_idempotent,
                requeue_skips_what_is_not_dead,
                requeue_and_discard_are_audited,
                requeue_is_all_or_nothing_when_the_audit_fails,
                requeue_by_filter_takes_all_that_match,
                a_dry_run_of_requeue_or_discard_changes_nothing,
                two_operators_requeue_at_once,
                discard_is_the_end_of_a_dead_entry,
            }
            reading {
                counts_name_every_status_with_explicit_zeros,
                a_drained_route_is_counted,
                the_age_of_the_oldest_due_entry_is_told,
                the_list_of_dead_entries_is_oldest_first_and_bounded,
                a_listing_is_narrowed_by_every_field,
                a_listing_over_the_limit_is_refused,
                an_inventory_is_everything_page_by_page,
                an_entrys_whole_story_is_shown,
                the_audit_trail_is_the_newest_records_oldest_first,
                the_audit_trail_goes_on_behind_a_page_and_is_narrowed_by_every_field,
                a_change_answers_with_its_own_audit_records,
                reading_changes_nothing,
                a_purge_takes_old_delivered_and_discarded_entries_only,
                a_purge_is_bounded_and_audited_with_its_count,
                a_purge_that_cannot_be_audited_deletes_nothing,
            }
            reaping {
                an_expired_lease_is_returned_to_the_queue,
                a_reap_leaves_live_leases_alone,
                a_reap_is_bounded_by_its_limit,
                a_dry_run_reaps_nothing,
                a_reap_of_one_route_leaves_the_others_alone,
                an_in_flight_row_without_a_lease_end_is_returned,
                a_reap_buries_what_has_no_attempts_left,
                a_reap_without_a_limit_of_attempts_buries_only_by_the_entrys_own,
                a_reap_buries_waiting_entries_whose_attempts_are_spent,
                a_reap_that_cannot_be_audited_buries_nothing,
            }
            outcomes {
                an_unknown_handler_is_dead_and_audited,
                a_handler_that_rejects_ends_the_entry,
                a_failing_handler_is_tried_until_its_attempts_are_spent,
                a_failure_that_passes_is_delivered_in_the_end,
                a_handler_that_panics_is_one_failed_attempt,
                a_delivery_without_an_answer_is_tried_again,
                a_destination_that_is_down_spends_no_attempts,
                an_undecodable_row_does_not_stop_the_relay,
                a_handler_that_drops_its_transaction_does_not_wedge_the_queue,
                a_handler_whose_connection_breaks_does_not_wedge_the_queue,
                the_death_hook_is_told_once_it_is_durable,
                a_death_hook_that_panics_changes_nothing,
                a_failing_audit_does_not_run_the_rest_again,
            }
            running {
                run_once_processes_one_batch,
                drain_works_until_nothing_is_due,
                run_goes_on_until_it_is_stopped,
                a_stopped_relay_releases_what_is_in_flight,
                overlapping_drains_are_safe,
                the_tally_says_what_happened,
                an_overtaken_relay_is_fenced_and_counts_it,
                a_lost_database_does_not_end_the_run,
                a_wrong_configuration_ends_the_run_at_once,
                one_slow_delivery_does_not_delay_settling_the_others,
                many_entries_are_delivered_at_once,
            }
            operating {
                a_paused_route_is_not_claimed_until_it_is_resumed,
                a_pause_that_cannot_be_audited_does_not_happen,
                a_running_relay_honours_a_pause,
                a_change_is_narrowed_by_time_tenant_and_error,
                a_change_goes_on_behind_its_cursor,
                a_listing_goes_on_behind_its_last_entry,
                a_page_is_the_oldest_that_match_whatever_comes_before,
                entries_are_counted_by_type_error_key_and_tenant,
                a_group_of_a_type_and_an_error_is_selected_by_both,
                what_ended_lately_is_counted_per_route_and_status,
                how_long_deliveries_took_is_counted_per_route,
                only_the_newest_deliveries_are_looked_at,
                a_waiting_entry_is_hastened,
                a_waiting_entry_is_cancelled_and_never_delivered,
                nothing_is_hastened_or_cancelled_while_the_audit_fails,
                what_waits_behind_a_dead_entry_is_blocked,
                the_heads_that_hold_back_the_most_are_named,
            }
            stamps {
                stamps_grow_with_every_staged_event,
                a_stamp_survives_claims_and_retries,
                causal_claims_go_by_stamp_and_rows_without_one_last,
            }
            inbox {
                an_event_is_fresh_once_for_each_consumer,
                an_event_accepted_twice_in_one_transaction_is_a_duplicate,
                a_rolled_back_handler_leaves_no_mark,
                a_consumer_out_of_bounds_is_refused,
                consumers_that_differ_in_case_accents_or_spaces_are_different,
                a_concurrent_duplicate_waits_and_is_one_after_a_commit,
                a_concurrent_duplicate_waits_and_is_fresh_after_a_rollback,
                of_many_concurrent_duplicates_one_is_fresh,
            }
            batches {
                a_batch_is_accepted_as_its_events_would_be_one_by_one,
                a_rolled_back_batch_leaves_no_mark,
                a_concurrent_batch_waits_and_its_events_are_fresh_once,
                a_batch_out_of_bounds_is_refused,
            }
            owners {
                a_publish_behind_a_later_owners_is_stale,
                what_was_published_before_a_take_over_is_fresh_after_it,
                a_duplicate_tells_of_a_new_owner_too,
                owners_are_kept_apart_by_consumer_lane_and_stream,
                an_event_without_an_origin_is_never_stale,
                a_rolled_back_transaction_remembers_no_owner,
                nobody_waits_for_who_remembers_an_owner,
            }
            forgetting {
                a_purge_of_the_inbox_forgets_what_is_old_enough,
                a_purge_of_the_inbox_is_bounded_and_audited_with_its_count,
                a_purge_of_the_inbox_that_cannot_be_audited_deletes_nothing,
                a_purge_of_the_inbox_forgets_owners_of_old,
            }
            presence {
                an_announced_relay_is_listed_as_it_said,
                an_announcement_replaces_the_one_before,
                two_relays_of_one_name_are_two,
                a_withdrawn_relay_is_not_listed,
                a_silent_relay_is_gone_and_then_forgotten,
                an_announcement_out_of_bounds_is_refused,
                a_running_relay_says_that_its_circuit_is_open_and_leaves_when_it_stops,
            }
            schema {
                a_migrated_store_is_ready,
                migrating_again_changes_nothing,
                damaged_tables_are_named,
            }
        }
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
    run_named(H::NAME, &cases::<H>(), name, H::start());
}

/// Expands to one test per case of the suite for stores.
///
/// ```no_run
/// # mod it {
/// # use pillarbox_conformance::MemoryHarness;
/// pillarbox_conformance::store_conformance!(MemoryHarness);
/// # }
/// ```
#[macro_export]
macro_rules! store_conformance {
    ($harness:ty) => {
        $crate::__store_cases!([$crate::__conformance_tests] $crate::store::run::<$harness>);
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::suite::{lists, names, promises};

    #[test]
    fn every_public_case_is_in_the_list() {
        let sources = [
            ("claiming", include_str!("claiming.rs")),
            ("failing", include_str!("failing.rs")),
            ("forgetting", include_str!("forgetting.rs")),
            ("inbox", include_str!("inbox.rs")),
            ("operating", include_str!("operating.rs")),
            ("outcomes", include_str!("outcomes.rs")),
            ("batches", include_str!("batches.rs")),
            ("owners", include_str!("owners.rs")),
            ("presence", include_str!("presence.rs")),
            ("reading", include_str!("reading.rs")),
            ("reaping", include_str!("reaping.rs")),
            ("running", include_str!("running.rs")),
            ("schema", include_str!("schema.rs")),
            ("settling", include_str!("settling.rs")),
            ("staging", include_str!("staging.rs")),
            ("stamps", include_str!("stamps.rs")),
            ("suspects", include_str!("suspects.rs")),
        ];
        lists(&crate::__store_cases!([names]), &sources);
        let sections: BTreeSet<_> = sources.iter().map(|(section, _)| *section).collect();
        let modules: BTreeSet<_> = include_str!("mod.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
            .collect();
        assert_eq!(sections, modules);
    }

    #[test]
    fn the_checklist_names_every_case_and_no_other() {
        let (table, _) = include_str!("../checklist.md").split_once("| promise | where").unwrap();
        promises(&crate::__store_cases!([names]), table);
    }
}
