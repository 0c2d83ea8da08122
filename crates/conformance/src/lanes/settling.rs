//! Settling: the attempt is spent here, under the fence of the lane.

use pillarbox_core::port::{Admin, Keep, LANES, LaneSettleRequest, LaneSettlement, Lanes, Settled, Verdict};
use pillarbox_core::{
    AuditKind, Entry, ErrorKind, Failure, FailureKind, Fence, Held, Retry, RowHint, Status,
};

use super::LanesHarness;
use super::steps::*;
use crate::Tamper;

/// Kept until retention takes it, with the attempt counted and the error of the one before cleared.
pub async fn a_delivered_entry_of_a_lane_is_kept<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    reader.settle(&reader.entries().await[0], retry(SECOND), now).await;
    let later = now.saturating_add(SECOND);
    reader.settle(&reader.entries().await[0], Verdict::Delivered, later).await;
    let done = entry(harness, 1).await;
    assert_eq!((done.status, done.attempts), (Status::Delivered, 2));
    assert_eq!((done.last_error, done.due_at, done.settled_at), (None, None, Some(later)));
    assert!(done.last_attempt_at.is_some());
    assert_eq!(reader.entries().await, []);
    assert_eq!(audit(harness).await, []);
}

/// With nothing kept, delivered entries are gone as they are settled; what failed stays.
pub async fn a_delivered_entry_of_a_lane_is_deleted_when_nothing_is_kept<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(3)).await.len(), 3);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let verdicts = [Verdict::Delivered, retry(SECOND), dead()];
    let batch = reader.entries().await.iter().zip(verdicts).map(|(e, v)| reader.verdict(e, v)).collect();
    let request = LaneSettleRequest { keep: Keep::No, ..reader.settle_request(batch, now) };
    let settled = Lanes::settle(&*harness.store(), request.clone()).await.unwrap();
    assert_eq!(settled, Settled { accepted: 3, fenced: vec![] });
    assert_eq!(ids(&all(harness).await), ids_of([2, 3]));
    assert_eq!(Lanes::settle(&*harness.store(), request).await.unwrap().accepted, 0);
}

/// Attempts, error and time; and it is read again as it is then.
pub async fn a_retry_of_a_lane_is_written<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    for attempt in 1..=3 {
        let read = reader.entries().await;
        assert_eq!(read[0].attempts, attempt - 1);
        reader.settle(&read[0], retry(HOUR), now).await;
        let waiting = entry(harness, 1).await;
        assert_eq!((waiting.status, waiting.attempts), (Status::Retrying, attempt));
        assert_eq!(waiting.due_at, Some(now.saturating_add(HOUR)));
        assert_eq!((waiting.last_error, waiting.settled_at), (Some(failure()), None));
        assert!(waiting.last_attempt_at.is_some());
    }
    assert_eq!(audit(harness).await, [], "a failure that passes is not audited");
}

/// The audit record comes with the death, and names who and why.
pub async fn a_death_of_a_lane_is_audited_in_the_same_step<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), event(2)]).await.len(), 2);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let batch = reader.entries().await.iter().map(|entry| reader.verdict(entry, dead())).collect();
    assert_eq!(reader.settle_all(batch, now).await.accepted, 2);
    let trail = harness.store().audit(10).await.unwrap();
    assert_eq!(trail.len(), 2);
    for record in trail {
        assert_eq!((record.kind, record.actor.as_str(), record.at), (AuditKind::Dead, "worker-1", now));
        assert_eq!(record.route.as_ref().map(|route| route.as_str()), Some(ROUTE));
        assert!(record.detail.contains("rejected/unroutable"), "{}", record.detail);
    }
    let gone = entry(harness, 1).await;
    assert_eq!((gone.status, gone.attempts, gone.due_at), (Status::Dead, 1, None));
    assert_eq!(gone.settled_at, Some(now));
    assert_eq!(gone.last_error.map(|failure| failure.code().to_owned()).as_deref(), Some("unroutable"));
    assert_eq!(reader.entries().await, []);
}

/// No audit, no death: nothing of that call is recorded; a batch without a death needs no audit.
pub async fn a_death_of_a_lane_that_cannot_be_audited_is_not_recorded<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(4)).await.len(), 4);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let entries = reader.entries().await;
    let before = all(harness).await;
    tamper!(harness, Tamper::FailAudit);
    let batch = vec![reader.verdict(&entries[0], Verdict::Delivered), reader.verdict(&entries[1], dead())];
    let refused = Lanes::settle(&*harness.store(), reader.settle_request(batch.clone(), now)).await;
    let refused = refused.unwrap_err();
    assert_ne!(refused.kind(), ErrorKind::Invalid, "the caller did nothing wrong: {refused}");
    assert_ne!(refused.retry(), Retry::Unknown, "it is known that nothing happened");
    assert_eq!(all(harness).await, before);
    reader.settle(&entries[2], Verdict::Delivered, now).await;
    reader.settle(&entries[3], retry(SECOND), now).await;
    assert!(harness.tamper(Tamper::RepairAudit).await);
    assert_eq!(reader.settle_all(batch, now).await.accepted, 2);
}

/// Nothing was written when it was handed out, so nothing is taken back. Operators see the reason that was
/// given.
pub async fn a_release_of_a_lane_changes_nothing_but_its_reason<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1), event(2), event(3).max_attempts(1)]).await.len(), 3);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let entries = reader.entries().await;
    reader.settle(&entries[1], retry(SECOND), now).await;
    let before = all(harness).await;
    let entries = reader.entries().await;
    let why = Some(Failure::new(FailureKind::Down, "refused", ""));
    let because = Verdict::release(why.clone());
    for verdict in [release(), because.clone(), because, release()] {
        let batch = entries.iter().map(|entry| reader.verdict(entry, verdict.clone())).collect();
        assert_eq!(reader.settle_all(batch, now).await, Settled { accepted: 3, fenced: vec![] });
    }
    let after = all(harness).await;
    assert!(after.iter().all(|entry| entry.last_error == why), "{after:?}");
    let told = |mut entry: Entry| {
        entry.last_error.clone_from(&why);
        entry
    };
    let unplaced = |entries: Vec<Entry>| entries.into_iter().map(told).collect::<Vec<_>>();
    assert_eq!(unplaced(after), unplaced(before));
    assert_eq!(unplaced(reader.entries().await), unplaced(entries));
}

/// Verdicts are independent: fenced ones leave their neighbours alone, and are told in full.
pub async fn fenced_entries_do_not_disturb_the_rest_of_a_batch<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(6)).await.len(), 6);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let entries = reader.entries().await;
    let verdicts = [Verdict::Delivered, Verdict::Delivered, retry(SECOND), dead(), release(), dead()];
    let mut batch: Vec<_> =
        entries.iter().zip(verdicts).map(|(entry, verdict)| reader.verdict(entry, verdict)).collect();
    batch[1].held.fence = Fence(batch[1].held.fence.0 - 1);
    batch[5].held.fence = Fence(batch[5].held.fence.0 + 1);
    let nobody = Held { seq: entries[5].seq + 1_000, fence: batch[0].held.fence };
    batch.push(LaneSettlement { held: nobody, ..batch[0].clone() });
    let mut settled = reader.settle_all(batch.clone(), now).await;
    settled.fenced.sort_unstable();
    assert_eq!(settled, Settled { accepted: 4, fenced: vec![batch[1].held, batch[5].held, nobody] });
    // Entries that a session holds are shown as in flight.
    reader.leave().await;
    let statuses: Vec<_> = all(harness).await.iter().map(|entry| entry.status).collect();
    use Status::{Dead, Delivered, Pending, Retrying};
    assert_eq!(statuses, [Delivered, Pending, Retrying, Dead, Pending, Pending]);
}

/// A retry that comes late, after its entry died of a later attempt and was requeued, is not one of the new life.
pub async fn a_retry_of_before_a_requeue_is_fenced<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let first = reader.entries().await.remove(0);
    let mut second = first.clone();
    second.attempts = 1;
    let late = reader.verdict(&second, retry(SECOND));
    reader.settle(&first, Verdict::dead(failure()), now).await;
    assert_eq!(harness.store().requeue(select_ids([1])).await.unwrap().changed, 1);
    let before = all(harness).await;
    let settled = reader.settle_all(vec![late], now.saturating_add(SECOND)).await;
    assert_eq!(settled, Settled { accepted: 0, fenced: vec![reader.held(&second)] });
    assert_eq!(all(harness).await, before);
}

/// A settle whose answer was lost is sent again: it is fenced, and no attempt is spent twice.
pub async fn settling_a_lane_twice_changes_nothing<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(4)).await.len(), 4);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let verdicts = [Verdict::Delivered, retry(HOUR), retry(std::time::Duration::ZERO), dead()];
    let batch: Vec<_> =
        reader.entries().await.iter().zip(verdicts).map(|(e, v)| reader.verdict(e, v)).collect();
    assert_eq!(reader.settle_all(batch.clone(), now).await.accepted, 4);
    let (entries, trail) = (all(harness).await, audit(harness).await);
    let mut again = reader.settle_all(batch.clone(), now.saturating_add(SECOND)).await;
    again.fenced.sort_unstable();
    let fenced = batch.iter().map(|settlement| settlement.held).collect();
    assert_eq!(again, Settled { accepted: 0, fenced });
    assert_eq!((all(harness).await, audit(harness).await), (entries, trail));
}

/// The fence is the lane's: one of an owner before, of the same session or of another lane, settles nothing.
pub async fn a_stale_fence_of_a_lane_settles_nothing<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a")]).await.len(), 1);
    let now = soon(harness).await;
    let mut old = Reader::join(harness, 1, now).await;
    let read = old.entries().await.remove(0);
    let lane = read.lane.unwrap();
    let stale: Vec<_> = [Verdict::Delivered, retry(SECOND), dead(), release()]
        .into_iter()
        .map(|verdict| old.verdict(&read, verdict))
        .collect();

    // Handed over, and not yet taken by another session.
    let before = all(harness).await;
    old.hand_over(vec![lane]).await;
    for verdict in &stale {
        assert_eq!(old.settle_all(vec![verdict.clone()], now).await.fenced, [verdict.held]);
    }
    // Taken by another session: it can be settled neither under the earlier fence, nor under the new one.
    let mut new = Reader::join(harness, 2, now).await;
    assert_eq!(new.lanes.keys().copied().collect::<Vec<_>>(), [lane]);
    let stolen = stale.iter().map(|one| LaneSettlement { held: new.held(&read), ..one.clone() });
    for verdict in stale.iter().cloned().chain(stolen) {
        assert_eq!(old.settle_all(vec![verdict.clone()], now).await.fenced, [verdict.held]);
    }
    // Back at the first: it counts under the new fence only.
    new.leave().await;
    let _ = old.attend(now).await;
    assert_eq!(old.lanes.len(), usize::from(LANES));
    for verdict in &stale {
        assert_eq!(old.settle_all(vec![verdict.clone()], now).await.fenced, [verdict.held]);
    }
    assert!(new.attend_as(new.request(now)).await.lost);
    assert_eq!((all(harness).await, audit(harness).await), (before, vec![]));
    old.settle(&read, Verdict::Delivered, now).await;
    assert_eq!(entry(harness, 1).await.status, Status::Delivered);
}

/// Where a row was read is a hint: it may have moved, and another may be there by now, which is not settled for it.
pub async fn a_row_is_settled_wherever_it_is<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(6)).await.len(), 6);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let entries = reader.entries().await;
    let [a, b, c, d, e, f] = &entries[..] else { panic!("{} entries", entries.len()) };
    let at = |entry, other: &Entry| LaneSettlement {
        hint: other.hint,
        ..reader.verdict(entry, Verdict::Delivered)
    };
    let batch = vec![at(a, a), at(b, c)];
    assert_eq!(reader.settle_all(batch, now).await, Settled { accepted: 2, fenced: vec![] });
    let somewhere = LaneSettlement { hint: RowHint::default(), ..at(d, d) };
    let batch = vec![somewhere, at(e, f)];
    let request = LaneSettleRequest { keep: Keep::No, ..reader.settle_request(batch, now) };
    let settled = Lanes::settle(&*harness.store(), request).await.unwrap();
    assert_eq!(settled, Settled { accepted: 2, fenced: vec![] });
    assert_eq!(ids(&reader.entries().await), ids(&[c.clone(), f.clone()]));
}

/// A session settles entries of its own route only.
pub async fn an_entry_of_another_route_is_not_settled<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a")]).await.len(), 1);
    let now = soon(harness).await;
    let mails = Reader::join_on(harness, "mails", 1, now).await;
    let orders = Reader::join(harness, 2, now).await;
    let read = orders.entries().await.remove(0);
    let before = all(harness).await;
    for held in [mails.held(&read), orders.held(&read)] {
        let verdict = LaneSettlement { held, ..orders.verdict(&read, Verdict::Delivered) };
        assert_eq!(mails.settle_all(vec![verdict], now).await, Settled { accepted: 0, fenced: vec![held] });
    }
    assert_eq!(all(harness).await, before);
}

/// Nothing in, nothing done.
pub async fn settling_nothing_of_a_lane_changes_nothing<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let before = all(harness).await;
    assert_eq!(reader.settle_all(vec![], now).await, Settled::default());
    assert_eq!(all(harness).await, before);
}

/// Thousands of verdicts of all kinds and lanes settle in one call.
pub async fn a_large_batch_of_lanes_settles_at_once<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(4_000)).await.len(), 4_000);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let entries = reader.entries().await;
    assert_eq!(entries.len(), 4_000);
    let verdict = |n: usize| match n % 4 {
        0 => retry(SECOND),
        1 => dead(),
        2 => release(),
        _ => Verdict::Delivered,
    };
    let batch = entries.iter().enumerate().map(|(n, entry)| reader.verdict(entry, verdict(n))).collect();
    assert_eq!(reader.settle_all(batch, now).await, Settled { accepted: 4_000, fenced: vec![] });
    // Entries that a session holds are shown as in flight.
    reader.leave().await;
    let left = all(harness).await;
    let having = |status| left.iter().filter(|entry| entry.status == status).count();
    use Status::{Dead, Delivered, Pending, Retrying};
    assert_eq!([Retrying, Dead, Pending, Delivered].map(having), [1_000; 4]);
    assert_eq!(audit(harness).await.len(), 1_000);
}
