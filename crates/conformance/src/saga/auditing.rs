//! The trail: append-only, before the status, and atomic per entry.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pillarbox_core::port::{AuditSink, ReapRequest, SagaHooks, Steps};
use pillarbox_core::{
    AuditKind, CRASHES_IN_COMPANY, Error, ErrorKind, FailureKind, NewAudit, Result, SagaStatus, Status,
};
use pillarbox_engine::sink::Handlers;

use super::SagaHarness;
use super::steps::{
    claim, dead, done, erasure, kinds, overtake, person, relay, settle, show, stage, sweep, trail,
    try_settle, work,
};
use crate::Tamper;
use crate::store::between::PATIENCE;
use crate::store::steps::{LEASE, reap, reap_request, soon, tamper};
use pillarbox_testkit::eventually;

/// Remembers what it was told, and refuses the records of one subject.
#[derive(Default)]
struct Remembers {
    told: Mutex<Vec<NewAudit>>,
    refuses: Mutex<Option<String>>,
}

#[async_trait]
impl<Tx: Send + 'static> AuditSink<Tx> for Remembers {
    async fn record(&self, _tx: &mut Tx, records: &[NewAudit]) -> Result<()> {
        let refuses = self.refuses.lock().unwrap().clone();
        if records.iter().any(|record| Some(&record.subject.value) == refuses.as_ref()) {
            return Err(Error::new(ErrorKind::Internal, "the sink is down"));
        }
        self.told.lock().unwrap().extend_from_slice(records);
        Ok(())
    }
}

/// Each step's end, then the saga's, oldest first, by subject.
pub async fn every_end_is_in_the_trail_of_its_subject<H: SagaHarness>(harness: &H) {
    stage(harness, erasure(1)).await;
    stage(harness, erasure(2)).await;
    work(harness, |name| if name == "files.erase" { dead(FailureKind::Rejected) } else { done() }).await;
    let records = trail(harness, &person(1)).await;
    let named =
        |step: &str| records.iter().find(|(_, of)| of.as_deref() == Some(step)).map(|(kind, _)| *kind);
    assert_eq!(records.len(), 3);
    assert_eq!(named("crm"), Some(AuditKind::StepSucceeded));
    assert_eq!(named("files"), Some(AuditKind::StepFailed));
    let all = pillarbox_core::port::SagaAdmin::audit_of(&*harness.store(), &person(2)).await.unwrap();
    let failed = all.iter().find(|record| record.kind == AuditKind::StepFailed).unwrap();
    assert!(failed.detail.starts_with("abandoned"), "{}", failed.detail);
    assert_eq!(failed.subject, Some(person(2)));
    assert!(failed.event_id.is_some() && failed.saga_id.is_some() && failed.route.is_some());
    assert_eq!(failed.actor, "worker-1");
    assert!(trail(harness, &person(3)).await.is_empty());
}

/// Transient failures are not audited.
pub async fn a_retried_step_leaves_no_record<H: SagaHarness>(harness: &H) {
    stage(harness, erasure(1)).await;
    let handlers =
        ["crm.erase", "files.erase", "payments.erase"].iter().fold(Handlers::new(), |handlers, name| {
            let fails_once = async |handling: pillarbox_engine::sink::Handling| {
                if handling.attempt() == 1 {
                    return Err(pillarbox_engine::sink::HandlerError::retry("busy", ""));
                }
                Ok(())
            };
            handlers.on(name, fails_once).unwrap()
        });
    let relay = relay(harness, SagaHooks::default(), handlers).build().unwrap();
    eventually(PATIENCE, async || {
        relay.drain().await.unwrap();
        kinds(harness, &person(1)).await.contains(&AuditKind::Completed)
    })
    .await;
    assert_eq!(kinds(harness, &person(1)).await.len(), 4);
}

/// Neither the status without its record nor the record without its status; the lease heals the work.
pub async fn nothing_is_recorded_while_the_audit_fails<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    let now = soon(harness).await;
    let entries = claim(harness, 10, now).await;
    tamper!(harness, Tamper::FailAudit);
    for outcome in [done(), dead(FailureKind::Rejected)] {
        let outcomes = entries.iter().map(|entry| (entry, outcome.clone())).collect();
        assert!(try_settle(harness, SagaHooks::default(), outcomes, now).await.is_err());
    }
    let story = show(harness, id).await;
    assert!(story.entries.iter().all(|entry| entry.status == Status::InFlight));
    assert_eq!((story.saga.status, story.audit.len()), (SagaStatus::Running, 0));
    tamper!(harness, Tamper::RepairAudit);
    let later = now.saturating_add(LEASE * 2);
    let entries = overtake(harness, 10, later).await;
    assert_eq!(entries.len(), 3);
    assert_eq!(
        settle(harness, entries.iter().map(|entry| (entry, done())).collect(), later).await.ended,
        [id]
    );
}

/// An audit sink gets every record, in order, and a change whose record it refuses does not happen.
pub async fn a_sink_is_told_before_the_status<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    let sink = Arc::new(Remembers::default());
    let hooks = || SagaHooks::default().sink(sink.clone());
    let now = soon(harness).await;
    let entries = claim(harness, 10, now).await;
    *sink.refuses.lock().unwrap() = Some("p-1".into());
    let outcomes = || entries.iter().map(|entry| (entry, done())).collect();
    assert!(try_settle(harness, hooks(), outcomes(), now).await.is_err());
    assert!(show(harness, id).await.audit.is_empty());
    *sink.refuses.lock().unwrap() = None;
    assert_eq!(try_settle(harness, hooks(), outcomes(), now).await.unwrap().ended, [id]);
    let told: Vec<_> =
        sink.told.lock().unwrap().iter().map(|record| (record.kind, record.step.clone())).collect();
    assert_eq!(told, trail(harness, &person(1)).await);
}

/// The others of a batch are settled, and no handler of theirs runs again.
pub async fn one_failing_record_does_not_run_its_batch_again<H: SagaHarness>(harness: &H) {
    for n in 1..=5 {
        stage(harness, erasure(n)).await;
    }
    let sink = Arc::new(Remembers::default());
    *sink.refuses.lock().unwrap() = Some("p-3".into());
    let runs = Arc::new(Mutex::new(vec![]));
    let handlers =
        ["crm.erase", "files.erase", "payments.erase"].iter().fold(Handlers::new(), |handlers, name| {
            let runs = Arc::clone(&runs);
            let counted = move |handling: pillarbox_engine::sink::Handling| {
                runs.lock().unwrap().push((handling.step().unwrap().subject.value, handling.event_id()));
                async { Ok(()) }
            };
            handlers.on(name, counted).unwrap()
        });
    let relay = relay(harness, SagaHooks::default().sink(sink), handlers).build().unwrap();
    // A one-shot run returns the error of a verdict that cannot be recorded to its caller.
    assert!(relay.drain().await.is_err());
    for n in [1, 2, 4, 5] {
        assert_eq!(kinds(harness, &person(n)).await.last(), Some(&AuditKind::Completed), "person {n}");
    }
    assert!(kinds(harness, &person(3)).await.is_empty());
    let runs = runs.lock().unwrap();
    assert_eq!(runs.len(), 15, "every handler ran once");
}

/// A death by a reap is noticed, audited as a step's, and blocks the saga.
pub async fn a_reaped_step_is_noticed<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    let mut now = soon(harness).await;
    assert_eq!(claim(harness, 10, now).await.len(), 3);
    for _ in 1..CRASHES_IN_COMPANY + 5 {
        now = now.saturating_add(LEASE * 2);
        let mut held = 0;
        while held < 3 {
            held += overtake(harness, 10, now).await.len();
        }
    }
    now = now.saturating_add(LEASE * 2);
    let request = ReapRequest { steps: Steps::Take, ..reap_request(now) };
    assert_eq!(reap(harness, request).await.dead.len(), 3);
    assert_eq!(sweep(harness, now).await.changed, 1);
    let story = show(harness, id).await;
    assert_eq!((story.saga.status, story.saga.dead()), (SagaStatus::Blocked, 3));
    let failed = kinds(harness, &person(1)).await;
    assert_eq!(failed.iter().filter(|kind| **kind == AuditKind::StepFailed).count(), 3);
    assert_eq!(sweep(harness, now).await.seen, 0, "it knows it by now");
}
