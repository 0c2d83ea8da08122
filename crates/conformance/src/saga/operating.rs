//! What operators see and do.

use std::collections::BTreeSet;
use std::time::Duration;

use pillarbox_core::port::{
    Admin, Changed, Effect, Filter, Intervened, Intervention, InterventionRequest, PurgeRequest, SagaAdmin,
    SagaFilter, SagaHooks, Selection, SelectionRequest, Skip, StageSaga, SweepRequest,
};
use pillarbox_core::{
    AuditKind, ErrorKind, FailureKind, SagaId, SagaRecord, SagaStatus, Status, Step, StepState, Timestamp,
};

use super::SagaHarness;
use super::steps::{
    StagesEnd, booking, claim, dead, done, ended, erasure, forward, kinds, person, settle, show, stage,
    sweep, work,
};
use crate::Tamper;
use crate::store::steps::{
    HOUR, ROUTE, dead as bury, event, id, route, select, settle_all, soon, stage as stage_plain,
};

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

/// Page by page, whatever its size, also among sagas of one moment, and if the saga at the end of a page has
/// been purged meanwhile.
pub async fn a_list_of_sagas_goes_on_behind_its_last_saga<H: SagaHarness>(harness: &H) {
    stage(harness, erasure(1)).await;
    stage(harness, erasure(2)).await;
    work(harness, |_| done()).await;
    // One transaction, so that some have the same time. Their ids fall, and are above those of the first two.
    let mut tx = harness.begin().await;
    for n in 3..=7 {
        let id = SagaId(uuid::Uuid::from_u128(u128::MAX - u128::from(n)));
        let saga = booking(n).id(id).build().unwrap();
        assert_eq!(harness.outbox(ROUTE).stage_saga(&mut tx, saga).await.unwrap().id(), id);
    }
    harness.commit(tx).await;

    let list =
        async |filter: SagaFilter| -> Vec<SagaRecord> { harness.store().list_sagas(filter).await.unwrap() };
    let ids = |sagas: &[SagaRecord]| -> Vec<SagaId> { sagas.iter().map(|saga| saga.id).collect() };
    let of = |status| SagaFilter::default().status(status);
    for (filter, count) in
        [(SagaFilter::default(), 7), (of(SagaStatus::Running), 5), (of(SagaStatus::Completed), 2)]
    {
        let wanted = list(filter.clone()).await;
        assert_eq!(wanted.len(), count, "{filter:?}");
        assert!(wanted.is_sorted_by_key(SagaRecord::cursor), "{:?}", ids(&wanted));
        for limit in [1, 2, 100] {
            let (mut seen, mut page) = (vec![], filter.clone().limit(limit));
            loop {
                let sagas = list(page.clone()).await;
                let Some(last) = sagas.last() else { break };
                page = page.after(last.cursor());
                seen.extend(ids(&sagas));
                assert!(seen.len() <= count, "a page begins behind the one before: {page:?}");
            }
            assert_eq!(seen, ids(&wanted), "{page:?}");
        }
    }

    let all = list(SagaFilter::default()).await;
    let late = soon(harness).await.saturating_add(HOUR * 24);
    assert_eq!(harness.store().purge_sagas(purge_request(late)).await.unwrap().purged, 2);
    for gone in &all[..2] {
        let rest = list(SagaFilter::default().after(gone.cursor())).await;
        assert_eq!(ids(&rest), ids(&all[2..]));
    }
}

/// Every status is counted, zeros included; a saga that waits for an operator is stuck.
pub async fn sagas_are_counted_by_status<H: SagaHarness>(harness: &H) {
    let empty = harness.store().saga_counts(None).await.unwrap();
    assert_eq!((empty.counts.len(), empty.stuck(), empty.oldest_stuck_age), (7, 0, None));
    assert!(empty.open.is_empty());
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
    assert_eq!(counts.open, [(route(ROUTE), 2)].into());
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

/// A saga that does not exist or does not wait for an operator is a typed error; nothing changes.
pub async fn only_a_stuck_saga_is_resumed<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    let resume = async |id, actor: &str| {
        let request = InterventionRequest { id, what: Intervention::Retry, actor: actor.into(), now: None };
        harness.store().intervene(request).await.map_err(|error| error.kind())
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

async fn intervene<H: SagaHarness>(
    harness: &H,
    id: SagaId,
    what: Intervention,
) -> pillarbox_core::Result<Intervened> {
    let request = InterventionRequest { id, what, actor: "ops".into(), now: None };
    harness.store().intervene(request).await
}

fn abandon() -> Intervention {
    Intervention::Abandon { reason: "the person moved away".into() }
}

/// Without it the saga could never end. What else was selected goes, and the sagas are named.
pub async fn a_dead_step_of_an_open_saga_is_not_discarded<H: SagaHarness>(harness: &H) {
    let sagas: BTreeSet<SagaId> = [stage(harness, erasure(1)).await, stage(harness, erasure(2)).await].into();
    stage_plain(harness, vec![event(1), event(2).group_id("a group")]).await;
    let now = soon(harness).await;
    let entries = claim(harness, 100, now).await;
    let (steps, plain): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.is_step());
    assert_eq!(
        settle(harness, steps.into_iter().map(|entry| (entry, dead(FailureKind::Rejected))).collect(), now)
            .await
            .accepted,
        6
    );
    assert_eq!(
        settle_all(harness, plain.into_iter().map(|entry| (entry.held(), bury())).collect(), now)
            .await
            .accepted,
        2
    );
    let one = sagas.first().copied().unwrap();
    let by_id = || select(Selection::Ids(vec![forward(one, "crm"), id(1)]));
    let bulk = || select(Selection::Matching(Filter::dead()));
    for effect in [Effect::DryRun, Effect::Apply] {
        let changed = harness.store().discard(SelectionRequest { effect, ..by_id() }).await.unwrap();
        assert_eq!((changed.changed, changed.skipped, changed.sagas), (1, 1, vec![one]));
        assert_eq!(changed.skips[0].why, Skip::OpenSaga(one));
    }
    for effect in [Effect::DryRun, Effect::Apply] {
        let changed = harness.store().discard(SelectionRequest { effect, ..bulk() }).await.unwrap();
        assert_eq!((changed.changed, changed.sagas.into_iter().collect()), (1, sagas.clone()));
    }
    assert_eq!(sweep(harness, now).await.seen, 0, "their sagas know nothing new");
    for id in &sagas {
        assert!(show(harness, *id).await.entries.iter().all(|entry| entry.status == Status::Dead));
    }
    // Requeued they may be: their sagas go on, and are named too.
    let changed = harness.store().requeue(bulk()).await.unwrap();
    assert_eq!((changed.changed, changed.sagas.len()), (6, 2));
    // What a saga that has ended left behind is an entry as any other.
    assert_eq!(intervene(harness, one, abandon()).await.unwrap().discarded, 3);
    assert_eq!(harness.store().discard(bulk()).await.unwrap(), Changed::default());
    // Nor is a step cancelled while it waits.
    let waiting = select(Selection::Matching(Filter::default()));
    let changed = harness.store().cancel(waiting).await.unwrap();
    assert_eq!((changed.changed, changed.skipped, changed.sagas), (0, 3, vec![]));
}

/// After the pivot, or in a group: the saga goes on to its end, with the callback, and the trail says why.
pub async fn an_operator_skips_a_step_and_the_saga_completes<H: SagaHarness>(harness: &H) {
    let skip = |step: &str| Intervention::Skip { step: step.into(), reason: "sent by hand".into() };
    let end = StagesEnd::new(harness);
    let later = soon(harness).await.saturating_add(HOUR);
    let sweep = async || {
        let sagas = harness.sagas(SagaHooks::default().end(end.clone()));
        sagas
            .sweep(SweepRequest { limit: 10, after: None, owner: "sweeper".into(), now: Some(later) })
            .await
            .unwrap()
    };
    let id = stage(harness, booking(1).step(Step::retryable("survey", "survey.send"))).await;
    assert_eq!(intervene(harness, id, skip("hotel")).await.unwrap_err().kind(), ErrorKind::Invalid);
    let fails = |name: &str| if name.ends_with(".send") { dead(FailureKind::Rejected) } else { done() };
    for _ in 0..4 {
        work(harness, fails).await;
    }
    assert_eq!(intervene(harness, id, skip("survey")).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(intervene(harness, id, skip("mail")).await.unwrap().status, SagaStatus::Running);
    assert_eq!(work(harness, fails).await, ["survey.send"], "the next step follows");
    assert_eq!(intervene(harness, id, skip("survey")).await.unwrap().discarded, 1);
    assert_eq!(sweep().await.ended, [id]);
    let story = show(harness, id).await;
    assert_eq!(story.saga.status, SagaStatus::Completed);
    assert!(story.entries.iter().all(|entry| entry.status.is_terminal() && entry.status != Status::Dead));
    let skipped = story.audit.iter().filter(|record| record.kind == AuditKind::StepSkipped);
    let skipped: Vec<_> = skipped
        .map(|record| (record.step.as_deref(), record.actor.as_str(), record.detail.as_str()))
        .collect();
    assert_eq!(skipped, [(Some("mail"), "ops", "sent by hand"), (Some("survey"), "ops", "sent by hand")]);

    let group = stage(harness, erasure(2)).await;
    work(harness, |name| if name == "crm.erase" { dead(FailureKind::Rejected) } else { done() }).await;
    assert_eq!(intervene(harness, group, skip("crm")).await.unwrap().status, SagaStatus::Running);
    assert_eq!(sweep().await.ended, [group]);
    assert_eq!(ended(harness).await.len(), 2, "the callback was told of both");
}

/// Running, claimed, blocked, being undone or stuck there: it ends, nothing of it runs any more, and the
/// trail says who wanted it and why.
pub async fn an_operator_abandons_a_saga_wherever_it_is<H: SagaHarness>(harness: &H) {
    use SagaStatus::{Blocked, Compensating, CompensationFailed, Running};
    let outcome = |name: &str| match name {
        "car.book" => dead(FailureKind::Failed),
        "car.cancel" => dead(FailureKind::Rejected),
        _ => done(),
    };
    for (n, (status, rounds)) in
        (1..).zip([(Running, 0), (Running, 1), (Compensating, 2), (CompensationFailed, 3), (Blocked, 0)])
    {
        let id = stage(harness, if status == Blocked { erasure(n) } else { booking(n) }).await;
        for _ in 0..rounds {
            work(harness, outcome).await;
        }
        if status == Blocked {
            work(harness, |_| dead(FailureKind::Rejected)).await;
        }
        let now = soon(harness).await;
        let in_hand = claim(harness, 10, now).await;
        assert_eq!(show(harness, id).await.saga.status, status);
        let blank = Intervention::Abandon { reason: String::new() };
        assert_eq!(intervene(harness, id, blank).await.unwrap_err().kind(), ErrorKind::Invalid);
        let done_by = intervene(harness, id, abandon()).await.unwrap();
        assert_eq!(done_by.status, SagaStatus::Abandoned);
        assert!(done_by.discarded > 0);
        let late = settle(harness, in_hand.iter().map(|entry| (entry, done())).collect(), now).await;
        assert_eq!(late.accepted, 0, "who was at it is fenced");
        let story = show(harness, id).await;
        assert_eq!(story.saga.status, SagaStatus::Abandoned);
        assert!(story.saga.ended_at.is_some());
        assert!(story.entries.iter().all(|entry| entry.status.is_terminal() && entry.status != Status::Dead));
        let last = story.audit.last().unwrap();
        assert_eq!((last.kind, last.actor.as_str()), (AuditKind::Abandoned, "ops"));
        assert_eq!(last.detail, "the person moved away");
        let later = soon(harness).await.saturating_add(HOUR);
        assert!(claim(harness, 10, later).await.is_empty());
        assert_eq!(sweep(harness, later).await.seen, 0);
        assert_eq!(intervene(harness, id, abandon()).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let counts = harness.store().saga_counts(None).await.unwrap();
    assert_eq!((counts.of(SagaStatus::Abandoned), counts.stuck(), counts.open.len()), (5, 0, 0));
    let late = soon(harness).await.saturating_add(HOUR * 24);
    assert_eq!(harness.store().purge_sagas(purge_request(late)).await.unwrap().purged, 5);
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

/// By age, to the microsecond, completed or compensated; a saga that runs or waits for an operator stays, and
/// so does the audit trail.
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
    // Its entries in the outbox do not matter, and the subject can have a saga again.
    let now = soon(harness).await;
    assert_eq!(sweep(harness, now).await.changed, 0);
    let again = stage(harness, erasure(1)).await;
    while !show(harness, again).await.saga.status.is_ended() {
        work(harness, |_| done()).await;
    }
    assert_eq!(kinds(harness, &person(1)).await.len(), 2 * done_trail.len());
}

/// A purge deletes at most its limit, and is audited with its count. It deletes nothing while the audit
/// fails, or in a dry run.
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
