//! What many tests do on their way.

use std::time::Duration;

use pillarbox_core::port::{
    ClaimOrder, ClaimRequest, Company, Effect, Keep, Leases, ReapRequest, SettleRequest, Settlement, Steps,
    Store, Verdict,
};
use pillarbox_core::{Entry, Event, EventId, Failure, FailureKind, RouteName};
use pillarbox_store_mysql::{MySqlStore, Outbox};
use sqlx::MySqlPool;

pub(crate) const ROUTE: &str = "orders";

pub(crate) fn route() -> RouteName {
    RouteName::new(ROUTE).unwrap()
}

pub(crate) fn events(count: u32) -> Vec<Event> {
    (1..=count).map(|n| Event::json("order.placed", &n).unwrap()).collect()
}

pub(crate) fn claim_request(limit: u32) -> ClaimRequest {
    ClaimRequest {
        route: route(),
        limit,
        lease: Duration::from_secs(60),
        owner: "worker-1".into(),
        max_attempts: 5,
        order: ClaimOrder::Staged,
        company: Company::Open,
        steps: Steps::Leave,
        now: None,
    }
}

pub(crate) fn settle_request(settlements: Vec<Settlement>) -> SettleRequest {
    SettleRequest { owner: "worker-1".into(), settlements, keep: Keep::UntilPurged, now: None }
}

pub(crate) fn reap_request() -> ReapRequest {
    ReapRequest {
        leases: Leases::Ended,
        route: Some(route()),
        limit: 100,
        max_attempts: Some(5),
        steps: Steps::Leave,
        owner: "reaper-1".into(),
        effect: Effect::Apply,
        now: None,
    }
}

pub(crate) fn dead() -> Verdict {
    Verdict::dead(Failure::new(FailureKind::Rejected, "unroutable", "nobody wants it"))
}

pub(crate) fn verdicts(entries: &[Entry], verdict: &Verdict) -> Vec<Settlement> {
    entries.iter().map(|entry| Settlement { held: entry.held(), verdict: verdict.clone() }).collect()
}

/// Stages and commits.
pub(crate) async fn stage(outbox: &Outbox, pool: &MySqlPool, events: Vec<Event>) {
    let mut tx = pool.begin().await.unwrap();
    let staged = outbox.stage_all(&mut tx, events).await.unwrap();
    assert!(staged.iter().all(|staged| !staged.is_duplicate()));
    outbox.commit(tx).await.unwrap();
}

pub(crate) async fn claim(store: &MySqlStore, limit: u32) -> Vec<Entry> {
    store.claim(claim_request(limit)).await.unwrap().entries
}

pub(crate) fn ids(entries: &[Entry]) -> Vec<EventId> {
    entries.iter().map(|entry| entry.event_id).collect()
}
