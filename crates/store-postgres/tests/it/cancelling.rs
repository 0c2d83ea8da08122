//! Futures that are dropped half-way: nothing is half done, and no connection is spoilt.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::Store;
use pillarbox_store_postgres::PostgresStore;
use sqlx::{PgPool, Row};

use crate::harness::{Direct, Pooled, PostgresHarness, pooler, server, unique};
use crate::steps::{ROUTE, claim, claim_request, events};

/// More polls than any of these futures needs.
const POLLS_MAX: u32 = 200;

/// Polls a future so many times, each time when it asks for it, and drops it then. `None`: dropped.
async fn poll_times<F: Future>(times: u32, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polled = 0;
    poll_fn(|context| {
        if polled == times {
            return Poll::Ready(None);
        }
        polled += 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Every connection of the pool answers, and none is inside a transaction.
async fn assert_healthy(pool: &PgPool) {
    let mut connections = vec![];
    for _ in 0..pool.options().get_max_connections() {
        connections.push(pool.acquire().await.unwrap());
    }
    for connection in &mut connections {
        // A leftover transaction would have begun before this statement.
        let sql = "select now() = statement_timestamp()";
        let row = sqlx::raw_sql(sql).fetch_one(&mut **connection).await.unwrap();
        assert!(row.get::<bool, _>(0), "a connection came back inside a transaction");
    }
}

async fn staging_is_all_or_nothing<const POOLED: bool>(harness: PostgresHarness<POOLED>) {
    let (store, outbox) = (harness.store(), harness.outbox(ROUTE));
    let (mut times, mut half_way) = (0, 0);
    for round in 0.. {
        assert!(round < POLLS_MAX, "staging never ended, or was never dropped half-way");
        let mut tx = store.pool().begin().await.unwrap();
        let finished = poll_times(times, outbox.stage_all(&mut tx, events(50))).await.is_some();
        // The application goes on with its transaction, as if nothing had happened.
        sqlx::raw_sql("select 1").execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        let staged = harness.number("select count(*) from {s}.pillarbox_outbox").await;
        assert!(staged == 0 || staged == 50, "{staged} of 50 events after {times} polls");
        assert!(!finished || staged == 50);
        harness.execute("delete from {s}.pillarbox_outbox").await;
        // And once with the transaction dropped as well.
        {
            let mut tx = store.pool().begin().await.unwrap();
            let _ = poll_times(times, outbox.stage_all(&mut tx, events(50))).await;
        }
        assert_healthy(store.pool()).await;
        assert_eq!(harness.number("select count(*) from {s}.pillarbox_outbox").await, 0);
        half_way += u32::from(times > 0 && !finished);
        match finished {
            false => times += 1,
            // A quick answer can come before the first poll ends: then once more from the start.
            true if half_way == 0 => times = 0,
            true => break,
        }
    }
}

#[tokio::test]
async fn a_dropped_staging_leaves_all_or_nothing_and_a_usable_connection() {
    staging_is_all_or_nothing(Direct::start().await).await;
}

#[tokio::test]
async fn a_dropped_staging_through_a_pooler_leaves_all_or_nothing_and_a_usable_connection() {
    staging_is_all_or_nothing(Pooled::start().await).await;
}

/// A store whose connections can be told from all others, also behind a pooler.
async fn claims_leave_no_transaction<const POOLED: bool>(harness: PostgresHarness<POOLED>, url: String) {
    let name = unique("app");
    let url = format!("{url}?application_name={name}");
    let store = PostgresStore::connect(&url, harness.options.clone()).await.unwrap();
    let open = format!(
        "select count(*) from pg_stat_activity where application_name = '{name}' and state like 'idle in transaction%'"
    );
    let (mut times, mut half_way) = (0, 0);
    for round in 0.. {
        assert!(round < POLLS_MAX, "claiming never ended, or was never dropped half-way");
        match poll_times(times, store.claim(claim_request(10))).await {
            None => {
                half_way += u32::from(times > 0);
                times += 1;
            }
            Some(claim) => {
                assert_eq!(claim.unwrap().entries.len(), 0);
                if half_way > 0 {
                    break;
                }
                times = 0;
            }
        }
        // Whatever was dropped, the next call works.
        assert!(claim(&store, 10).await.is_empty());
    }
    while harness.number(&open).await > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_dropped_claim_leaves_no_open_transaction() {
    claims_leave_no_transaction(Direct::start().await, server()).await;
}

#[tokio::test]
async fn a_dropped_claim_through_a_pooler_leaves_no_open_transaction() {
    claims_leave_no_transaction(Pooled::start().await, pooler()).await;
}
