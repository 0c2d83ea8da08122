//! Commits are known to have committed: PostgreSQL answers ROLLBACK to a COMMIT that it cannot do, and calls it no error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pillarbox_conformance::{Ruin, StoreHarness};
use pillarbox_core::port::{Transactions, Wake};
use pillarbox_core::{Error, ErrorKind, Retry};
use pillarbox_store_postgres::Outbox;
use sqlx::{Connection, Postgres, Row, Transaction};

use crate::harness::{Direct, PostgresHarness, connect};
use crate::steps::{ROUTE, events};

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

async fn entries<const POOLED: bool>(harness: &PostgresHarness<POOLED>) -> i64 {
    harness.number("select count(*) from {s}.pillarbox_outbox").await
}

async fn stage(outbox: &Outbox, tx: &mut Transaction<'_, Postgres>) {
    assert!(!outbox.stage(tx, events(1).remove(0)).await.unwrap().is_duplicate());
}

fn check(error: &Error, how: Ruin) {
    let (retry, text) = match how {
        Ruin::FailedStatement => {
            (Retry::Later, "nothing was committed: a statement in the transaction had failed")
        }
        _ => (Retry::Unknown, "the transaction had ended before it was committed"),
    };
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Aborted, retry), "{error}");
    assert!(error.message().starts_with(text), "{error}");
}

async fn a_ruined_transaction_is_told<const POOLED: bool>() {
    let harness = PostgresHarness::<POOLED>::start().await;
    let woken = Arc::new(Woken::default());
    let outbox = harness.outbox(ROUTE).wake(woken.clone());
    let inbox = harness.inbox();
    for how in [Ruin::FailedStatement, Ruin::Ended] {
        let mut tx = harness.begin().await;
        stage(&outbox, &mut tx).await;
        assert!(PostgresHarness::<POOLED>::ruin(&mut tx, how).await);
        check(&outbox.commit(tx).await.unwrap_err(), how);

        let mut tx = inbox.begin().await.unwrap();
        stage(&outbox, &mut tx).await;
        assert!(PostgresHarness::<POOLED>::ruin(&mut tx, how).await);
        check(&inbox.commit(tx).await.unwrap_err(), how);
        assert_eq!((entries(&harness).await, woken.0.load(Ordering::SeqCst)), (0, 0), "{how:?}");
    }
    // The pool's connections are as good as before.
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
async fn a_commit_of_a_transaction_with_a_failed_statement_is_an_error_and_wakes_nobody() {
    a_ruined_transaction_is_told::<false>().await;
}

#[tokio::test]
async fn a_commit_of_a_transaction_with_a_failed_statement_is_an_error_through_a_pooler() {
    a_ruined_transaction_is_told::<true>().await;
}

#[tokio::test]
async fn an_error_that_was_taken_back_to_a_savepoint_does_not_fail_the_commit() {
    let harness = Direct::start().await;
    let (outbox, inbox) = (harness.outbox(ROUTE), harness.inbox());
    let mut tx = inbox.begin().await.unwrap();
    stage(&outbox, &mut tx).await;
    let mut attempt = tx.begin().await.unwrap();
    assert!(sqlx::raw_sql("select 1/0").execute(&mut *attempt).await.is_err());
    attempt.rollback().await.unwrap();
    // Also one that is dropped, which the driver rolls back with the next statement.
    let mut attempt = tx.begin().await.unwrap();
    assert!(sqlx::raw_sql("select 1/0").execute(&mut *attempt).await.is_err());
    drop(attempt);
    inbox.commit(tx).await.unwrap();
    assert_eq!(entries(&harness).await, 1);
}

#[tokio::test]
async fn a_nested_transaction_that_the_outbox_commits_ends_with_the_outer_one() {
    let harness = Direct::start().await;
    let outbox = harness.outbox(ROUTE);
    let mut outer = harness.begin().await;
    let mut nested = outer.begin().await.unwrap();
    stage(&outbox, &mut nested).await;
    outbox.commit(nested).await.unwrap();
    assert_eq!(entries(&harness).await, 0, "the outer transaction is open");
    outer.rollback().await.unwrap();
    assert_eq!(entries(&harness).await, 0);
}

#[tokio::test]
async fn no_transaction_is_left_open_by_a_commit() {
    let harness = Direct::start().await;
    let (outbox, inbox) = (harness.outbox(ROUTE), harness.inbox());
    // On a connection that no pool looks after.
    let mut own = connect().await;
    let pid: i32 = sqlx::query("select pg_backend_pid()").fetch_one(&mut own).await.unwrap().get(0);
    let mut tx = own.begin().await.unwrap();
    stage(&outbox, &mut tx).await;
    outbox.commit(tx).await.unwrap();
    let state = format!("select count(*) from pg_stat_activity where pid = {pid} and state = 'idle'");
    assert_eq!(harness.number(&state).await, 1);
    own.close().await.unwrap();

    let mut tx = inbox.begin().await.unwrap();
    let pid: i32 = sqlx::query("select pg_backend_pid()").fetch_one(&mut *tx).await.unwrap().get(0);
    stage(&outbox, &mut tx).await;
    inbox.commit(tx).await.unwrap();
    // The pool ends it when it takes the connection back.
    let state = format!("select count(*) from pg_stat_activity where pid = {pid} and state = 'idle'");
    while harness.number(&state).await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(entries(&harness).await, 2);
}
