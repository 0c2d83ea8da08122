//! Failing: what cannot be delivered is dead, visible, and in an operator's hands.

use std::time::Duration;

use pillarbox_core::limits::ERROR_TEXT_BYTES_MAX;
use pillarbox_core::port::{
    Admin, Effect, Filter, Selection, SelectionRequest, Skip, Skipped, Store, Undecodable, Verdict,
};
use pillarbox_core::{AuditKind, Failure, FailureKind, Standing, Status};
use tokio::task::JoinSet;

use super::steps::*;
use crate::{StoreHarness, Tamper};

/// Refused for good is dead on attempt 1, and never claimed again.
pub async fn a_rejected_entry_is_dead_on_its_first_attempt<H: StoreHarness>(harness: &H) {
    bury(harness, [1]).await;
    let dead = entry(harness, 1).await;
    assert_eq!((dead.status, dead.attempts, dead.due_at), (Status::Dead, 1, None));
    assert!(dead.settled_at.is_some());
    assert!(claim(harness, 10, soon(harness).await.saturating_add(HOUR)).await.is_empty());
}

/// A row that cannot be read is claimed, told apart and buried; its neighbours are delivered.
pub async fn an_undecodable_row_is_dead_at_once_and_the_batch_goes_on<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(3)).await.len(), 3);
    tamper!(harness, Tamper::SpoilHeaders(id(2)));
    let now = soon(harness).await;
    let claimed = harness.store().claim(claim_request(10, now)).await.unwrap();
    assert_eq!(ids(&claimed.entries), ids_of([1, 3]));
    assert_eq!(claimed.undecodable.len(), 1);
    let row = &claimed.undecodable[0];
    assert_eq!(row.event_id, Some(id(2)));
    assert_eq!(row.failure.kind, FailureKind::Undecodable);
    let failure = row.failure.clone();
    let mut batch: Vec<_> = claimed.entries.iter().map(|entry| (entry.held(), Verdict::Delivered)).collect();
    batch.push((row.held, Verdict::dead(failure)));
    assert_eq!(settle_all(harness, batch, now).await.accepted, 3);
    let spoiled = entry(harness, 2).await;
    assert_eq!(spoiled.status, Status::Dead);
    assert_eq!(spoiled.last_error.map(|failure| failure.kind), Some(FailureKind::Undecodable));
    assert_eq!(audit(harness).await, [(AuditKind::Dead, Some(id(2)))]);
    assert_eq!(harness.store().list(Filter::dead()).await.unwrap().len(), 1, "a listing goes on over it");
}

/// What plain SQL can get wrong: the column, a value, and the reason of the death unless the store refuses it.
const WRONG: [(&str, &str); 14] = [
    ("type", ""),
    ("key", ""),
    ("content_type", ""),
    ("tenant", ""),
    ("correlation_id", ""),
    ("causation_id", ""),
    ("execution_id", ""),
    ("group_id", ""),
    ("headers", "[]"),
    ("headers", r#"{"number": 1}"#),
    ("hlc", "-1"),
    ("attempts", "-7"),
    ("max_attempts", "0"),
    ("max_attempts", "-1"),
];

/// A row that plain SQL got wrong is refused at once, or claimed, told apart and buried. It is never stuck, nobody
/// else's entry waits for it, and an operator sees it.
pub async fn what_plain_sql_gets_wrong_is_refused_or_dead_with_its_reason<H: StoreHarness>(harness: &H) {
    let mut taken = vec![];
    for (number, (column, value)) in (10..).zip(WRONG) {
        if harness.tamper(Tamper::StageWrong { id: id(number), column, value }).await {
            taken.push((id(number), column));
        }
    }
    assert_eq!(stage(harness, events(2)).await.len(), 2);
    let store = harness.store();
    let listed = store.list(Filter::default()).await.unwrap();
    assert_eq!(listed.len(), taken.len() + 2, "a listing goes on over them");
    assert_eq!(count(harness, Status::Pending).await, listed.len() as u64);
    let now = soon(harness).await;
    let claimed = store.claim(claim_request(100, now)).await.unwrap();
    assert_eq!(ids(&claimed.entries), ids_of([1, 2]));
    let found: Vec<_> =
        claimed.undecodable.iter().map(|row| (row.event_id.unwrap(), row.failure.code())).collect();
    assert_eq!(found.len(), taken.len());
    for (id, column) in &taken {
        assert!(found.contains(&(*id, column)), "{column}: {found:?}");
    }
    let verdict = |row: &Undecodable| (row.held, Verdict::dead(row.failure.clone()));
    let batch: Vec<_> = claimed.undecodable.iter().map(verdict).collect();
    assert_eq!(settle_all(harness, batch, now).await.accepted, taken.len() as u64);
    assert_eq!(count(harness, Status::Dead).await, taken.len() as u64);
    for (id, column) in taken {
        let story = store.show(id).await.unwrap().remove(0);
        assert_eq!((story.entry.status, story.audit.len()), (Status::Dead, 1), "{column}");
        assert_eq!(story.entry.last_error.unwrap().code(), column);
    }
}

/// The oldest entries failing, batch after batch, leaves room for newer ones.
pub async fn a_failing_batch_of_oldest_entries_does_not_hold_up_newer_ones<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(8)).await.len(), 8);
    let mut now = soon(harness).await;
    let failing = claim(harness, 4, now).await;
    assert_eq!(ids(&failing), ids_of(1..=4));
    let mut delivered = vec![];
    let mut batch = failing;
    for _ in 0..4 {
        let settlements = batch.iter().map(|entry| {
            let fails = ids_of(1..=4).contains(&entry.event_id);
            (entry.held(), if fails { retry(Duration::ZERO) } else { Verdict::Delivered })
        });
        assert!(settle_all(harness, settlements.collect(), now).await.fenced.is_empty());
        now = now.saturating_add(SECOND);
        batch = claim(harness, 4, now).await;
        delivered.extend(ids(&batch).into_iter().filter(|id| !ids_of(1..=4).contains(id)));
    }
    delivered.sort_unstable();
    assert_eq!(delivered, ids_of(5..=8), "the newer entries were handed out although the oldest always fail");
}

/// A kind, a code and a short text come back as they went in.
pub async fn the_stored_error_round_trips<H: StoreHarness>(harness: &H) {
    let texts = ["", "queue: full/now", "it's \"quoted\" \\ {x} \u{2603}", &"é".repeat(ERROR_TEXT_BYTES_MAX)];
    assert_eq!(stage(harness, events(4)).await.len(), 4);
    let now = soon(harness).await;
    let held = claim(harness, 10, now).await;
    let failures = texts.map(|text| Failure::new(FailureKind::Unknown, "E_42", text));
    let settlements = held
        .iter()
        .zip(&failures)
        .map(|(entry, failure)| (entry.held(), Verdict::retry(SECOND, failure.clone())));
    assert_eq!(settle_all(harness, settlements.collect(), now).await.accepted, 4);
    let stored: Vec<_> = all(harness).await.into_iter().filter_map(|entry| entry.last_error).collect();
    assert_eq!(stored, failures);
}

/// A fresh budget under the same event id, and due at once.
pub async fn requeue_resets_attempts_and_keeps_the_event_id<H: StoreHarness>(harness: &H) {
    bury(harness, [1]).await;
    let before = entry(harness, 1).await;
    let changed = harness.store().requeue(select_ids([1])).await.unwrap();
    assert_eq!((changed.changed, changed.missing, changed.skipped), (1, vec![], 0));
    let after = entry(harness, 1).await;
    assert_eq!((after.status, after.attempts), (Status::Pending, 0));
    assert_eq!((after.due_at, after.settled_at), (None, None));
    assert_eq!((after.event_id, after.seq, &after.payload), (before.event_id, before.seq, &before.payload));
    let again = claim_one(harness, soon(harness).await).await;
    assert_eq!((again.event_id, again.attempts), (id(1), 1));
    assert!(again.fence > before.fence);
}

/// Twice is once.
pub async fn requeue_is_idempotent<H: StoreHarness>(harness: &H) {
    bury(harness, [1]).await;
    assert_eq!(harness.store().requeue(select_ids([1])).await.unwrap().changed, 1);
    let (before, trail) = (all(harness).await, audit(harness).await);
    let again = harness.store().requeue(select_ids([1])).await.unwrap();
    assert_eq!((again.changed, again.missing, again.skipped), (0, vec![], 1));
    assert_eq!((all(harness).await, audit(harness).await), (before, trail));
}

/// Only dead entries are moved; what is missing or alive is said.
pub async fn requeue_skips_what_is_not_dead<H: StoreHarness>(harness: &H) {
    bury(harness, [1]).await;
    assert_eq!(stage(harness, vec![event(2), event(3)]).await.len(), 2);
    let now = soon(harness).await;
    let held = claim_one(harness, now).await;
    settle(harness, &held, Verdict::Delivered, now).await;
    let changed = harness.store().requeue(select_ids([1, 2, 3, 9])).await.unwrap();
    assert_eq!((changed.changed, changed.missing, changed.skipped), (1, vec![id(9)], 2));
    let skip =
        |n, why| Skipped { event_id: id(n), route: route(ROUTE), why: Skip::Standing(Standing::Is(why)) };
    assert_eq!(changed.skips, [skip(2, Status::Delivered), skip(3, Status::Pending)]);
    assert_eq!(entry(harness, 2).await.status, Status::Delivered);
    assert_eq!(entry(harness, 3).await.status, Status::Pending);
}

/// Who, what and when, for each entry.
pub async fn requeue_and_discard_are_audited<H: StoreHarness>(harness: &H) {
    bury(harness, [1, 2]).await;
    assert_eq!(harness.store().requeue(select_ids([1])).await.unwrap().changed, 1);
    assert_eq!(harness.store().discard(select_ids([2])).await.unwrap().changed, 1);
    let trail = harness.store().audit(2).await.unwrap();
    let kinds: Vec<_> = trail.iter().map(|record| (record.kind, record.event_id)).collect();
    assert_eq!(kinds, [(AuditKind::Requeued, Some(id(1))), (AuditKind::Discarded, Some(id(2)))]);
    assert!(trail.iter().all(|record| record.actor == "ops"));
    assert!(trail.iter().all(|record| record.route.as_ref().is_some_and(|route| route.as_str() == ROUTE)));
}

/// No audit, no change: all or nothing.
pub async fn requeue_is_all_or_nothing_when_the_audit_fails<H: StoreHarness>(harness: &H) {
    bury(harness, [1, 2]).await;
    let before = all(harness).await;
    tamper!(harness, Tamper::FailAudit);
    assert!(harness.store().requeue(select_ids([1, 2])).await.is_err());
    assert!(harness.store().discard(select_ids([1, 2])).await.is_err());
    assert_eq!(all(harness).await, before);
    assert!(harness.tamper(Tamper::RepairAudit).await);
    assert_eq!(harness.store().requeue(select_ids([1, 2])).await.unwrap().changed, 2);
}

/// A filter means all dead entries that match it, also over the limit of a listing.
pub async fn requeue_by_filter_takes_all_that_match<H: StoreHarness>(harness: &H) {
    bury(harness, 1..=150).await;
    assert_eq!(stage(harness, vec![event(200).key("k")]).await.len(), 1);
    let now = soon(harness).await;
    let keyed = claim_one(harness, now).await;
    settle(harness, &keyed, dead(), now).await;
    let by = |filter| select(Selection::Matching(filter));
    let store = harness.store();
    assert_eq!(store.requeue(by(Filter::default().route(route("mails")))).await.unwrap().changed, 0);
    assert_eq!(store.requeue(by(Filter::default().event_type("other"))).await.unwrap().changed, 0);
    assert_eq!(store.requeue(by(Filter::default().key("k"))).await.unwrap().changed, 1);
    assert_eq!(entry(harness, 200).await.status, Status::Pending);
    let alive = Filter::default().route(route(ROUTE)).status(Status::Pending);
    assert_eq!(store.requeue(by(alive)).await.unwrap().changed, 0, "only what is dead is requeued");
    let narrow = Filter::default().route(route(ROUTE)).limit(1);
    assert_eq!(store.requeue(by(narrow)).await.unwrap().changed, 150, "the limit is that of a listing");
    assert_eq!(count(harness, Status::Pending).await, 151);
}

/// Counting first changes nothing.
pub async fn a_dry_run_of_requeue_or_discard_changes_nothing<H: StoreHarness>(harness: &H) {
    bury(harness, [1, 2]).await;
    let (before, trail) = (all(harness).await, audit(harness).await);
    let dry = || SelectionRequest { effect: Effect::DryRun, ..select_ids([1, 2, 9]) };
    for changed in [harness.store().requeue(dry()).await, harness.store().discard(dry()).await] {
        let changed = changed.unwrap();
        assert_eq!((changed.changed, changed.missing, changed.skipped), (2, vec![id(9)], 0));
    }
    assert_eq!((all(harness).await, audit(harness).await), (before, trail));
}

/// Two operators at once: each entry is requeued by one of them, and neither sees an error.
pub async fn two_operators_requeue_at_once<H: StoreHarness>(harness: &H) {
    bury(harness, 1..=40).await;
    let mut operators = JoinSet::new();
    for operator in 0..2 {
        let store = harness.store();
        // In opposite orders, so that locks taken in the order of the request would meet.
        let numbers: Vec<u64> = if operator == 0 { (1..=40).collect() } else { (1..=40).rev().collect() };
        operators.spawn(async move { store.requeue(select_ids(numbers)).await });
    }
    let outcomes = operators.join_all().await;
    let changed: Vec<_> = outcomes.into_iter().map(|outcome| outcome.unwrap()).collect();
    assert_eq!(changed.iter().map(|changed| changed.changed).sum::<u64>(), 40, "{changed:?}");
    assert_eq!(count(harness, Status::Pending).await, 40);
    let requeues = audit(harness).await.iter().filter(|(kind, _)| *kind == AuditKind::Requeued).count();
    assert_eq!(requeues, 40);
}

/// The audited end of a dead entry that will not be delivered.
pub async fn discard_is_the_end_of_a_dead_entry<H: StoreHarness>(harness: &H) {
    bury(harness, [1]).await;
    let now = soon(harness).await;
    let request = SelectionRequest { now: Some(now), ..select_ids([1]) };
    assert_eq!(harness.store().discard(request.clone()).await.unwrap().changed, 1);
    let gone = entry(harness, 1).await;
    assert_eq!((gone.status, gone.due_at, gone.settled_at), (Status::Discarded, None, Some(now)));
    let again = harness.store().discard(request.clone()).await.unwrap();
    assert_eq!((again.changed, again.skipped), (0, 1));
    assert_eq!(harness.store().requeue(request).await.unwrap().changed, 0, "what was discarded stays so");
}
