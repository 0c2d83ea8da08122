//! Rows of the inbox go by age: bounded, audited, and never earlier than asked for.

use std::time::Duration;

use pillarbox_core::port::{AcceptRequest, Accepted, Admin, Effect, Inbox, Origin, Position, PurgeRequest};
use pillarbox_core::{AuditKind, Fence, Timestamp};

use super::steps::*;
use crate::{StoreHarness, Tamper};

async fn accept<H: StoreHarness>(harness: &H, request: AcceptRequest) -> Accepted {
    let mut tx = harness.begin().await;
    let accepted = harness.inbox().accept(&mut tx, request).await.unwrap();
    harness.commit(tx).await;
    accepted
}

async fn accept_at<H: StoreHarness>(harness: &H, n: u64, now: Timestamp) -> Accepted {
    accept(harness, AcceptRequest::new("billing", id(n)).at(now)).await
}

fn purge_request(now: Timestamp) -> PurgeRequest {
    PurgeRequest {
        older_than: HOUR,
        limit: 3,
        actor: "retention".into(),
        effect: Effect::Apply,
        now: Some(now),
    }
}

async fn purge<H: StoreHarness>(harness: &H, now: Timestamp) -> u64 {
    harness.store().purge_inbox(purge_request(now)).await.unwrap().purged
}

/// To the microsecond, and the entries of the outbox are not meant.
pub async fn a_purge_of_the_inbox_forgets_what_is_old_enough<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let (early, late) = (now, now.saturating_add(SECOND));
    assert_eq!(accept_at(harness, 1, early).await, Accepted::Fresh);
    assert_eq!(accept_at(harness, 2, late).await, Accepted::Fresh);
    assert_eq!(purge(harness, early.saturating_add(HOUR).saturating_sub(Duration::from_micros(1))).await, 0);
    assert_eq!(accept_at(harness, 1, early).await, Accepted::Duplicate);
    assert_eq!(purge(harness, early.saturating_add(HOUR)).await, 1);
    assert_eq!(accept_at(harness, 2, late).await, Accepted::Duplicate);
    assert_eq!(accept_at(harness, 1, late).await, Accepted::Fresh, "forgotten");
    assert_eq!(all(harness).await.len(), 1);
}

/// At most the limit at once, oldest first, audited with the count; if fewer are deleted, nothing is left.
pub async fn a_purge_of_the_inbox_is_bounded_and_audited_with_its_count<H: StoreHarness>(harness: &H) {
    let now = soon(harness).await;
    for n in 1..=5 {
        let at = now.saturating_sub(SECOND * u32::try_from(n).unwrap());
        assert_eq!(accept_at(harness, n, at).await, Accepted::Fresh);
    }
    let later = now.saturating_add(HOUR);
    let dry = PurgeRequest { effect: Effect::DryRun, ..purge_request(later) };
    assert_eq!(harness.store().purge_inbox(dry).await.unwrap().purged, 3);
    assert!(audit(harness).await.is_empty());
    assert_eq!(purge(harness, later).await, 3);
    assert_eq!(accept_at(harness, 2, now).await, Accepted::Duplicate, "the oldest went first");
    assert_eq!((purge(harness, later).await, purge(harness, later).await), (2, 0));
    let trail = harness.store().audit(10).await.unwrap();
    assert_eq!(trail.len(), 2, "a purge of nothing leaves no record");
    assert!(trail.iter().all(|record| record.kind == AuditKind::InboxPurged && record.actor == "retention"));
    assert_eq!((trail[0].detail.as_str(), trail[1].detail.as_str()), ("3", "2"));
}

/// No audit, no purge.
pub async fn a_purge_of_the_inbox_that_cannot_be_audited_deletes_nothing<H: StoreHarness>(harness: &H) {
    let now = soon(harness).await;
    assert_eq!(accept_at(harness, 1, now).await, Accepted::Fresh);
    tamper!(harness, Tamper::FailAudit);
    assert!(harness.store().purge_inbox(purge_request(now.saturating_add(HOUR))).await.is_err());
    assert_eq!(accept_at(harness, 1, now).await, Accepted::Duplicate);
    assert!(harness.tamper(Tamper::RepairAudit).await);
}

/// The owner of a lane of which nothing new was seen for as long is forgotten too; a newer one stays.
pub async fn a_purge_of_the_inbox_forgets_owners_of_old<H: StoreHarness>(harness: &H) {
    let now = soon(harness).await;
    let later = now.saturating_add(HOUR);
    let from = |lane: &str, fence, offset| Origin {
        lane: lane.into(),
        fence: Fence(fence),
        position: Position { stream: "s".into(), offset },
    };
    let request = |n, at, origin| AcceptRequest::new("billing", id(n)).at(at).origin(Some(origin));
    assert_eq!(accept(harness, request(1, now, from("old", 7, 1))).await, Accepted::Fresh);
    assert_eq!(accept(harness, request(2, later, from("new", 7, 1))).await, Accepted::Fresh);
    assert_eq!(purge(harness, later).await, 1);
    assert_eq!(accept(harness, request(3, later, from("old", 6, 2))).await, Accepted::Fresh);
    assert_eq!(accept(harness, request(4, later, from("new", 6, 2))).await, Accepted::Stale);
}
