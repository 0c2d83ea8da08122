//! A group of steps with one end.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::join_all;
use pillarbox_core::port::{
    Admin, Keep, SagaAdmin, SagaHooks, Selection, Stage, StageSaga, StagedSaga, StepSettlement, StepsSettled,
};
use pillarbox_core::{AuditKind, ErrorKind, FailureKind, Fence, Held, SagaId, SagaStatus, Status};

use super::SagaHarness;
use super::steps::{
    RuinsEnd, StagesEnd, booking, claim, dead, done, ended, erasure, forward, kinds, overtake, person,
    request, settle, show, stage, sweep, try_settle, work,
};
use crate::Ruin;
use crate::case::skip;
use crate::store::steps::{HOUR, LEASE, ROUTE, all, event, select, several_writers, soon};

/// A rollback takes the saga and its entries with it; a commit makes both visible.
pub async fn a_saga_is_staged_in_the_callers_transaction<H: SagaHarness>(harness: &H) {
    let saga = erasure(1).build().unwrap();
    let mut tx = harness.begin().await;
    let id = harness.outbox(ROUTE).stage_saga(&mut tx, saga.clone()).await.unwrap().id();
    harness.rollback(tx).await;
    assert!(all(harness).await.is_empty());
    assert!(harness.store().show_saga(id).await.unwrap().is_none());
    let id = stage(harness, erasure(1)).await;
    let story = show(harness, id).await;
    assert_eq!((story.saga.status, story.saga.generation), (SagaStatus::Running, 1));
    let staged: BTreeSet<_> = story.entries.iter().map(|entry| entry.event_id).collect();
    assert_eq!(staged, ["crm", "files", "payments"].map(|step| forward(id, step)).into());
    assert!(story.entries.iter().all(|entry| entry.group_id == Some(id.to_string())));
}

/// Not before its last step, and once.
pub async fn a_saga_completes_once_with_its_last_step<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    let end = StagesEnd::new(harness);
    let hooks = || SagaHooks::default().end(end.clone());
    let now = soon(harness).await;
    for (done_before, entry) in claim(harness, 10, now).await.iter().enumerate() {
        assert!(ended(harness).await.is_empty());
        let settled = try_settle(harness, hooks(), vec![(entry, done())], now).await.unwrap();
        assert_eq!(settled.ended, if done_before == 2 { vec![id] } else { vec![] });
        let again = try_settle(harness, hooks(), vec![(entry, done())], now).await.unwrap();
        assert_eq!(again, StepsSettled { fenced: vec![entry.held()], ..StepsSettled::default() });
    }
    assert_eq!(ended(harness).await, [format!("{id} completed")]);
    let saga = show(harness, id).await.saga;
    assert_eq!((saga.status, saga.ended_at), (SagaStatus::Completed, Some(now)));
    assert_eq!(kinds(harness, &person(1)).await.last(), Some(&AuditKind::Completed));
}

/// Also when all of its steps are done in one batch.
pub async fn a_saga_completes_once_when_its_steps_are_settled_together<H: SagaHarness>(harness: &H) {
    let sagas = [stage(harness, erasure(1)).await, stage(harness, erasure(2)).await];
    let end = StagesEnd::new(harness);
    let now = soon(harness).await;
    let entries = claim(harness, 10, now).await;
    let outcomes = entries.iter().map(|entry| (entry, done())).collect();
    let settled = try_settle(harness, SagaHooks::default().end(end), outcomes, now).await.unwrap();
    assert_eq!((settled.accepted, settled.ended.len()), (6, 2));
    assert_eq!(ended(harness).await, ended_of(&sagas));
}

fn ended_of(sagas: &[SagaId]) -> Vec<String> {
    let mut ended: Vec<_> = sagas.iter().map(|id| format!("{id} completed")).collect();
    ended.sort();
    ended
}

/// All finishers at the same moment: one of them completes it.
pub async fn concurrent_finishers_complete_a_saga_once<H: SagaHarness>(harness: &H) {
    let mut sagas = vec![];
    for n in 1..=8 {
        sagas.push(stage(harness, erasure(n)).await);
    }
    let end = StagesEnd::new(harness);
    let now = soon(harness).await;
    let entries = claim(harness, 100, now).await;
    assert_eq!(entries.len(), 24);
    let runners = entries.iter().map(|entry| async {
        let store = harness.sagas(SagaHooks::default().end(end.clone()));
        let one = StepSettlement { held: entry.held(), outcome: done() };
        loop {
            match store.settle_steps(request(vec![one.clone()], now)).await {
                Ok(settled) => return settled,
                Err(error) => assert_ne!(error.retry(), pillarbox_core::Retry::Never, "{error}"),
            }
        }
    });
    let settled = join_all(runners).await;
    assert_eq!(settled.iter().map(|settled| settled.accepted).sum::<u64>(), 24);
    assert_eq!(settled.iter().map(|settled| settled.ended.len()).sum::<usize>(), 8);
    assert_eq!(ended(harness).await, ended_of(&sagas));
    for n in 1..=8 {
        let completed = kinds(harness, &person(n)).await;
        assert_eq!(completed.iter().filter(|kind| **kind == AuditKind::Completed).count(), 1);
    }
}

/// For ever, and loudly.
pub async fn a_dead_step_blocks_completion<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    work(harness, |name| if name == "crm.erase" { dead(FailureKind::Rejected) } else { done() }).await;
    let story = show(harness, id).await;
    assert_eq!((story.saga.status, story.saga.ended_at), (SagaStatus::Blocked, None));
    assert_eq!(story.entries.iter().filter(|entry| entry.status == Status::Dead).count(), 1);
    assert!(!kinds(harness, &person(1)).await.contains(&AuditKind::Completed));
    let counts = harness.store().saga_counts(None).await.unwrap();
    assert_eq!((counts.stuck(), counts.of(SagaStatus::Blocked)), (1, 1));
}

/// The plain requeue of a dead entry: audited under the saga's subject, and the saga completes after all.
pub async fn a_requeued_step_lets_its_saga_complete<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    work(harness, |name| if name == "crm.erase" { dead(FailureKind::Failed) } else { done() }).await;
    let request = select(Selection::Ids(vec![forward(id, "crm")]));
    assert_eq!(harness.store().requeue(request).await.unwrap().changed, 1);
    assert_eq!(sweep(harness, soon(harness).await).await.changed, 1);
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::Running);
    assert_eq!(work(harness, |_| done()).await, ["crm.erase"]);
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::Completed);
    let kinds = kinds(harness, &person(1)).await;
    assert_eq!(kinds[3..], [AuditKind::Requeued, AuditKind::StepSucceeded, AuditKind::Completed]);
}

/// Steps of one saga complete no other one.
pub async fn completion_is_scoped_to_its_own_saga<H: SagaHarness>(harness: &H) {
    let one = stage(harness, erasure(1)).await;
    let other = stage(harness, erasure(1)).await;
    let now = soon(harness).await;
    let entries = claim(harness, 10, now).await;
    let of_one = |entry: &&_| {
        let entry: &pillarbox_core::Entry = entry;
        entry.group_id == Some(one.to_string())
    };
    let settled =
        settle(harness, entries.iter().filter(of_one).map(|entry| (entry, done())).collect(), now).await;
    assert_eq!(settled.ended, [one]);
    assert_eq!(show(harness, other).await.saga.status, SagaStatus::Running);
}

/// The same name on the same subject: another generation, other keys.
pub async fn the_same_subject_again_is_a_new_generation<H: SagaHarness>(harness: &H) {
    let mut keys = BTreeSet::new();
    for generation in 1..=3 {
        let id = stage(harness, erasure(1)).await;
        assert_eq!(show(harness, id).await.saga.generation, generation);
        assert!(keys.insert(forward(id, "crm")));
        work(harness, |_| done()).await;
    }
    assert_eq!(show(harness, stage(harness, erasure(2)).await).await.saga.generation, 1);
}

/// Under one id it is one saga, in one transaction and in two.
pub async fn a_saga_staged_twice_under_one_id_is_one<H: SagaHarness>(harness: &H) {
    let id = SagaId(uuid::Uuid::from_u128(7));
    let saga = || erasure(1).id(id).build().unwrap();
    let mut tx = harness.begin().await;
    let outbox = harness.outbox(ROUTE);
    assert_eq!(outbox.stage_saga(&mut tx, saga()).await.unwrap(), StagedSaga::Fresh { id, generation: 1 });
    assert_eq!(outbox.stage_saga(&mut tx, saga()).await.unwrap(), StagedSaga::Duplicate(id));
    harness.commit(tx).await;
    let mut tx = harness.begin().await;
    assert_eq!(outbox.stage_saga(&mut tx, saga()).await.unwrap(), StagedSaga::Duplicate(id));
    harness.commit(tx).await;
    assert_eq!(all(harness).await.len(), 3);
}

/// Two transactions at the same time: the second waits and is the next generation.
pub async fn concurrent_sagas_on_one_subject_are_two_generations<H: SagaHarness>(harness: &H) {
    several_writers!(harness);
    let stages = (0..6).map(|_| async {
        let mut tx = harness.begin().await;
        let staged = harness.outbox(ROUTE).stage_saga(&mut tx, erasure(1).build().unwrap()).await.unwrap();
        harness.commit(tx).await;
        match staged {
            StagedSaga::Fresh { generation, .. } => generation,
            StagedSaga::Duplicate(id) => panic!("{id} is a duplicate"),
        }
    });
    let generations: BTreeSet<u32> = join_all(stages).await.into_iter().collect();
    assert_eq!(generations, (1..=6).collect());
}

/// What it writes is there with the end, and only then.
pub async fn the_callback_is_part_of_the_transaction<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    let end = StagesEnd::new(harness);
    *end.fails.lock().unwrap() = true;
    let now = soon(harness).await;
    let entries = claim(harness, 10, now).await;
    let outcomes = || entries.iter().map(|entry| (entry, done())).collect();
    let hooks = || SagaHooks::default().end(end.clone());
    assert!(try_settle(harness, hooks(), outcomes(), now).await.is_err());
    assert!(ended(harness).await.is_empty());
    let story = show(harness, id).await;
    assert!(story.entries.iter().all(|entry| entry.status == Status::InFlight), "no success is recorded");
    assert!(story.audit.is_empty());
    // The lease heals it.
    let later = now.saturating_add(LEASE * 2);
    *end.fails.lock().unwrap() = false;
    let entries = overtake(harness, 10, later).await;
    assert_eq!(entries.len(), 3);
    let outcomes = entries.iter().map(|entry| (entry, done())).collect();
    assert_eq!(try_settle(harness, hooks(), outcomes, later).await.unwrap().ended, [id]);
    assert_eq!(ended(harness).await, [format!("{id} completed")]);
}

/// One that goes on after a failed statement, or ends its transaction, leaves nothing to commit: the end is not recorded.
pub async fn a_callback_that_ruins_its_transaction_ends_nothing<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    let mut now = soon(harness).await;
    for how in [Ruin::FailedStatement, Ruin::Ended] {
        let mut entries = claim(harness, 10, now).await;
        entries.extend(overtake(harness, 10, now).await);
        assert_eq!(entries.len(), 3, "{how:?}");
        let (told, could) = tokio::sync::watch::channel(true);
        let hooks = SagaHooks::default().end(Arc::new(RuinsEnd::<H> { how, told, store: PhantomData }));
        let outcomes = entries.iter().map(|entry| (entry, done())).collect();
        let settled = try_settle(harness, hooks, outcomes, now).await;
        if !*could.borrow() {
            return skip("a transaction cannot be ruined that way");
        }
        assert_eq!(settled.unwrap_err().kind(), ErrorKind::Aborted, "{how:?}");
        let story = show(harness, id).await;
        assert_eq!(story.saga.status, SagaStatus::Running, "{how:?}");
        assert!(story.entries.iter().all(|entry| entry.status == Status::InFlight), "{how:?}");
        assert!(story.audit.is_empty(), "{how:?}");
        // The lease heals it.
        now = now.saturating_add(LEASE * 2);
    }
    let entries = overtake(harness, 10, now).await;
    let outcomes = entries.iter().map(|entry| (entry, done())).collect();
    let hooks = SagaHooks::default().end(StagesEnd::new(harness));
    assert_eq!(try_settle(harness, hooks, outcomes, now).await.unwrap().ended, [id]);
    assert_eq!(ended(harness).await, [format!("{id} completed")]);
}

/// A relay that lost its claim overwrites nothing, and learns that it was fenced.
pub async fn a_stale_runner_changes_nothing<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    let now = soon(harness).await;
    let stale = claim(harness, 10, now).await;
    let later = now.saturating_add(LEASE * 2);
    let current = overtake(harness, 10, later).await;
    let settled =
        settle(harness, stale.iter().map(|entry| (entry, dead(FailureKind::Rejected))).collect(), later)
            .await;
    assert_eq!((settled.accepted, settled.fenced.len()), (0, 3));
    assert_eq!(
        settle(harness, current.iter().map(|entry| (entry, done())).collect(), later).await.ended,
        [id]
    );
    let settled =
        settle(harness, stale.iter().map(|entry| (entry, dead(FailureKind::Rejected))).collect(), later)
            .await;
    assert_eq!((settled.accepted, settled.fenced.len()), (0, 3));
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::Completed);
    // One stale claim does not disturb the others of its batch.
    let id = stage(harness, erasure(2)).await;
    let later = later.saturating_add(HOUR);
    let entries = claim(harness, 10, later).await;
    let outcomes = entries.iter().chain(&stale).map(|entry| (entry, done())).collect();
    let settled = settle(harness, outcomes, later).await;
    assert_eq!((settled.accepted, settled.fenced.len(), settled.ended), (3, 3, vec![id]));
}

/// Nothing completes because of an entry that is not there.
pub async fn a_step_that_is_not_there_completes_nothing<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    let held = Held { seq: 1_000_000, fence: Fence(7) };
    let sagas = harness.sagas(SagaHooks::default());
    let one = StepSettlement { held, outcome: done() };
    let settled = sagas.settle_steps(request(vec![one], soon(harness).await)).await.unwrap();
    assert_eq!(settled, StepsSettled { fenced: vec![held], ..StepsSettled::default() });
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::Running);
}

/// What a saga has done does not depend on its entries being kept.
pub async fn a_saga_completes_when_nothing_is_kept<H: SagaHarness>(harness: &H) {
    let id = stage(harness, booking(1)).await;
    let sagas = harness.sagas(SagaHooks::default());
    for _ in 0..4 {
        let now = soon(harness).await;
        let entries = claim(harness, 10, now).await;
        let one = StepSettlement { held: entries[0].held(), outcome: done() };
        let mut request = request(vec![one], now);
        request.keep = Keep::No;
        assert_eq!(sagas.settle_steps(request).await.unwrap().accepted, 1);
    }
    let story = show(harness, id).await;
    assert_eq!((story.saga.status, story.entries.len()), (SagaStatus::Completed, 0));
}

/// A group that is not a saga is not settled here, and says so.
pub async fn an_entry_of_a_group_without_a_saga_is_plain<H: SagaHarness>(harness: &H) {
    let mut tx = harness.begin().await;
    let grouped =
        vec![event(1).group_id("a group"), event(2).group_id(SagaId(uuid::Uuid::nil()).to_string())];
    assert_eq!(harness.outbox(ROUTE).stage_all(&mut tx, grouped).await.unwrap().len(), 2);
    harness.commit(tx).await;
    let now = soon(harness).await;
    let entries = claim(harness, 10, now).await;
    let settled = settle(harness, entries.iter().map(|entry| (entry, done())).collect(), now).await;
    assert_eq!((settled.accepted, settled.plain.len()), (0, 2));
    assert!(all(harness).await.iter().all(|entry| entry.status == Status::InFlight));
}
