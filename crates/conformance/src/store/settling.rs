//! Settling: recording what came of a claim, and only by who still holds it.

use std::time::Duration;

use pillarbox_core::limits::BATCH_MAX;
use pillarbox_core::port::{Admin, ClaimRequest, Keep, SettleRequest, Settled, Store, Verdict};
use pillarbox_core::{AuditKind, ErrorKind, Fence, Held, Retry, Status};

use super::steps::*;
use crate::{StoreHarness, Tamper};

/// Four verdicts in one call, each recorded as itself.
pub async fn a_whole_batch_settles_at_once<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(4)).await.len(), 4);
    let now = soon(harness).await;
    let held = claim(harness, 10, now).await;
    let verdicts = [Verdict::Delivered, retry(SECOND), dead(), release()];
    let settlements = held.iter().map(|entry| entry.held()).zip(verdicts).collect();
    assert_eq!(settle_all(harness, settlements, now).await, Settled { accepted: 4, fenced: vec![] });
    let after = all(harness).await;
    let statuses: Vec<_> = after.iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [Status::Delivered, Status::Retrying, Status::Dead, Status::Pending]);
    let due: Vec<_> = after.iter().map(|entry| entry.due_at).collect();
    assert_eq!(due, [None, Some(now.saturating_add(SECOND)), None, None]);
    let settled: Vec<_> = after.iter().map(|entry| entry.settled_at).collect();
    assert_eq!(settled, [Some(now), None, Some(now), None]);
    assert_eq!(after.iter().map(|entry| entry.attempts).collect::<Vec<_>>(), [1, 1, 1, 0]);
}

/// The largest batch that a claim gives out settles in one call.
pub async fn the_largest_batch_settles_at_once<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(u64::from(BATCH_MAX))).await.len(), 10_000);
    let now = soon(harness).await;
    let held = claim(harness, BATCH_MAX, now).await;
    assert_eq!(held.len(), 10_000);
    let verdict = |n: usize| match n % 3 {
        0 => retry(SECOND),
        1 => dead(),
        _ => Verdict::Delivered,
    };
    let settlements = held.iter().enumerate().map(|(n, entry)| (entry.held(), verdict(n))).collect();
    let settled = settle_all(harness, settlements, now).await;
    assert_eq!(settled, Settled { accepted: 10_000, fenced: vec![] });
    assert_eq!(count(harness, Status::Retrying).await, 3_334);
    assert_eq!(count(harness, Status::Dead).await, 3_333);
    assert_eq!(count(harness, Status::Delivered).await, 3_333);
    assert_eq!(audit(harness).await.len(), 3_333);
}

/// Nothing in, nothing done.
pub async fn settling_nothing_changes_nothing<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let before = all(harness).await;
    let now = soon(harness).await;
    assert_eq!(settle_all(harness, vec![], now).await, Settled::default());
    assert_eq!(all(harness).await, before);
}

/// Verdicts are independent: a fenced one in the middle leaves its neighbours alone.
pub async fn one_fenced_entry_does_not_disturb_the_others<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(5)).await.len(), 5);
    let now = soon(harness).await;
    let held = claim(harness, 10, now).await;
    let stale = Held { fence: Fence(held[2].fence.0 - 1), ..held[2].held() };
    let settlements = [held[0].held(), held[1].held(), stale, held[3].held(), held[4].held()]
        .into_iter()
        .zip([Verdict::Delivered, dead(), Verdict::Delivered, retry(SECOND), release()])
        .collect();
    assert_eq!(settle_all(harness, settlements, now).await, Settled { accepted: 4, fenced: vec![stale] });
    let statuses: Vec<_> = all(harness).await.iter().map(|entry| entry.status).collect();
    use Status::{Dead, Delivered, InFlight, Pending, Retrying};
    assert_eq!(statuses, [Delivered, Dead, InFlight, Retrying, Pending]);
}

/// A stale owner changes nothing, whatever its verdict, and learns that it was fenced.
pub async fn a_stale_fence_settles_nothing<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let old = claim_one(harness, now).await;
    let later = now.saturating_add(LEASE);
    let request = ClaimRequest { owner: "worker-2".into(), ..claim_request(1, later) };
    let new = overtake(harness, request).await.remove(0);
    for verdict in [Verdict::Delivered, retry(SECOND), dead(), release()] {
        let settled = settle_all(harness, vec![(old.held(), verdict)], later).await;
        assert_eq!(settled, Settled { accepted: 0, fenced: vec![old.held()] });
        assert_eq!(entry(harness, 1).await, new);
    }
    assert_eq!(audit(harness).await, []);
    settle(harness, &new, Verdict::Delivered, later).await;
    assert_eq!(entry(harness, 1).await.status, Status::Delivered);
}

/// Ownership is the fence: the same name twice is still two owners.
pub async fn a_reused_owner_name_does_not_defeat_the_fence<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let old = claim_one(harness, now).await;
    let later = now.saturating_add(LEASE);
    let new = overtake(harness, claim_request(1, later)).await.remove(0);
    assert_eq!(old.owner, new.owner);
    let settled = settle_all(harness, vec![(old.held(), retry(SECOND))], later).await;
    assert_eq!((settled.accepted, settled.fenced), (0, vec![old.held()]));
    assert_eq!(entry(harness, 1).await, new);
}

/// An entry that a reap returned no longer belongs to the old owner, although no other relay has it yet.
pub async fn a_late_settle_after_a_reap_is_fenced<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let old = claim_one(harness, now).await;
    let later = now.saturating_add(LEASE);
    assert_eq!(reap(harness, reap_request(later)).await.released, 1);
    let before = entry(harness, 1).await;
    for verdict in [Verdict::Delivered, release(), dead()] {
        let settled = settle_all(harness, vec![(old.held(), verdict)], later).await;
        assert_eq!((settled.accepted, settled.fenced), (0, vec![old.held()]));
    }
    assert_eq!(entry(harness, 1).await, before);
}

/// A late settle counts as long as no other relay took the entry: the end of the lease alone takes nothing
/// away.
pub async fn a_late_settle_that_nobody_overtook_counts<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let held = claim_one(harness, now).await;
    settle(harness, &held, Verdict::Delivered, now.saturating_add(LEASE * 2)).await;
    assert_eq!(entry(harness, 1).await.status, Status::Delivered);
}

/// A settle whose answer was lost is sent again: the second time it is fenced and changes nothing.
pub async fn settling_twice_changes_nothing<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(4)).await.len(), 4);
    let now = soon(harness).await;
    let held = claim(harness, 10, now).await;
    let verdicts = [Verdict::Delivered, retry(SECOND), dead(), release()];
    let batch: Vec<_> = held.iter().map(|entry| entry.held()).zip(verdicts).collect();
    assert_eq!(settle_all(harness, batch.clone(), now).await.accepted, 4);
    let (entries, trail) = (all(harness).await, audit(harness).await);
    let again = settle_all(harness, batch, now.saturating_add(SECOND)).await;
    assert_eq!((again.accepted, again.fenced.len()), (0, 4));
    assert_eq!((all(harness).await, audit(harness).await), (entries, trail));
}

/// Success clears the error of the attempt before; when the last attempt began stays.
pub async fn a_delivery_clears_the_error_and_keeps_the_time<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let first = claim_one(harness, now).await;
    settle(harness, &first, retry(SECOND), now).await;
    let later = now.saturating_add(SECOND);
    let second = claim_one(harness, later).await;
    assert_eq!(second.last_error, Some(failure()), "a claim keeps what the last attempt left");
    settle(harness, &second, Verdict::Delivered, later.saturating_add(SECOND)).await;
    let done = entry(harness, 1).await;
    assert_eq!((done.status, done.last_error, done.due_at), (Status::Delivered, None, None));
    assert_eq!(done.last_attempt_at, Some(later));
    assert_eq!(done.settled_at, Some(later.saturating_add(SECOND)));
    assert_eq!((done.attempts, done.fence), (2, second.fence));
}

/// A retry keeps the error, is due after its wait, and is no audited event.
pub async fn a_retry_keeps_the_error_and_waits<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let held = claim_one(harness, now).await;
    settle(harness, &held, retry(HOUR), now).await;
    let waiting = entry(harness, 1).await;
    assert_eq!((waiting.status, waiting.attempts), (Status::Retrying, 1));
    assert_eq!(waiting.due_at, Some(now.saturating_add(HOUR)));
    assert_eq!((waiting.last_error, waiting.settled_at), (Some(failure()), None));
    assert_eq!(waiting.last_attempt_at, Some(now));
    assert_eq!(audit(harness).await, []);
}

/// Given back unharmed: due at once, and the attempt does not count.
pub async fn a_release_gives_the_attempt_back<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let first = claim_one(harness, now).await;
    settle(harness, &first, release(), now).await;
    let back = entry(harness, 1).await;
    assert_eq!((back.status, back.attempts, back.due_at), (Status::Pending, 0, None));
    let second = claim_one(harness, now).await;
    assert_eq!(second.attempts, 1);
    settle(harness, &second, retry(Duration::ZERO), now).await;
    let third = claim_one(harness, now).await;
    assert_eq!(third.attempts, 2);
    settle(harness, &third, release(), now).await;
    let back = entry(harness, 1).await;
    assert_eq!((back.status, back.attempts, back.due_at), (Status::Retrying, 1, None));
    assert_eq!(back.last_error, Some(failure()), "a release without a word keeps what was said before");
    let fourth = claim_one(harness, now).await;
    let why = Some(pillarbox_core::Failure::new(pillarbox_core::FailureKind::Down, "refused", ""));
    settle(harness, &fourth, Verdict::release(why.clone()), now).await;
    assert_eq!(entry(harness, 1).await.last_error, why);
}

/// Releasing for ever spends nothing: an outage of the destination never kills an entry.
pub async fn releases_never_spend_attempts<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1).max_attempts(1)]).await.len(), 1);
    let now = soon(harness).await;
    for _ in 0..5 {
        let held = claim_one(harness, now).await;
        settle(harness, &held, release(), now).await;
    }
    assert_eq!(entry(harness, 1).await.attempts, 0);
    assert_eq!(claim(harness, 1, now).await.len(), 1);
}

/// With N allowed, an entry is handed out N times, and the column says N.
pub async fn attempts_are_exact<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    for attempt in 1..=4 {
        let request = ClaimRequest { max_attempts: 4, ..claim_request(1, now) };
        let held = claim_as(harness, request).await.remove(0);
        assert_eq!((held.attempts, held.is_last_attempt(4)), (attempt, attempt == 4));
        settle(harness, &held, retry(Duration::ZERO), now).await;
    }
    let request = ClaimRequest { max_attempts: 4, ..claim_request(1, now) };
    assert!(claim_as(harness, request).await.is_empty());
    assert_eq!(entry(harness, 1).await.attempts, 4);
}

/// What is not there cannot be settled, and that is reported; nothing appears because of it.
pub async fn settling_an_entry_that_does_not_exist_is_reported<H: StoreHarness>(harness: &H) {
    let nobody = Held { seq: 4_242, fence: Fence(1) };
    let now = soon(harness).await;
    for verdict in [Verdict::Delivered, retry(SECOND), dead(), release()] {
        let settled = settle_all(harness, vec![(nobody, verdict)], now).await;
        assert_eq!(settled, Settled { accepted: 0, fenced: vec![nobody] });
    }
    assert!(all(harness).await.is_empty());
    assert_eq!(audit(harness).await, []);
}

/// A row deleted under a claim is reported, and the rest of the batch is settled.
pub async fn an_entry_deleted_under_its_claim_is_reported<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(2)).await.len(), 2);
    let now = soon(harness).await;
    let held = claim(harness, 10, now).await;
    tamper!(harness, Tamper::DeleteEntry(id(1)));
    let settlements = held.iter().map(|entry| (entry.held(), dead())).collect();
    let settled = settle_all(harness, settlements, now).await;
    assert_eq!(settled, Settled { accepted: 1, fenced: vec![held[0].held()] });
    assert_eq!(audit(harness).await, [(AuditKind::Dead, Some(id(2)))]);
}

/// With nothing kept, delivered entries are gone as they are settled; what failed stays.
pub async fn delivered_entries_are_deleted_at_once_when_nothing_is_kept<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(3)).await.len(), 3);
    let now = soon(harness).await;
    let held = claim(harness, 10, now).await;
    let verdicts = [Verdict::Delivered, retry(SECOND), dead()];
    let batch: Vec<_> = held.iter().map(|entry| entry.held()).zip(verdicts).collect();
    let request = SettleRequest { keep: Keep::No, ..settle_request(batch, now) };
    let settled = harness.store().settle(request).await.unwrap();
    assert_eq!(settled, Settled { accepted: 3, fenced: vec![] });
    assert_eq!(ids(&all(harness).await), ids_of([2, 3]));
    let again = settle_all(harness, vec![(held[0].held(), Verdict::Delivered)], now).await;
    assert_eq!(again.fenced, [held[0].held()]);
}

/// The audit row comes with the death, names who and why, and transient failures leave none.
pub async fn a_death_is_audited_in_the_same_step<H: StoreHarness>(harness: &H) {
    bury(harness, [1, 2]).await;
    let trail = harness.store().audit(10).await.unwrap();
    assert_eq!(trail.len(), 2);
    for record in &trail {
        assert_eq!((record.kind, record.actor.as_str()), (AuditKind::Dead, "worker-1"));
        assert_eq!(record.route.as_ref().map(|route| route.as_str()), Some(ROUTE));
        assert!(record.detail.contains("rejected/unroutable"), "{}", record.detail);
    }
    let mut named: Vec<_> = trail.iter().filter_map(|record| record.event_id).collect();
    named.sort_unstable();
    assert_eq!(named, ids_of([1, 2]));
    let entry = entry(harness, 1).await;
    assert_eq!(entry.last_error.map(|failure| failure.code().to_owned()).as_deref(), Some("unroutable"));
    assert!(trail.iter().all(|record| Some(record.at) == entry.settled_at));
}

/// No audit, no death: nothing of that call is recorded, and the lease heals it.
pub async fn a_death_that_cannot_be_audited_is_not_recorded<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(2)).await.len(), 2);
    let now = soon(harness).await;
    let held = claim(harness, 10, now).await;
    tamper!(harness, Tamper::FailAudit);
    let batch = vec![(held[0].held(), dead()), (held[1].held(), dead())];
    let refused = harness.store().settle(settle_request(batch.clone(), now)).await.unwrap_err();
    assert_ne!(refused.kind(), ErrorKind::Invalid, "the caller did nothing wrong: {refused}");
    assert_ne!(refused.retry(), Retry::Unknown, "it is known that nothing happened");
    assert_eq!(all(harness).await, held);
    assert!(harness.tamper(Tamper::RepairAudit).await);
    assert_eq!(settle_all(harness, batch, now).await.accepted, 2);
    assert_eq!(count(harness, Status::Dead).await, 2);
}

/// What was delivered can be recorded while the audit trail is down, so that it does not run again.
pub async fn deliveries_settle_while_the_audit_fails<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(3)).await.len(), 3);
    let now = soon(harness).await;
    let held = claim(harness, 10, now).await;
    tamper!(harness, Tamper::FailAudit);
    let verdicts = [Verdict::Delivered, retry(SECOND), release()];
    let batch: Vec<_> = held.iter().map(|entry| entry.held()).zip(verdicts).collect();
    assert_eq!(settle_all(harness, batch, now).await.accepted, 3);
    assert!(harness.tamper(Tamper::RepairAudit).await);
}
