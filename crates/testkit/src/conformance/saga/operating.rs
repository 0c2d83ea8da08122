//! What operators see and do.

use std::time::Duration;

use pillarbox_core::port::{
    Admin, Effect, PurgeRequest, ResumeHow, ResumeRequest, SagaAdmin, SagaFilter, Selection,
};
use pillarbox_core::{AuditKind, ErrorKind, FailureKind, SagaId, SagaStatus, StepState, Timestamp};

use super::SagaHarness;
use super::steps::{booking, dead, done, erasure, forward, kinds, person, show, stage, sweep, work};
use crate::conformance::Tamper;
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

fn purge_request(now: Timestamp) -> PurgeRequest {
    PurgeRequest {
        older_than: HOUR,
        limit: 1000,
        actor: "retention".into(),
        effect: Effect::Apply,
        now: Some(now),
    }
}

/// By age, to the microsecond, completed or compensated; what runs or waits for somebody stays, and so does the trail.
pub async fn an_ended_saga_goes_by_age_and_its_trail_stays<H: SagaHarness>(harness: &H) {
    let completed = stage(harness, erasure(1)).await;
    let compensated = stage(harness, booking(2)).await;
    while !show(harness, compensated).await.saga.status.is_ended() {
        work(harness, |name| if name == "card.charge" { dead(FailureKind::Rejected) } else { done() }).await;
    }
    let blocked = stage(harness, erasure(3)).await;
    work(harness, |_| dead(FailureKind::Rejected)).await;
    let running = stage(harness, erasure(4)).await;
    let (done_trail, undone_trail) = (kinds(harness, &person(1)).await, kinds(harness, &person(2)).await);

    let ended_at = async |id| show(harness, id).await.saga.ended_at.expect("an ended saga");
    let last = ended_at(completed).await.max(ended_at(compensated).await);
    let early = last.saturating_add(HOUR).saturating_sub(Duration::from_micros(1));
    assert!(harness.store().purge_sagas(purge_request(early)).await.unwrap().purged < 2);
    let late = last.saturating_add(HOUR * 24 * 3650);
    let _ = harness.store().purge_sagas(purge_request(late)).await.unwrap();
    for id in [completed, compensated] {
        assert!(harness.store().show_saga(id).await.unwrap().is_none(), "it is gone");
    }
    let left = harness.store().list_sagas(SagaFilter::default()).await.unwrap();
    assert_eq!(left.iter().map(|saga| saga.id).collect::<Vec<_>>(), [blocked, running]);

    assert_eq!(kinds(harness, &person(1)).await, done_trail);
    assert_eq!(kinds(harness, &person(2)).await, undone_trail);
    // What it left in the outbox is nobody's concern, and the subject can have a saga again.
    let now = soon(harness).await;
    assert_eq!(sweep(harness, now).await.changed, 0);
    let again = stage(harness, erasure(1)).await;
    while !show(harness, again).await.saga.status.is_ended() {
        work(harness, |_| done()).await;
    }
    assert_eq!(kinds(harness, &person(1)).await.len(), 2 * done_trail.len());
}

/// At most so many at once, audited with its number, nothing while the audit fails or for a dry run.
pub async fn a_purge_of_sagas_is_bounded_and_audited_with_its_count<H: SagaHarness>(harness: &H) {
    for n in 1..=5 {
        stage(harness, erasure(n)).await;
    }
    work(harness, |_| done()).await;
    let later = soon(harness).await.saturating_add(HOUR);
    let bounded = || PurgeRequest { limit: 3, ..purge_request(later) };
    let dry = PurgeRequest { effect: Effect::DryRun, ..bounded() };
    assert_eq!(harness.store().purge_sagas(dry).await.unwrap().purged, 3);
    let unnamed = PurgeRequest { actor: String::new(), ..bounded() };
    assert_eq!(harness.store().purge_sagas(unnamed).await.unwrap_err().kind(), ErrorKind::Invalid);
    if harness.tamper(Tamper::FailAudit).await {
        assert!(harness.store().purge_sagas(bounded()).await.is_err());
        assert!(harness.tamper(Tamper::RepairAudit).await);
    }
    let count = async || harness.store().list_sagas(SagaFilter::default()).await.unwrap().len();
    assert_eq!(count().await, 5, "nothing has gone yet");
    let mut purged = vec![];
    for _ in 0..3 {
        purged.push(harness.store().purge_sagas(bounded()).await.unwrap().purged);
    }
    assert_eq!((purged, count().await), (vec![3, 2, 0], 0));
    let trail = harness.store().audit(100).await.unwrap();
    let purges = trail.iter().filter(|record| record.kind == AuditKind::SagasPurged);
    let purges: Vec<_> = purges.map(|record| (record.actor.as_str(), record.detail.as_str())).collect();
    assert_eq!(purges, [("retention", "3"), ("retention", "2")], "a purge of nothing leaves no record");
}
