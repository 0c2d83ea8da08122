//! What operators see and do.

use pillarbox_core::port::{Admin, ResumeHow, ResumeRequest, SagaAdmin, SagaFilter, Selection};
use pillarbox_core::{ErrorKind, FailureKind, SagaId, SagaStatus, StepState};

use super::SagaHarness;
use super::steps::{booking, dead, done, erasure, forward, person, show, stage, sweep, work};
use crate::conformance::store::steps::{HOUR, select, soon};

/// Oldest first, narrowed by every field, bounded.
pub async fn sagas_are_listed_and_narrowed<H: SagaHarness>(harness: &H) {
    let first = stage(harness, erasure(1)).await;
    work(harness, |_| done()).await;
    let second = stage(harness, erasure(2)).await;
    let third = stage(harness, booking(1)).await;
    let list = async |filter: SagaFilter| -> Vec<SagaId> {
        harness.store().list_sagas(filter).await.unwrap().iter().map(|saga| saga.id).collect()
    };
    assert_eq!(list(SagaFilter::default()).await, [first, second, third]);
    assert_eq!(list(SagaFilter::default().limit(2)).await, [first, second]);
    assert_eq!(list(SagaFilter::default().status(SagaStatus::Completed)).await, [first]);
    assert_eq!(list(SagaFilter::default().name("booking")).await, [third]);
    assert_eq!(list(SagaFilter::default().subject(person(1))).await, [first, third]);
    let over = SagaFilter::default().limit(10_001);
    assert_eq!(harness.store().list_sagas(over).await.unwrap_err().kind(), ErrorKind::Invalid);
}

/// Every status is counted, zeros included; what waits for somebody is stuck.
pub async fn sagas_are_counted_by_status<H: SagaHarness>(harness: &H) {
    let empty = harness.store().saga_counts(None).await.unwrap();
    assert_eq!((empty.counts.len(), empty.stuck(), empty.oldest_stuck_age), (6, 0, None));
    stage(harness, erasure(1)).await;
    work(harness, |_| done()).await;
    stage(harness, erasure(2)).await;
    work(harness, |_| dead(FailureKind::Rejected)).await;
    stage(harness, booking(1)).await;
    let later = soon(harness).await.saturating_add(HOUR);
    let counts = harness.store().saga_counts(Some(later)).await.unwrap();
    assert_eq!(counts.of(SagaStatus::Completed), 1);
    assert_eq!(counts.of(SagaStatus::Blocked), 1);
    assert_eq!(counts.of(SagaStatus::Running), 1);
    assert_eq!(counts.stuck(), 1);
    assert!(counts.oldest_stuck_age.unwrap() >= HOUR);
}

/// Steps, attempts and records in one line of time.
pub async fn a_sagas_timeline_joins_steps_attempts_and_audit<H: SagaHarness>(harness: &H) {
    let id = stage(harness, booking(1)).await;
    while !show(harness, id).await.saga.status.is_ended() {
        work(harness, |name| if name == "card.charge" { dead(FailureKind::Rejected) } else { done() }).await;
    }
    let story = show(harness, id).await;
    let timeline = story.timeline();
    assert!(timeline.is_sorted_by_key(|item| item.at));
    let count = |what: &str| timeline.iter().filter(|item| item.what == what).count();
    assert_eq!((count("staged"), count("step_staged"), count("attempt")), (1, 5, 5));
    assert_eq!((count("step_succeeded"), count("step_compensated"), count("compensated")), (2, 2, 1));
    let failed = timeline.iter().find(|item| item.what == "step_failed").unwrap();
    assert_eq!((failed.step.as_deref(), failed.actor.as_deref()), (Some("pay"), Some("worker-1")));
    let states: Vec<_> = story.saga.steps.iter().map(|step| step.state).collect();
    assert_eq!(
        states,
        [StepState::Compensated, StepState::Compensated, StepState::Failed, StepState::Waiting]
    );
}

/// A saga that is not there or waits for nobody is a typed error; nothing changes.
pub async fn only_a_stuck_saga_is_resumed<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    let resume = async |id, actor: &str| {
        let request = ResumeRequest { id, how: ResumeHow::Retry, actor: actor.into(), now: None };
        harness.store().resume_saga(request).await.map_err(|error| error.kind())
    };
    assert_eq!(resume(SagaId(uuid::Uuid::nil()), "ops").await, Err(ErrorKind::NotFound));
    assert_eq!(resume(id, "ops").await, Err(ErrorKind::Invalid));
    assert_eq!(resume(id, "").await, Err(ErrorKind::Invalid));
    work(harness, |_| dead(FailureKind::Rejected)).await;
    let resumed = resume(id, "ops").await.unwrap();
    assert_eq!((resumed.status, resumed.requeued), (SagaStatus::Running, 3));
    assert_eq!(resume(id, "ops").await, Err(ErrorKind::Invalid));
    assert_eq!(work(harness, |_| done()).await.len(), 3);
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::Completed);
}

/// A dead step that an operator discards holds its saga for ever, and no sweep comes back to it.
pub async fn a_discarded_step_blocks_its_saga_for_ever<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    work(harness, |name| if name == "crm.erase" { dead(FailureKind::Rejected) } else { done() }).await;
    let request = select(Selection::Ids(vec![forward(id, "crm")]));
    assert_eq!(harness.store().discard(request).await.unwrap().changed, 1);
    let now = soon(harness).await;
    assert_eq!(sweep(harness, now).await.changed, 1);
    assert_eq!(sweep(harness, now).await.seen, 0);
    let saga = show(harness, id).await.saga;
    assert_eq!((saga.status, saga.steps[0].state), (SagaStatus::Blocked, StepState::Abandoned));
    let request = ResumeRequest { id, how: ResumeHow::Retry, actor: "ops".into(), now: None };
    assert_eq!(harness.store().resume_saga(request).await.unwrap_err().kind(), ErrorKind::Invalid);
}
