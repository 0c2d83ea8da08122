//! Commits are known to have committed: SQLite may have ended a transaction by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pillarbox_conformance::{Ruin, StoreHarness};
use pillarbox_core::port::{Transactions, Wake};
use pillarbox_core::{Error, ErrorKind, Retry};
use pillarbox_store_sqlite::Outbox;
use sqlx::{Acquire, Sqlite, Transaction};

use crate::harness::SqliteHarness;
use crate::steps::event;

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

async fn entries(harness: &SqliteHarness) -> i64 {
    harness.number("select count(*) from pillarbox_outbox").await
}

async fn stage(outbox: &Outbox, tx: &mut Transaction<'_, Sqlite>) {
    assert!(!outbox.stage(tx, event(1)).await.unwrap().is_duplicate());
}

fn check(error: &Error) {
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Aborted, Retry::Unknown), "{error}");
    assert!(error.message().starts_with("the transaction had ended before it was committed"), "{error}");
}

#[tokio::test]
async fn a_commit_of_a_transaction_that_has_ended_is_an_error_and_wakes_nobody() {
    let harness = SqliteHarness::start().await;
    let woken = Arc::new(Woken::default());
    let outbox = harness.outbox("orders").wake(woken.clone());
    let inbox = harness.inbox();
    for how in [Ruin::FailedStatement, Ruin::Ended] {
        let mut tx = harness.begin().await;
        stage(&outbox, &mut tx).await;
        assert!(SqliteHarness::ruin(&mut tx, how).await);
        check(&outbox.commit(tx).await.unwrap_err());

        let mut tx = inbox.begin().await.unwrap();
        stage(&outbox, &mut tx).await;
        assert!(SqliteHarness::ruin(&mut tx, how).await);
        check(&inbox.commit(tx).await.unwrap_err());
        assert_eq!((entries(&harness).await, woken.0.load(Ordering::SeqCst)), (0, 0), "{how:?}");
    }
    // The connections are as good as before.
    for _ in 0..20 {
        let mut tx = inbox.begin().await.unwrap();
        stage(&outbox, &mut tx).await;
        inbox.commit(tx).await.unwrap();
        let mut tx = harness.begin().await;
        stage(&outbox, &mut tx).await;
        outbox.commit(tx).await.unwrap();
    }
    assert_eq!((entries(&harness).await, woken.0.load(Ordering::SeqCst)), (40, 20));
}

#[tokio::test]
async fn a_statement_that_failed_alone_does_not_fail_the_commit() {
    let harness = SqliteHarness::start().await;
    let (outbox, inbox) = (harness.outbox("orders"), harness.inbox());
    let mut tx = inbox.begin().await.unwrap();
    stage(&outbox, &mut tx).await;
    assert!(sqlx::raw_sql("insert into nowhere values (1)").execute(&mut *tx).await.is_err());
    let mut attempt = tx.begin().await.unwrap();
    stage(&outbox, &mut attempt).await;
    drop(attempt);
    inbox.commit(tx).await.unwrap();
    assert_eq!(entries(&harness).await, 1, "what was nested is taken back");
}
