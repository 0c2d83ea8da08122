//! Futures that are dropped half-way: nothing is half done, and no connection is spoilt.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::Store;
use sqlx::Connection;

use crate::harness::MySqlHarness;
use crate::steps::{ROUTE, claim, event, stage, wish};

/// More polls than any of these futures needs.
const POLLS_MAX: u32 = 200;

/// Polls a future so many times, each time when it asks for it, and drops it then. `true`: it ended before.
async fn ends_within<F: Future>(times: u32, future: F) -> bool {
    let (mut future, mut polled) = (pin!(future), 0);
    poll_fn(|context| {
        if polled == times {
            return Poll::Ready(false);
        }
        polled += 1;
        future.as_mut().poll(context).map(|_| true)
    })
    .await
}

/// The driver cannot go on with a connection on which it was preparing a statement, so the transaction is dropped as well.
#[tokio::test]
async fn staging_that_is_dropped_half_way_leaves_nothing_once_its_connection_is_gone() {
    let harness = MySqlHarness::start().await;
    let outbox = harness.outbox(ROUTE);
    let (mut times, mut half_way) = (0, 0);
    loop {
        assert!(times < POLLS_MAX, "staging never ended, or was never dropped half-way");
        let mut connection = harness.database.connect().await;
        let mut tx = connection.begin().await.unwrap();
        let ended = ends_within(times, outbox.stage_all(&mut tx, (1..=50).map(event))).await;
        drop(tx);
        drop(connection);
        assert_eq!(
            harness.database.number("select count(*) from pillarbox_outbox").await,
            0,
            "{times} polls"
        );
        if ended && half_way > 0 {
            break;
        }
        half_way += u32::from(times > 0 && !ended);
        times = if ended { 0 } else { times + 1 };
    }
}

#[tokio::test]
async fn a_claim_that_is_dropped_half_way_takes_all_or_nothing_and_the_next_one_works() {
    let harness = MySqlHarness::start().await;
    let store = harness.store();
    stage(&harness, 20).await;
    let taken = "select count(*) from pillarbox_outbox where status = 'in_flight'";
    for times in 0..12 {
        if ends_within(times, store.claim(wish(2))).await {
            break;
        }
        // What was under way may still end on the server: with all that it took, or with nothing.
        assert_eq!(harness.database.number(taken).await % 2, 0, "after {times} polls");
    }
    assert!(!claim(&store, 100).await.is_empty());
}
