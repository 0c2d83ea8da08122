//! The line before the one write lock of a file.

use std::sync::Mutex;
use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Store, Verdict};
use pillarbox_core::{ErrorKind, Retry};
use pillarbox_store_sqlite::{Options, SqliteStore};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, Sqlite, SqliteConnection, Transaction};

use crate::harness::{SqliteHarness, url};
use crate::steps::*;

async fn synchronous(tx: &mut Transaction<'_, Sqlite>) -> i64 {
    sqlx::query_scalar("pragma synchronous").fetch_one(&mut **tx).await.unwrap()
}

#[tokio::test]
async fn who_writes_waits_in_the_order_of_coming_relays_too() {
    let harness = SqliteHarness::start().await;
    let store = harness.store();
    for _ in 0..20 {
        stage(&harness, 2).await;
        let held = claim(&store, 10).await;
        let order = Mutex::new(Vec::new());
        let note = |who: &'static str| order.lock().unwrap().push(who);
        let application = async |who: &'static str| {
            let tx = store.begin().await.unwrap();
            note(who);
            tx.commit().await.unwrap();
        };
        let relay = async {
            assert_eq!(settle(&store, &held, Verdict::Delivered).await.accepted, 2);
            note("relay");
        };
        let before = store.begin().await.unwrap();
        let leave = async {
            assert!(order.lock().unwrap().is_empty(), "nobody passes");
            before.rollback().await.unwrap();
        };
        tokio::join!(application("first"), relay, application("third"), application("fourth"), leave);
        assert_eq!(order.into_inner().unwrap(), ["first", "relay", "third", "fourth"]);
    }
}

#[tokio::test]
async fn a_lock_that_another_process_has_is_asked_for_again() {
    let harness = SqliteHarness::start().await;
    stage(&harness, 3).await;
    let (store, other) = (harness.store(), harness.another().await);
    for _ in 0..3 {
        let theirs = other.begin().await.unwrap();
        let leave = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            theirs.rollback().await.unwrap();
        };
        // Whichever of ours comes first, the other one waits for its end.
        let ours = async { store.begin().await.unwrap().rollback().await.unwrap() };
        let ((), claimed, ()) = tokio::join!(leave, claim(&store, 1), ours);
        assert_eq!(claimed.len(), 1);
    }
}

#[tokio::test]
async fn a_lock_that_another_process_keeps_is_contention_after_the_busy_timeout() {
    let harness = SqliteHarness::with(Options::default().busy_timeout(Duration::from_millis(50))).await;
    let theirs = harness.another().await.begin().await.unwrap();
    let error = harness.store().begin().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contention, "{error}");
    theirs.rollback().await.unwrap();
    harness.store().begin().await.unwrap().rollback().await.unwrap();
}

#[tokio::test]
async fn what_an_application_commits_in_line_is_on_disk_whoever_wrote_before() {
    let harness = SqliteHarness::start().await;
    stage(&harness, 2).await;
    let store = harness.store();
    for _ in 0..2 {
        // A relay's claim does not wait for the disk; it is the same connection.
        assert_eq!(claim(&store, 1).await.len(), 1);
        let mut tx = store.begin().await.unwrap();
        assert_eq!(synchronous(&mut tx).await, 2);
        tx.rollback().await.unwrap();
    }
}

#[tokio::test]
async fn on_a_pool_of_the_application_a_commit_is_as_durable_as_the_pool_says() {
    let harness = SqliteHarness::start().await;
    let options: SqliteConnectOptions = url(&harness.directory).parse().unwrap();
    let options = options.synchronous(SqliteSynchronous::Normal);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    let store = SqliteStore::new(pool, Options::default()).unwrap();
    let mut tx = store.begin().await.unwrap();
    assert_eq!(synchronous(&mut tx).await, 1);
    outbox().stage(&mut tx, event(1)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(claim(&store, 10).await.len(), 1);
}

#[tokio::test]
async fn a_full_disk_does_not_stop_the_line() {
    let harness = SqliteHarness::start().await;
    harness.execute("create table mine (data)").await;
    let store = harness.store();
    let mut tx = store.begin().await.unwrap();
    sqlx::query("pragma max_page_count = 1").execute(&mut *tx).await.unwrap();
    let full =
        sqlx::query("insert into mine values (zeroblob(1000000))").execute(&mut *tx).await.unwrap_err();
    assert!(full.to_string().contains("full"), "{full}");
    // SQLite has rolled back by itself, and the driver still counts a transaction.
    drop(tx);
    let mut tx = store.begin().await.unwrap();
    assert_eq!(synchronous(&mut tx).await, 2, "it is a transaction of its own");
    tx.rollback().await.unwrap();
    stage(&harness, 10).await;
    assert_eq!(claim(&store, 100).await.len(), 10);
}

/// Whoever polls the lock of the file by itself, as a program of another language does.
async fn foreign_writer(harness: &SqliteHarness) -> SqliteConnection {
    let mut foreign = SqliteConnection::connect(&url(&harness.directory)).await.unwrap();
    sqlx::raw_sql("begin immediate").execute(&mut foreign).await.unwrap();
    foreign
}

#[tokio::test]
async fn the_line_keeps_its_order_behind_a_foreign_holder_of_the_lock() {
    let harness = SqliteHarness::start().await;
    let store = harness.store();
    for _ in 0..5 {
        stage(&harness, 2).await;
        let held = claim(&store, 10).await;
        let order = Mutex::new(Vec::new());
        let note = |who: &'static str| order.lock().unwrap().push(who);
        let application = async |who: &'static str| {
            let tx = store.begin().await.unwrap();
            note(who);
            tx.commit().await.unwrap();
        };
        let relay = async {
            assert_eq!(settle(&store, &held, Verdict::Delivered).await.accepted, 2);
            note("relay");
        };
        let mut foreign = foreign_writer(&harness).await;
        let leave = async {
            // The first in line has asked for the lock at least once by the time this connection has answered.
            for _ in 0..20 {
                sqlx::query("select count(*) from pillarbox_outbox").execute(&mut foreign).await.unwrap();
                assert!(order.lock().unwrap().is_empty(), "nobody has the lock beside its holder");
            }
            sqlx::raw_sql("commit").execute(&mut foreign).await.unwrap();
        };
        tokio::join!(application("first"), relay, application("third"), leave);
        assert_eq!(order.into_inner().unwrap(), ["first", "relay", "third"]);
    }
}

#[tokio::test]
async fn a_foreign_holder_that_stays_costs_each_in_line_its_own_patience_and_nobody_its_place() {
    let patience = Duration::from_millis(50);
    let harness = SqliteHarness::with(Options::default().busy_timeout(patience)).await;
    stage(&harness, 2).await;
    let store = harness.store();
    let mut foreign = foreign_writer(&harness).await;
    let (first, claimed, third) = tokio::join!(store.begin(), store.claim(wish(10)), store.begin());
    for error in [first.unwrap_err(), claimed.unwrap_err(), third.unwrap_err()] {
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Contention, Retry::Later), "{error}");
    }
    sqlx::raw_sql("rollback").execute(&mut foreign).await.unwrap();
    assert_eq!(claim(&store, 10).await.len(), 2, "the line goes on, and no attempt was spent");
    store.begin().await.unwrap().commit().await.unwrap();
}
