//! Steps in order, with compensation.

use std::time::Duration;

use pillarbox_core::port::{Intervention, InterventionRequest, ReapRequest, SagaAdmin, StepOutcome, Steps};
use pillarbox_core::{AuditKind, FailureKind, SagaId, SagaStatus, Status, StepInput, StepState};
use serde_json::json;

use super::SagaHarness;
use super::steps::{
    back, booking, claim, dead, done, forward, kinds, overtake, person, settle, show, stage, sweep, work,
};
use crate::store::steps::{HOUR, reap, reap_request, retry, soon};

async fn resume<H: SagaHarness>(
    harness: &H,
    id: SagaId,
    what: Intervention,
) -> pillarbox_core::Result<SagaStatus> {
    let request = InterventionRequest { id, what, actor: "ops".into(), now: None };
    harness.store().intervene(request).await.map(|resumed| resumed.status)
}

/// Each after the one before, with what it passed on.
pub async fn steps_in_order_follow_each_other_and_pass_data_on<H: SagaHarness>(harness: &H) {
    let id = stage(harness, booking(1)).await;
    for (n, handler) in ["hotel.book", "car.book", "card.charge", "mail.send"].iter().enumerate() {
        let now = soon(harness).await;
        let entries = claim(harness, 10, now).await;
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].event_type, *handler);
        let input: StepInput = serde_json::from_slice(&entries[0].payload).unwrap();
        assert_eq!((input.data.len(), input.saga, input.generation), (n, id, 1));
        assert_eq!(input.data.get("hotel"), (n > 0).then_some(&json!({"n": 0})));
        let outcome = StepOutcome::Done { data: Some(json!({ "n": n })) };
        assert_eq!(settle(harness, vec![(&entries[0], outcome)], now).await.ended.len(), usize::from(n == 3));
    }
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::Completed);
}

/// Whatever may have run, the last first; what failed cannot be requeued any more.
pub async fn a_failure_before_the_pivot_compensates_in_reverse<H: SagaHarness>(harness: &H) {
    let id = stage(harness, booking(1)).await;
    let fails = |name: &str| if name == "card.charge" { dead(FailureKind::Rejected) } else { done() };
    let mut ran = vec![];
    while !show(harness, id).await.saga.status.is_ended() {
        ran.extend(work(harness, fails).await);
    }
    assert_eq!(ran, ["hotel.book", "car.book", "card.charge", "car.cancel", "hotel.cancel"]);
    let story = show(harness, id).await;
    assert_eq!(story.saga.status, SagaStatus::Compensated);
    let charge = story.entries.iter().find(|entry| entry.event_id == forward(id, "pay")).unwrap();
    assert_eq!(charge.status, Status::Discarded);
    assert!(story.entries.iter().any(|entry| entry.event_id == back(id, "car")));
    use AuditKind::{Compensated, Compensating, StepCompensated, StepFailed, StepSucceeded};
    assert_eq!(
        kinds(harness, &person(1)).await,
        [
            StepSucceeded,
            StepSucceeded,
            StepFailed,
            Compensating,
            StepCompensated,
            StepCompensated,
            Compensated
        ]
    );
}

/// A step that failed half-way is undone as well; one that was refused at once is not.
pub async fn a_step_that_may_have_run_is_compensated_too<H: SagaHarness>(harness: &H) {
    for (n, kind, undone) in [(1, FailureKind::Failed, true), (2, FailureKind::Rejected, false)] {
        let id = stage(harness, booking(n)).await;
        let mut ran = vec![];
        while !show(harness, id).await.saga.status.is_ended() {
            ran.extend(work(harness, |name| if name == "car.book" { dead(kind) } else { done() }).await);
        }
        assert_eq!(ran.contains(&"car.cancel".to_owned()), undone, "{ran:?}");
        assert_eq!(ran.last().map(String::as_str), Some("hotel.cancel"));
    }
}

/// A step that is given up after the pivot blocks its saga until an operator requeues it.
pub async fn after_the_pivot_a_saga_only_goes_forward<H: SagaHarness>(harness: &H) {
    let id = stage(harness, booking(1)).await;
    for _ in 0..4 {
        work(harness, |name| if name == "mail.send" { dead(FailureKind::Rejected) } else { done() }).await;
    }
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::Blocked);
    assert!(work(harness, |_| done()).await.is_empty());
    assert!(resume(harness, id, Intervention::Compensate).await.is_err());
    assert_eq!(resume(harness, id, Intervention::Retry).await.unwrap(), SagaStatus::Running);
    assert_eq!(work(harness, |_| done()).await, ["mail.send"]);
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::Completed);
}

/// It is unknown whether the step ran: the saga waits, and a retry has the same key.
pub async fn an_unknown_outcome_compensates_nothing<H: SagaHarness>(harness: &H) {
    let id = stage(harness, booking(1)).await;
    work(harness, |_| done()).await;
    work(harness, |_| dead(FailureKind::Unknown)).await;
    let story = show(harness, id).await;
    assert_eq!((story.saga.status, story.saga.steps[1].state), (SagaStatus::Blocked, StepState::Dead));
    assert!(work(harness, |_| done()).await.is_empty(), "nothing is undone and nothing goes on");
    assert_eq!(resume(harness, id, Intervention::Retry).await.unwrap(), SagaStatus::Running);
    let entries = claim(harness, 10, soon(harness).await).await;
    assert_eq!(entries[0].event_id, forward(id, "car"));
    assert_eq!(entries[0].attempts, 1, "a fresh budget");
}

/// An operator may decide about an unknown outcome: the step in doubt is undone too.
pub async fn an_operator_compensates_what_is_unknown<H: SagaHarness>(harness: &H) {
    let id = stage(harness, booking(1)).await;
    work(harness, |_| done()).await;
    work(harness, |_| dead(FailureKind::LeaseExpired)).await;
    assert_eq!(resume(harness, id, Intervention::Compensate).await.unwrap(), SagaStatus::Compensating);
    assert_eq!(sweep(harness, soon(harness).await.saturating_add(HOUR)).await.changed, 1);
    assert_eq!(work(harness, |_| done()).await, ["car.cancel"]);
    assert_eq!(work(harness, |_| done()).await, ["hotel.cancel"]);
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::Compensated);
    assert!(kinds(harness, &person(1)).await.contains(&AuditKind::Resumed));
}

/// It is seen at once, the rest is undone all the same, and a resume ends it.
pub async fn a_failed_compensation_is_seen_and_the_rest_still_run<H: SagaHarness>(harness: &H) {
    let id = stage(harness, booking(1)).await;
    let outcome = |name: &str| match name {
        "card.charge" => dead(FailureKind::Rejected),
        "car.cancel" => dead(FailureKind::Failed),
        _ => done(),
    };
    for _ in 0..4 {
        work(harness, outcome).await;
    }
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::CompensationFailed);
    assert_eq!(work(harness, outcome).await, ["hotel.cancel"]);
    let saga = show(harness, id).await.saga;
    assert_eq!((saga.status, saga.ended_at), (SagaStatus::CompensationFailed, None));
    assert_eq!(resume(harness, id, Intervention::Retry).await.unwrap(), SagaStatus::Compensating);
    assert_eq!(work(harness, |_| done()).await, ["car.cancel"]);
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::Compensated);
    let kinds = kinds(harness, &person(1)).await;
    assert_eq!(kinds.iter().filter(|kind| **kind == AuditKind::CompensationFailed).count(), 1);
}

/// Past its time nothing new is begun, and what ran is undone.
pub async fn a_saga_past_its_deadline_goes_back<H: SagaHarness>(harness: &H) {
    let id = stage(harness, booking(1).timeout(Duration::from_secs(600))).await;
    work(harness, |_| done()).await;
    let now = soon(harness).await;
    assert_eq!(sweep(harness, now).await.seen, 0);
    // The next step waits for its next attempt.
    let entries = claim(harness, 10, now).await;
    let waits = vec![(entries[0].held(), retry(HOUR * 2))];
    assert_eq!(crate::store::steps::settle_all(harness, waits, now).await.accepted, 1);
    let late = now.saturating_add(HOUR);
    let counts = harness.store().saga_counts(Some(late)).await.unwrap();
    assert_eq!((counts.overdue, counts.stuck()), (1, 1));
    assert_eq!(sweep(harness, late).await.changed, 1);
    let story = show(harness, id).await;
    assert_eq!(story.saga.status, SagaStatus::Compensating);
    assert_eq!(work(harness, |_| done()).await, ["car.cancel"]);
    assert_eq!(work(harness, |_| done()).await, ["hotel.cancel"]);
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::Compensated);
}

/// A lease that ended is no knowledge: past its time the step is tried again under its key, and only what is known to
/// have failed is undone.
pub async fn a_saga_past_its_deadline_waits_for_a_step_whose_lease_expired<H: SagaHarness>(harness: &H) {
    let id = stage(harness, booking(1).timeout(Duration::from_secs(600))).await;
    work(harness, |_| done()).await;
    let now = soon(harness).await;
    assert_eq!(claim(harness, 10, now).await.len(), 1);
    let late = now.saturating_add(HOUR);
    let request = ReapRequest { steps: Steps::Take, ..reap_request(late) };
    assert_eq!(reap(harness, request).await.released, 1);
    for sweep_at in [late, late.saturating_add(HOUR)] {
        let _ = sweep(harness, sweep_at).await;
        let saga = show(harness, id).await.saga;
        assert_eq!((saga.status, saga.steps[1].state), (SagaStatus::Running, StepState::Running));
    }
    let late = late.saturating_add(HOUR);
    let entries = overtake(harness, 10, late).await;
    assert_eq!(entries[0].event_id, forward(id, "car"), "the same key");
    let waits = vec![(entries[0].held(), retry(HOUR))];
    assert_eq!(crate::store::steps::settle_all(harness, waits, late).await.accepted, 1);
    assert_eq!(sweep(harness, late.saturating_add(Duration::from_secs(60))).await.changed, 1);
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::Compensating, "by now it is known");
}
