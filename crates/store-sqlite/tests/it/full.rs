//! A disk that is full.

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Schema, SchemaState, Store, Verdict};
use pillarbox_core::{ErrorKind, Retry};
use pillarbox_store_sqlite::{Options, SqliteStore};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::harness::{SqliteHarness, url};
use crate::steps::*;

/// One connection to the file that may grow it by this many pages only.
async fn small(harness: &SqliteHarness, pages: i64) -> SqlitePool {
    let limit = harness.number("pragma page_count").await + pages;
    let options: SqliteConnectOptions = url(&harness.directory).parse().unwrap();
    let options = options.pragma("max_page_count", limit.to_string());
    SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap()
}

async fn grow(pool: &SqlitePool) {
    sqlx::query("pragma max_page_count = 1000000").execute(pool).await.unwrap();
}

async fn intact(harness: &SqliteHarness) {
    let check: String =
        sqlx::query_scalar("pragma integrity_check").fetch_one(harness.store().pool()).await.unwrap();
    assert_eq!(check, "ok");
    assert_eq!(harness.store().inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
}

#[tokio::test]
async fn staging_on_a_full_disk_stages_nothing_and_recovers() {
    let harness = SqliteHarness::start().await;
    let pool = small(&harness, 10).await;
    let mut tx = pool.begin().await.unwrap();
    let big = (0..1_000).map(|n| pillarbox_core::Event::new("big", vec![0; 1_000 + n]));
    let error = outbox().stage_all(&mut tx, big).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::ReadOnly, Retry::Later), "{error}");
    drop(tx);
    assert_eq!(harness.number("select count(*) from pillarbox_outbox").await, 0);
    intact(&harness).await;
    grow(&pool).await;
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(outbox().stage_all(&mut tx, (0..100).map(event)).await.unwrap().len(), 100);
    tx.commit().await.unwrap();
    assert_eq!(claim(&harness.store(), 1_000).await.len(), 100);
}

#[tokio::test]
async fn a_relay_on_a_full_disk_changes_nothing_and_recovers() {
    let harness = SqliteHarness::start().await;
    stage(&harness, 2_000).await;
    let pool = small(&harness, 0).await;
    let store = SqliteStore::new(pool.clone(), Options::default()).unwrap();
    // Moving two thousand entries from one index to another needs new pages.
    let error = store.claim(wish(2_000)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::ReadOnly, Retry::Later), "{error}");
    let untouched = "select count(*) from pillarbox_outbox where status = 'pending' and attempts = 0";
    assert_eq!(harness.number(untouched).await, 2_000);
    intact(&harness).await;

    grow(&pool).await;
    let held = claim(&store, 2_000).await;
    assert_eq!(held.len(), 2_000);
    drop(store);
    pool.close().await;
    let pool = small(&harness, 0).await;
    let store = SqliteStore::new(pool.clone(), Options::default()).unwrap();
    // Several statements in one transaction, of which the audit is the first to need room.
    let error = store.settle(settlement(&held, dead())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    assert_eq!(harness.number("select count(*) from pillarbox_audit").await, 0);
    assert_eq!(
        harness.number("select count(*) from pillarbox_outbox where status = 'in_flight'").await,
        2_000
    );
    intact(&harness).await;

    grow(&pool).await;
    assert_eq!(settle(&store, &held[..1_000], dead()).await.accepted, 1_000);
    assert_eq!(settle(&store, &held[1_000..], Verdict::Delivered).await.accepted, 1_000);
    assert_eq!(harness.number("select count(*) from pillarbox_audit where kind = 'dead'").await, 1_000);
}
