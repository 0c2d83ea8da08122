//! Reaping: entries with an expired lease are returned, and those without attempts left are dead.

use pillarbox_core::port::{Admin, ClaimRequest, Effect, ReapRequest, Reaped, Store, Verdict};
use pillarbox_core::{AuditKind, CRASHES_IN_COMPANY, FailureKind, Status, Timestamp};

use super::steps::*;
use crate::{StoreHarness, Tamper};

/// Lets all leases expire until the next one that does was that of an entry alone; returns when that is.
async fn crash_alone<H: StoreHarness>(harness: &H, max_attempts: u32) -> Timestamp {
    let mut now = soon(harness).await;
    let entries = claim_as(harness, ClaimRequest { max_attempts, ..claim_request(10, now) }).await.len();
    for _ in 0..CRASHES_IN_COMPANY {
        now = now.saturating_add(LEASE);
        let mut held = 0;
        // They are claimed one by one in the end, which a relay would not do at once.
        while held < entries {
            let taken =
                overtake(harness, ClaimRequest { max_attempts, ..claim_request(10, now) }).await.len();
            assert!(taken > 0, "{held} of {entries}");
            held += taken;
        }
    }
    now.saturating_add(LEASE)
}

/// Back in the queue at once, with the spent attempt counted.
pub async fn an_expired_lease_is_returned_to_the_queue<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(2)).await.len(), 2);
    let now = soon(harness).await;
    let held = claim(harness, 10, now).await;
    let later = now.saturating_add(LEASE);
    assert_eq!(
        reap(harness, reap_request(later)).await,
        Reaped { stale: 2, released: 2, suspects: true, ..Reaped::default() }
    );
    for entry in all(harness).await {
        assert_eq!((entry.status, entry.attempts, entry.due_at), (Status::Retrying, 1, None));
        assert_eq!(entry.crashes, 1);
        assert_eq!(entry.last_error.map(|failure| failure.kind), Some(FailureKind::LeaseExpired));
    }
    assert_eq!(audit(harness).await, [], "an expired lease is no death");
    assert!(claim(harness, 10, later).await.is_empty(), "suspects are asked for");
    let again = claim_suspects(harness, 0, later).await.entries;
    assert_eq!(ids(&again), ids_of([1, 2]));
    assert!(again.iter().zip(&held).all(|(new, old)| new.attempts == 2 && new.fence > old.fence));
    assert_eq!(reap(harness, reap_request(later)).await, Reaped::default(), "a second sweep finds nothing");
    settle(harness, &again[0], retry(SECOND), later).await;
    let due = later.saturating_add(SECOND);
    let third = claim_suspects(harness, 0, due).await.entries.len() + claim(harness, 10, due).await.len();
    assert_eq!(third, 1);
    assert_eq!(reap(harness, reap_request(due.saturating_add(LEASE))).await.released, 2);
    for entry in all(harness).await {
        let kind = entry.last_error.map(|failure| failure.kind);
        assert_eq!(
            kind,
            Some(FailureKind::LeaseExpired),
            "what came of the last attempt, not of the one before"
        );
    }
}

/// A live lease, an entry that waits and a settled one are none of the reaper's business.
pub async fn a_reap_leaves_live_leases_alone<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(4)).await.len(), 4);
    let now = soon(harness).await;
    let held = claim(harness, 3, now).await;
    settle(harness, &held[1], retry(SECOND), now).await;
    settle(harness, &held[2], Verdict::Delivered, now).await;
    let before = all(harness).await;
    let last = now.saturating_add(LEASE).saturating_sub(std::time::Duration::from_micros(1));
    assert_eq!(reap(harness, reap_request(last)).await, Reaped::default());
    assert_eq!(all(harness).await, before);
}

/// At most the limit in one sweep.
pub async fn a_reap_is_bounded_by_its_limit<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(5)).await.len(), 5);
    let now = soon(harness).await;
    assert_eq!(claim(harness, 10, now).await.len(), 5);
    let later = now.saturating_add(LEASE);
    let mut released = vec![];
    for _ in 0..4 {
        let reaped = reap(harness, ReapRequest { limit: 2, ..reap_request(later) }).await;
        assert_eq!(reaped.stale, reaped.released);
        released.push(reaped.released);
    }
    assert_eq!(released, [2, 2, 1, 0]);
}

/// Only counted: how many leases are stale.
pub async fn a_dry_run_reaps_nothing<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(3)).await.len(), 3);
    let now = soon(harness).await;
    assert_eq!(claim(harness, 10, now).await.len(), 3);
    let before = all(harness).await;
    let later = now.saturating_add(LEASE);
    for (limit, max_attempts, stale) in [(1000, Some(5), 3), (2, None, 2), (1000, Some(1), 3)] {
        let dry = ReapRequest { effect: Effect::DryRun, limit, max_attempts, ..reap_request(later) };
        assert_eq!(reap(harness, dry).await, Reaped { stale, ..Reaped::default() });
    }
    assert_eq!((all(harness).await, audit(harness).await), (before, vec![]));
}

/// One route, or all of them.
pub async fn a_reap_of_one_route_leaves_the_others_alone<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1)]).await.len(), 1);
    assert_eq!(stage_on(harness, "mails", vec![event(2)]).await.len(), 1);
    let now = soon(harness).await;
    assert_eq!(claim(harness, 10, now).await.len(), 1);
    let mails = ClaimRequest { route: route("mails"), ..claim_request(10, now) };
    assert_eq!(claim_as(harness, mails).await.len(), 1);
    let later = now.saturating_add(LEASE);
    assert_eq!(reap(harness, reap_request(later)).await.released, 1);
    assert_eq!(entry(harness, 2).await.status, Status::InFlight);
    assert_eq!(reap(harness, ReapRequest { route: None, ..reap_request(later) }).await.released, 1);
    assert_eq!(entry(harness, 2).await.status, Status::Retrying);
}

/// An entry in flight without the end of a lease has no owner: it is counted and returned.
pub async fn an_in_flight_row_without_a_lease_end_is_returned<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(2)).await.len(), 2);
    let now = soon(harness).await;
    let held = claim(harness, 10, now).await;
    tamper!(harness, Tamper::ForgetLeaseEnd(id(1)));
    assert!(harness.tamper(Tamper::ForgetLeaseEnd(id(2))).await);
    let wanted = Reaped { stale: 2, released: 2, suspects: true, ..Reaped::default() };
    assert_eq!(reap(harness, reap_request(now)).await, wanted);
    let back = entry(harness, 2).await;
    assert_eq!((back.status, back.due_at), (Status::Retrying, None));
    let late = settle_all(harness, vec![(held[1].held(), Verdict::Delivered)], now).await;
    assert_eq!(late.fenced, [held[1].held()]);
}

/// An entry that spent its attempts and was never settled is dead, audited, and reported.
pub async fn a_reap_buries_what_has_no_attempts_left<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1), event(2).max_attempts(2)]).await.len(), 2);
    let later = crash_alone(harness, 1).await;
    let reaped = reap(harness, ReapRequest { max_attempts: Some(1), ..reap_request(later) }).await;
    assert_eq!((reaped.stale, reaped.released, reaped.dead.len()), (2, 1, 1));
    let death = &reaped.dead[0];
    assert_eq!((death.event_id, death.attempts), (id(1), CRASHES_IN_COMPANY + 1));
    assert_eq!((death.route.as_str(), death.event_type.as_str()), (ROUTE, "order.placed"));
    assert_eq!(death.failure.kind, FailureKind::LeaseExpired);
    let buried = entry(harness, 1).await;
    assert_eq!((buried.status, buried.due_at, buried.settled_at), (Status::Dead, None, Some(later)));
    assert_eq!(buried.last_error.as_ref(), Some(&death.failure));
    let trail = harness.store().audit(10).await.unwrap();
    assert_eq!(trail.len(), 1);
    assert_eq!((trail[0].kind, trail[0].event_id), (AuditKind::Dead, Some(id(1))));
    assert_eq!(trail[0].actor, "reaper");
    assert_eq!(entry(harness, 2).await.status, Status::Retrying, "its own limit allows one more");
}

/// If the allowed attempts are not given, only an entry's own limit makes it dead.
pub async fn a_reap_without_a_limit_of_attempts_buries_only_by_the_entrys_own<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1), event(2).max_attempts(1)]).await.len(), 2);
    let later = crash_alone(harness, 5).await;
    let reaped = reap(harness, ReapRequest { max_attempts: None, ..reap_request(later) }).await;
    assert_eq!(reaped.released, 1);
    assert_eq!(reaped.dead.iter().map(|death| death.event_id).collect::<Vec<_>>(), [id(2)]);
    assert_eq!(entry(harness, 1).await.status, Status::Retrying);
}

/// A route whose allowed attempts were lowered does not leave entries that no relay may claim.
pub async fn a_reap_buries_waiting_entries_whose_attempts_are_spent<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let held = claim_one(harness, now).await;
    settle(harness, &held, retry(SECOND), now).await;
    let later = now.saturating_add(SECOND);
    let lowered = ClaimRequest { max_attempts: 1, ..claim_request(10, later) };
    assert!(claim_as(harness, lowered).await.is_empty(), "its attempts are spent");
    let reaped = reap(harness, ReapRequest { max_attempts: Some(1), ..reap_request(later) }).await;
    assert_eq!((reaped.released, reaped.dead.len()), (0, 1));
    assert_eq!(entry(harness, 1).await.status, Status::Dead);
    assert_eq!(audit(harness).await, [(AuditKind::Dead, Some(id(1)))]);
}

/// No audit, no death.
pub async fn a_reap_that_cannot_be_audited_buries_nothing<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let later = crash_alone(harness, 1).await;
    let held = all(harness).await;
    tamper!(harness, Tamper::FailAudit);
    let request = ReapRequest { max_attempts: Some(1), ..reap_request(later) };
    assert!(harness.store().reap(request).await.is_err());
    assert_eq!(all(harness).await, held);
    assert!(harness.tamper(Tamper::RepairAudit).await);
}
