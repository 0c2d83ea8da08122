//! What most tests do.

use std::collections::BTreeSet;
use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{
    Claim, ClaimOrder, ClaimRequest, Company, Effect, Keep, Leases, ReapRequest, SettleRequest, Settled,
    Settlement, Steps, Store, Verdict,
};
use pillarbox_core::{Entry, Event, Failure, FailureKind, RouteName, Timestamp};
use pillarbox_store_sqlite::{Outbox, SqliteStore};

use crate::harness::SqliteHarness;

pub(crate) const ROUTE: &str = "orders";

/// A plain event.
pub(crate) fn event(n: usize) -> Event {
    Event::new("order.placed", format!("{{\"n\":{n}}}"))
}

/// Stages this many events in a transaction of their own.
pub(crate) async fn stage(harness: &SqliteHarness, count: usize) {
    let mut tx = harness.begin().await;
    let staged = harness.outbox(ROUTE).stage_all(&mut tx, (0..count).map(event)).await.unwrap();
    assert_eq!(staged.len(), count);
    harness.commit(tx).await;
}

/// A wish for this many entries, at the database's time.
pub(crate) fn wish(limit: u32) -> ClaimRequest {
    ClaimRequest {
        route: RouteName::new(ROUTE).unwrap(),
        limit,
        lease: Duration::from_secs(60),
        owner: "worker".into(),
        max_attempts: 5,
        order: ClaimOrder::Staged,
        company: Company::Open,
        steps: Steps::Leave,
        now: None,
    }
}

/// Claims this many entries.
pub(crate) async fn claim(store: &SqliteStore, limit: u32) -> Vec<Entry> {
    let Claim { entries, undecodable, .. } = store.claim(wish(limit)).await.unwrap();
    assert!(undecodable.is_empty());
    entries
}

/// Settles all of them alike.
pub(crate) async fn settle(store: &SqliteStore, entries: &[Entry], verdict: Verdict) -> Settled {
    store.settle(settlement(entries, verdict)).await.unwrap()
}

/// The request for that.
pub(crate) fn settlement(entries: &[Entry], verdict: Verdict) -> SettleRequest {
    SettleRequest {
        owner: "worker".into(),
        settlements: entries
            .iter()
            .map(|entry| Settlement { held: entry.held(), verdict: verdict.clone() })
            .collect(),
        keep: Keep::UntilPurged,
        now: None,
    }
}

/// Given up.
pub(crate) fn dead() -> Verdict {
    Verdict::dead(Failure::new(FailureKind::Rejected, "no", "not this one"))
}

/// The rows of entries.
pub(crate) fn seqs(entries: &[Entry]) -> BTreeSet<i64> {
    entries.iter().map(|entry| entry.seq).collect()
}

/// An outbox on the default tables.
pub(crate) fn outbox() -> Outbox {
    Outbox::new(ROUTE)
}

/// A reap of everything at this time.
pub(crate) fn reap_at(now: Timestamp) -> ReapRequest {
    ReapRequest {
        route: None,
        limit: 100,
        max_attempts: Some(5),
        leases: Leases::Ended,
        steps: Steps::Leave,
        owner: "reaper".into(),
        effect: Effect::Apply,
        now: Some(now),
    }
}
