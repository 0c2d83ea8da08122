//! Two stores share the work, on one server or on two nodes of a Galera cluster: `PILLARBOX_TEST_MYSQL_SECOND` names
//! the second node.

use std::collections::BTreeMap;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::EventId;
use pillarbox_core::port::{Keep, SettleRequest, Settlement, Store, Verdict};
use pillarbox_store_mysql::MySqlStore;
use pillarbox_testkit::eventually;
use tokio::task::JoinSet;

use crate::harness::{MySqlHarness, url_of};
use crate::steps::{stage, wish};

const EVENTS: u32 = 300;

/// Claims and settles until nothing is left, and tells what it was given.
async fn drain(store: MySqlStore) -> Vec<EventId> {
    let (mut taken, mut idle) = (Vec::new(), 0);
    while idle < 20 {
        let entries = store.claim(wish(7)).await.unwrap().entries;
        idle = if entries.is_empty() { idle + 1 } else { 0 };
        let verdict = |held| Settlement { held, verdict: Verdict::Delivered };
        let settlements: Vec<_> = entries.iter().map(|entry| verdict(entry.held())).collect();
        let wanted = settlements.len() as u64;
        let request = SettleRequest { owner: "w".into(), settlements, keep: Keep::UntilPurged, now: None };
        assert_eq!(store.settle(request).await.unwrap().accepted, wanted);
        taken.extend(entries.iter().map(|entry| entry.event_id));
    }
    taken
}

#[tokio::test]
async fn two_stores_share_the_work_and_no_entry_is_handed_out_twice() {
    let harness = MySqlHarness::start().await;
    let second = std::env::var("PILLARBOX_TEST_MYSQL_SECOND");
    let second = second.map_or_else(|_| harness.database.url(), |node| url_of(&node, &harness.database.0));
    let second = MySqlStore::connect(&second, harness.options.clone()).await.unwrap();
    stage(&harness, EVENTS).await;
    // What one node has committed is on the other soon.
    let there = "select count(*) from pillarbox_outbox";
    eventually(std::time::Duration::from_secs(60), async || {
        let row = sqlx::query(there).fetch_one(second.pool()).await;
        row.is_ok_and(|row| sqlx::Row::get_unchecked::<i64, _>(&row, 0) == i64::from(EVENTS))
    })
    .await;
    let mut drains = JoinSet::new();
    drains.spawn(drain((*harness.store()).clone()));
    drains.spawn(drain(second));
    let mut times: BTreeMap<EventId, u32> = BTreeMap::new();
    for id in drains.join_all().await.concat() {
        *times.entry(id).or_default() += 1;
    }
    assert_eq!(times.len(), usize::try_from(EVENTS).unwrap());
    assert!(times.values().all(|times| *times == 1), "{times:?}");
}
