//! Several writers of one file.

use std::collections::BTreeSet;
use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{
    Admin, Effect, Filter, Leases, ReapRequest, Reaped, Schema, SchemaState, Steps, Store, Verdict,
};
use pillarbox_core::{ErrorKind, Retry};
use pillarbox_store_sqlite::{Options, SqliteStore};
use sqlx::Connection as _;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::harness::{SqliteHarness, url};
use crate::steps::*;

#[tokio::test(flavor = "multi_thread")]
async fn eight_stores_on_one_file_claim_disjoint_entries() {
    let harness = SqliteHarness::start().await;
    stage(&harness, 5_000).await;
    let mut claimers = JoinSet::new();
    for _ in 0..8 {
        let store = harness.another().await;
        claimers.spawn(async move {
            let mut taken = Vec::new();
            loop {
                match store.claim(wish(97)).await {
                    Ok(claim) if claim.entries.is_empty() => return taken,
                    Ok(claim) => taken.extend(seqs(&claim.entries)),
                    // Eight writers at once may wait longer than the busy timeout on a slow machine.
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Contention, "{error}"),
                }
            }
        });
    }
    let taken: Vec<i64> = claimers.join_all().await.into_iter().flatten().collect();
    assert_eq!(taken.len(), 5_000, "every entry was handed out once");
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), 5_000, "no entry was handed out twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_stores_migrate_one_fresh_file_at_once() {
    let directory = TempDir::new().unwrap();
    let mut migrations = JoinSet::new();
    for _ in 0..8 {
        let url = url(&directory);
        migrations.spawn(async move {
            let store = SqliteStore::connect(&url, Options::default().causal_order(true)).await.unwrap();
            store.migrate().await.unwrap()
        });
    }
    let migrated = migrations.join_all().await;
    assert!(migrated.iter().all(|migrated| migrated.to == 1));
    assert_eq!(migrated.iter().filter(|migrated| migrated.from == 0).count(), 1, "one did the work");
    let store = SqliteStore::connect(&url(&directory), Options::default().causal_order(true)).await.unwrap();
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
}

/// A fresh file that somebody writes the old way: it cannot be turned to its write-ahead log meanwhile.
async fn writer_of_a_plain_file(directory: &TempDir) -> sqlx::SqliteConnection {
    let mut writer = sqlx::SqliteConnection::connect(&format!("{}?mode=rwc", url(directory))).await.unwrap();
    sqlx::raw_sql("create table mine (id); begin immediate").execute(&mut writer).await.unwrap();
    writer
}

#[tokio::test]
async fn opening_waits_for_who_writes_the_file_before_its_first_use() {
    let directory = TempDir::new().unwrap();
    let writer = writer_of_a_plain_file(&directory).await;
    let leave = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        writer.close().await.unwrap();
    };
    let url = url(&directory);
    let (store, ()) = tokio::join!(SqliteStore::connect(&url, Options::default()), leave);
    assert_eq!(store.unwrap().migrate().await.unwrap().to, 1);
}

#[tokio::test]
async fn opening_waits_no_longer_than_the_busy_timeout() {
    let directory = TempDir::new().unwrap();
    let _writer = writer_of_a_plain_file(&directory).await;
    let options = Options::default().busy_timeout(Duration::from_millis(50));
    let error = SqliteStore::connect(&url(&directory), options).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Contention, Retry::Later), "{error}");
}

#[tokio::test]
async fn a_claim_waits_for_another_writer_no_longer_than_the_busy_timeout() {
    let harness = SqliteHarness::with(Options::default().busy_timeout(Duration::from_millis(50))).await;
    stage(&harness, 3).await;
    let other = harness.begin().await;
    let error = harness.store().claim(wish(10)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Contention, Retry::Later), "{error}");
    let error = harness.store().migrate().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contention, "{error}");
    harness.rollback(other).await;
    assert_eq!(claim(&harness.store(), 10).await.len(), 3, "the writer's connection was not harmed");
}

#[tokio::test]
async fn a_claim_gets_its_turn_when_the_other_writer_ends() {
    let harness = SqliteHarness::start().await;
    stage(&harness, 3).await;
    let mut other = harness.begin().await;
    assert_eq!(harness.outbox(ROUTE).stage_all(&mut other, [event(4)]).await.unwrap().len(), 1);
    let store = harness.store();
    let (claimed, ()) = tokio::join!(claim(&store, 10), harness.commit(other));
    assert_eq!(claimed.len(), 4, "a late commit is not skipped");
}

#[tokio::test]
async fn an_entry_that_commits_after_newer_ones_were_settled_is_not_skipped() {
    let harness = SqliteHarness::start().await;
    stage(&harness, 2).await;
    // A number below the ones that were handed out already, as only an explicit seq can have on SQLite.
    harness.execute("update pillarbox_outbox set seq = seq + 10").await;
    let newer = claim(&harness.store(), 10).await;
    assert_eq!(settle(&harness.store(), &newer, Verdict::Delivered).await.accepted, 2);
    harness
        .execute(
            "insert into pillarbox_outbox (seq, route, type, payload) values (3, 'orders', 'late', '{}')",
        )
        .await;
    assert_eq!(seqs(&claim(&harness.store(), 10).await), BTreeSet::from([3]));
}

#[tokio::test]
async fn a_relay_with_nothing_to_do_is_in_no_writers_way() {
    let harness = SqliteHarness::with(Options::default().busy_timeout(Duration::ZERO)).await;
    let mut other = harness.begin().await;
    assert_eq!(harness.outbox(ROUTE).stage_all(&mut other, [event(1)]).await.unwrap().len(), 1);
    assert!(claim(&harness.store(), 10).await.is_empty(), "it looked without asking for the lock");
    let reap = ReapRequest {
        leases: Leases::Ended,
        route: None,
        limit: 100,
        max_attempts: Some(5),
        steps: Steps::Leave,
        owner: "reaper".into(),
        effect: Effect::Apply,
        now: None,
    };
    assert_eq!(harness.store().reap(reap).await.unwrap(), Reaped::default());
    harness.commit(other).await;
    assert_eq!(claim(&harness.store(), 10).await.len(), 1);
}

#[tokio::test]
async fn a_reader_never_waits_for_a_writer() {
    let harness = SqliteHarness::with(Options::default().busy_timeout(Duration::ZERO)).await;
    stage(&harness, 3).await;
    let mut other = harness.begin().await;
    assert_eq!(harness.outbox(ROUTE).stage_all(&mut other, [event(4)]).await.unwrap().len(), 1);
    assert_eq!(harness.store().list(Filter::default()).await.unwrap().len(), 3);
    assert_eq!(harness.store().counts(None).await.unwrap()[0].undrained(), 3);
    harness.rollback(other).await;
}
