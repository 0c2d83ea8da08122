//! Transactions of the application that are in each other's way: which of them is told so, and what it can do then.

use pillarbox_conformance::StoreHarness;
use pillarbox_core::{Error, ErrorKind, Event, Retry};
use sqlx::{Connection, MySqlConnection};

use crate::harness::MySqlHarness;
use crate::steps::{ROUTE, claim, event};

fn check(error: &Error, code: &str) {
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Contention, Retry::Later), "{error}");
    assert_eq!(error.code(), Some(code), "{error}");
}

fn keyed(key: &str) -> Event {
    event(1).key(key)
}

#[tokio::test]
async fn of_two_transactions_that_lock_two_keys_in_opposite_orders_one_is_told_to_try_again() {
    let harness = MySqlHarness::start().await;
    let (outbox, own) = (harness.outbox(ROUTE), async || harness.database.connect().await);
    let (mut one, mut other) = (own().await, own().await);
    let (mut first, mut second) = (one.begin().await.unwrap(), other.begin().await.unwrap());
    outbox.serialize(&mut first, "a").await.unwrap();
    outbox.serialize(&mut second, "b").await.unwrap();
    let _ = outbox.stage(&mut first, keyed("a")).await.unwrap();
    let _ = outbox.stage(&mut second, keyed("b")).await.unwrap();
    let (forth, back) = tokio::join!(outbox.serialize(&mut first, "b"), outbox.serialize(&mut second, "a"));
    let (refused, lost, won, key) = match (forth, back) {
        (Err(error), Ok(())) => (error, first, second, "b"),
        (Ok(()), Err(error)) => (error, second, first, "a"),
        both => panic!("the server ends one of two transactions: {both:?}"),
    };
    check(&refused, "1213");
    // The server has rolled it back, and a commit of what is left of it does not pass for one.
    assert_eq!(outbox.commit(lost).await.unwrap_err().kind(), ErrorKind::Aborted);
    outbox.commit(won).await.unwrap();
    let kept = claim(&harness.store(), 10).await;
    assert_eq!(kept.iter().map(|entry| entry.key.as_deref()).collect::<Vec<_>>(), [Some(key)]);
    // As it was told: the whole transaction once more.
    let mut again = own().await;
    let mut again = again.begin().await.unwrap();
    outbox.serialize(&mut again, "b").await.unwrap();
    outbox.serialize(&mut again, "a").await.unwrap();
    let _ = outbox.stage(&mut again, keyed("ab")).await.unwrap();
    outbox.commit(again).await.unwrap();
    assert_eq!(claim(&harness.store(), 10).await.len(), 1);
}

/// A connection that waits a second for a lock, as an application may have set it.
async fn impatient(harness: &MySqlHarness) -> MySqlConnection {
    let mut connection = harness.database.connect().await;
    let set = "set session innodb_lock_wait_timeout = 1";
    sqlx::raw_sql(set).execute(&mut connection).await.unwrap();
    connection
}

#[tokio::test]
async fn a_lock_that_is_not_free_in_the_applications_time_is_contention_and_the_transaction_goes_on() {
    let harness = MySqlHarness::start().await;
    let (outbox, mut holding) = (harness.outbox(ROUTE), harness.begin().await);
    outbox.serialize(&mut holding, "k").await.unwrap();
    let held = outbox.stage(&mut holding, keyed("k")).await.unwrap().event_id();
    let mut connection = impatient(&harness).await;
    let mut waiting = connection.begin().await.unwrap();
    let _ = outbox.stage(&mut waiting, keyed("before")).await.unwrap();
    check(&outbox.serialize(&mut waiting, "k").await.unwrap_err(), "1205");
    // Whether it is a duplicate is known when the other transaction ends.
    check(&outbox.stage(&mut waiting, event(2).id(held)).await.unwrap_err(), "1205");
    // The server has taken back these statements and nothing else.
    let _ = outbox.stage(&mut waiting, keyed("after")).await.unwrap();
    outbox.commit(waiting).await.unwrap();
    outbox.commit(holding).await.unwrap();
    let keys: Vec<_> = claim(&harness.store(), 10).await.into_iter().filter_map(|entry| entry.key).collect();
    assert_eq!(keys, ["k", "before", "after"]);
}
