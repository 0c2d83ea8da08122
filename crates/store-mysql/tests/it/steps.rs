//! What many tests do on their way.

use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{
    ClaimOrder, ClaimRequest, Company, Keep, SettleRequest, Settlement, Steps, Store, Verdict,
};
use pillarbox_core::{Entry, Event, Failure, FailureKind, RouteName};
use pillarbox_store_mysql::MySqlStore;

use crate::harness::MySqlHarness;

pub(crate) const ROUTE: &str = "orders";

pub(crate) fn route() -> RouteName {
    RouteName::new(ROUTE).unwrap()
}

pub(crate) fn event(number: u32) -> Event {
    Event::json("order.placed", &number).unwrap()
}

pub(crate) fn wish(limit: u32) -> ClaimRequest {
    let (order, company, steps) = (ClaimOrder::Staged, Company::Open, Steps::Leave);
    let (lease, owner) = (Duration::from_secs(60), "worker-1".to_owned());
    ClaimRequest { route: route(), limit, lease, owner, max_attempts: 5, order, company, steps, now: None }
}

/// Records this verdict on each entry.
pub(crate) fn settling(entries: &[Entry], verdict: &Verdict) -> SettleRequest {
    let settlements =
        entries.iter().map(|entry| Settlement { held: entry.held(), verdict: verdict.clone() }).collect();
    SettleRequest { owner: "worker-1".into(), settlements, keep: Keep::UntilPurged, now: None }
}

pub(crate) fn dead() -> Verdict {
    Verdict::dead(Failure::new(FailureKind::Rejected, "unroutable", "nobody wants it"))
}

/// Stages and commits so many events.
pub(crate) async fn stage(harness: &MySqlHarness, count: u32) {
    let (outbox, mut tx) = (harness.outbox(ROUTE), harness.begin().await);
    let staged = outbox.stage_all(&mut tx, (1..=count).map(event)).await.unwrap();
    assert_eq!(staged.len(), usize::try_from(count).unwrap());
    outbox.commit(tx).await.unwrap();
}

pub(crate) async fn claim(store: &MySqlStore, limit: u32) -> Vec<Entry> {
    store.claim(wish(limit)).await.unwrap().entries
}
