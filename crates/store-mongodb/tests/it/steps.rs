//! What many tests do on their way.

use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{ClaimOrder, ClaimRequest, Company, Steps, Store};
use pillarbox_core::{Entry, Event, RouteName};
use pillarbox_store_mongodb::MongoStore;

use crate::harness::MongoHarness;

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

/// Stages and commits so many events.
pub(crate) async fn stage(harness: &MongoHarness, count: u32) {
    let (outbox, mut tx) = (harness.outbox(ROUTE), harness.begin().await);
    let staged = outbox.stage_all(&mut tx, (1..=count).map(event)).await.unwrap();
    assert_eq!(staged.len(), usize::try_from(count).unwrap());
    outbox.commit(tx).await.unwrap();
}

pub(crate) async fn claim(store: &MongoStore, limit: u32) -> Vec<Entry> {
    store.claim(wish(limit)).await.unwrap().entries
}
