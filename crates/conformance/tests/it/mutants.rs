//! A suite that cannot fail proves nothing: each planted defect must be found by the cases named here.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use pillarbox_conformance::{MemoryHarness, Received, SinkHarness};
use pillarbox_conformance::{lanes, saga, sink, store};
use pillarbox_core::Outcome;
use pillarbox_core::port::Sink;
use pillarbox_testkit::{MemorySink, Mutant, Reply, Which};

/// Which cases must fail on which defect.
const FOUND_BY: &[(Mutant, &[&str])] = &[
    (
        Mutant::SettleIgnoresFence,
        &[
            "a_stale_fence_settles_nothing",
            "a_reused_owner_name_does_not_defeat_the_fence",
            "a_stale_fence_extends_nothing",
        ],
    ),
    (
        Mutant::ClaimIgnoresLease,
        &["an_entry_under_a_live_lease_is_not_claimable", "two_concurrent_claimers_never_share_an_entry"],
    ),
    (
        Mutant::ClaimIsNotCounted,
        &[
            "a_crash_loop_runs_out_of_attempts",
            "attempts_are_exact",
            "a_reap_buries_what_has_no_attempts_left",
        ],
    ),
    (Mutant::ReadsByLastSeq, &["a_lower_seq_that_commits_later_is_still_claimed"]),
    (
        Mutant::RollbackLeaks,
        &[
            "a_rolled_back_event_is_never_delivered",
            "a_savepoint_rollback_takes_its_events_with_it",
            "a_rolled_back_entry_is_never_read",
        ],
    ),
    (
        Mutant::ReapForgetsEntry,
        &["an_expired_lease_is_returned_to_the_queue", "a_late_settle_after_a_reap_is_fenced"],
    ),
    (
        Mutant::FenceRestarts,
        &[
            "the_fence_grows_with_every_claim",
            "the_fence_grows_when_the_clock_steps_back",
            "a_stale_fence_settles_nothing",
            "the_fence_of_a_lane_grows_with_every_owner",
            "a_stale_fence_of_a_lane_settles_nothing",
        ],
    ),
    (
        Mutant::CrashConvicts,
        &[
            "a_crash_in_company_is_not_held_against_an_entry",
            "a_burial_in_company_is_not_held_against_an_entry",
        ],
    ),
    (
        Mutant::SuspectsGoTogether,
        &["suspects_come_back_in_ever_smaller_company", "suspects_are_not_claimed_with_the_others"],
    ),
    (Mutant::RowsIgnoreLanes, &["rows_claim_nothing_while_a_route_is_read_by_lanes"]),
    (Mutant::LeasedHeadsAreNotTold, &["what_rows_have_in_flight_is_told_as_a_head"]),
    (
        Mutant::DeadIsDropped,
        &[
            "a_rejected_entry_is_dead_on_its_first_attempt",
            "requeue_resets_attempts_and_keeps_the_event_id",
            "a_death_of_a_lane_is_audited_in_the_same_step",
        ],
    ),
    (
        Mutant::ReleaseLosesEntry,
        &["a_release_gives_the_attempt_back", "a_stopped_relay_releases_what_is_in_flight"],
    ),
    (
        Mutant::LaneSettleIgnoresFence,
        &[
            "a_stale_fence_of_a_lane_settles_nothing",
            "a_buried_session_is_lost",
            "fenced_entries_do_not_disturb_the_rest_of_a_batch",
        ],
    ),
    (
        Mutant::TakeOverIsNotCounted,
        &[
            "what_an_expired_session_had_in_flight_spends_one_attempt",
            "the_last_attempt_of_a_buried_session_is_a_death",
            "a_crash_loop_by_lanes_runs_out_of_attempts",
        ],
    ),
    (
        Mutant::TakeOverCountsEverything,
        &[
            "followers_of_a_waiting_head_spend_nothing",
            "entries_that_were_not_read_spend_nothing",
            "a_session_that_read_nothing_spends_nothing",
        ],
    ),
    (
        Mutant::TakeOverCountsSuspects,
        &[
            "a_session_that_says_nothing_is_not_accused_of_suspects",
            "a_session_that_says_what_it_has_is_taken_at_its_word",
        ],
    ),
    (Mutant::LeavingIsCounted, &["leaving_frees_lanes_at_once_and_spends_nothing"]),
    (Mutant::PresentLeavesOutLateCommits, &["a_lower_seq_that_commits_later_is_told"]),
    (
        Mutant::SurplusIsNotTold,
        &["two_sessions_share_evenly_after_a_hand_over", "the_number_of_shares_can_change_while_running"],
    ),
    (Mutant::SharesAreNotAgreed, &["sessions_that_differ_in_shares_leave_no_lane_unread"]),
    (Mutant::DrawnIsTooHigh, &["a_lower_seq_that_commits_after_idle_reads_is_told"]),
    (Mutant::AuditAfterStatus, &["nothing_is_recorded_while_the_audit_fails"]),
    (Mutant::CompletesWithoutLock, &["concurrent_finishers_complete_a_saga_once"]),
    (
        Mutant::CompensatesForward,
        &["a_failure_before_the_pivot_compensates_in_reverse", "a_relay_compensates_a_saga_to_its_end"],
    ),
    (Mutant::WorkersClockDecides, &["without_a_pinned_time_the_databases_clock_decides"]),
    (
        Mutant::ClaimIgnoresPause,
        &["a_paused_route_is_not_claimed_until_it_is_resumed", "a_running_relay_honours_a_pause"],
    ),
    (Mutant::PausedLanesAreKept, &["a_paused_route_leaves_no_lane_to_anybody"]),
    (Mutant::CancelIgnoresReaders, &["an_entry_of_a_held_lane_is_not_cancelled"]),
    (Mutant::DeadlineIgnoresLostLease, &["a_saga_past_its_deadline_waits_for_a_step_whose_lease_expired"]),
    (
        Mutant::SweepStartsOver,
        &[
            "sagas_that_fail_every_time_hold_up_no_other",
            "a_relay_reaches_what_is_behind_a_hundred_sagas_that_fail",
        ],
    ),
    (
        Mutant::ClaimTakesSteps,
        &["a_claim_without_sagas_leaves_steps_alone", "a_relay_without_sagas_delivers_everything_else"],
    ),
    (Mutant::DiscardTakesSteps, &["a_dead_step_of_an_open_saga_is_not_discarded"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_planted_defect_is_found() {
    let cases: Vec<_> = store::cases::<MemoryHarness>()
        .into_iter()
        .chain(lanes::cases::<MemoryHarness>())
        .chain(saga::cases::<MemoryHarness>())
        .collect();
    for (mutant, names) in FOUND_BY {
        for name in *names {
            let case =
                cases.iter().find(|case| case.name == *name).unwrap_or_else(|| panic!("no case {name}"));
            let harness = MemoryHarness::with_mutant(*mutant);
            let outcome = AssertUnwindSafe((case.run)(&harness)).catch_unwind().await;
            assert!(outcome.is_err(), "{name} passes although {mutant:?} is planted");
        }
    }
}

#[test]
fn every_defect_has_a_case_that_finds_it() {
    let covered: BTreeSet<_> = FOUND_BY.iter().map(|(mutant, _)| *mutant).collect();
    assert_eq!(covered, BTreeSet::from(Mutant::ALL));
}

/// A sink that forgets to report, refuses, or keeps nothing of what it confirms.
struct FaultySink(MemorySink);

#[async_trait]
impl SinkHarness for FaultySink {
    fn name() -> &'static str {
        "a faulty sink"
    }

    async fn start() -> Self {
        Self(MemorySink::new())
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(self.0.clone())
    }

    async fn received(&self) -> Vec<Received> {
        vec![]
    }
}

#[tokio::test]
async fn a_faulty_sink_is_found() {
    let replies = [Reply::Lose, Reply::Answer(Outcome::failed("busy", "")), Reply::Confirm];
    for reply in replies {
        for name in ["every_entry_of_a_batch_is_reported_exactly_once", "a_large_batch_is_delivered"] {
            let harness = FaultySink::start().await;
            harness.0.on(Which::Any, reply.clone());
            let cases = sink::cases();
            let case = cases.iter().find(|case| case.name == name).unwrap();
            let outcome = AssertUnwindSafe((case.run)(&harness)).catch_unwind().await;
            assert!(outcome.is_err(), "{name} passes although the sink does {reply:?}");
        }
    }
}
