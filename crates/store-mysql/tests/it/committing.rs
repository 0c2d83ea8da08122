//! Commits are known to have committed: after a deadlock the server has rolled back, and a COMMIT is no error.

use pillarbox_conformance::{Ruin, StoreHarness};
use pillarbox_core::port::Transactions;
use pillarbox_core::{Error, ErrorKind, Retry};
use sqlx::Connection;

use crate::harness::MySqlHarness;
use crate::steps::{ROUTE, event};

const COUNT: &str = "select count(*) from pillarbox_outbox";

fn check(error: &Error) {
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Aborted, Retry::Unknown), "{error}");
    assert!(error.message().starts_with("the transaction had ended before it was committed"), "{error}");
}

#[tokio::test]
async fn a_commit_after_a_deadlock_or_a_rollback_is_an_error() {
    let harness = MySqlHarness::start().await;
    let (outbox, inbox) = (harness.outbox(ROUTE), harness.inbox());
    for how in [Ruin::FailedStatement, Ruin::Ended] {
        let mut tx = harness.begin().await;
        let _ = outbox.stage(&mut tx, event(1)).await.unwrap();
        assert!(MySqlHarness::ruin(&mut tx, how).await);
        check(&outbox.commit(tx).await.unwrap_err());
        let mut tx = inbox.begin().await.unwrap();
        let _ = outbox.stage(&mut tx, event(1)).await.unwrap();
        assert!(MySqlHarness::ruin(&mut tx, how).await);
        check(&inbox.commit(tx).await.unwrap_err());
        assert_eq!(harness.database.number(COUNT).await, 0, "{how:?}");
    }
    // The pool's connections are as good as before.
    for _ in 0..20 {
        let mut tx = inbox.begin().await.unwrap();
        let _ = outbox.stage(&mut tx, event(1)).await.unwrap();
        inbox.commit(tx).await.unwrap();
    }
    assert_eq!(harness.database.number(COUNT).await, 20);
}

#[tokio::test]
async fn a_failed_statement_alone_does_not_fail_the_commit() {
    let harness = MySqlHarness::start().await;
    let (outbox, mut tx) = (harness.outbox(ROUTE), harness.begin().await);
    let _ = outbox.stage(&mut tx, event(1)).await.unwrap();
    assert!(sqlx::raw_sql("insert into nowhere values (1)").execute(&mut *tx).await.is_err());
    outbox.commit(tx).await.unwrap();
    assert_eq!(harness.database.number(COUNT).await, 1);
}

#[tokio::test]
async fn a_nested_transaction_that_the_outbox_commits_ends_with_the_outer_one() {
    let harness = MySqlHarness::start().await;
    let (outbox, mut outer) = (harness.outbox(ROUTE), harness.begin().await);
    let mut nested = outer.begin().await.unwrap();
    let _ = outbox.stage(&mut nested, event(1)).await.unwrap();
    outbox.commit(nested).await.unwrap();
    assert_eq!(harness.database.number(COUNT).await, 0);
    harness.rollback(outer).await;
    assert_eq!(harness.database.number(COUNT).await, 0);
}

#[tokio::test]
async fn a_statement_that_commits_by_itself_is_told() {
    let harness = MySqlHarness::start().await;
    let (outbox, mut tx) = (harness.outbox(ROUTE), harness.begin().await);
    let _ = outbox.stage(&mut tx, event(1)).await.unwrap();
    sqlx::raw_sql("create table mine (id int)").execute(&mut *tx).await.unwrap();
    check(&outbox.commit(tx).await.unwrap_err());
    assert_eq!(harness.database.number(COUNT).await, 1, "the statement has committed what came before it");
}
