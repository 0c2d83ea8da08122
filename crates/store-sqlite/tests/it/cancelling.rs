//! Futures that are dropped half-way.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Store, Verdict};
use pillarbox_store_sqlite::SqliteStore;

use crate::harness::SqliteHarness;
use crate::steps::*;

/// Polls a future up to `times` times, then drops it; true when it ended before.
async fn poll_times<F: Future>(future: F, times: usize) -> bool {
    let mut future = pin!(future);
    for _ in 0..times {
        if poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await.is_ready() {
            return true;
        }
        // The connection's thread may answer between two polls, so that each drop hits another place.
        tokio::task::yield_now().await;
    }
    false
}

/// Waits until the store's one writer has done what a dropped future had already asked of it.
async fn quiesce(store: &SqliteStore) {
    store.begin().await.unwrap().rollback().await.unwrap();
}

#[tokio::test]
async fn a_dropped_stage_leaves_all_of_its_events_or_none() {
    let harness = SqliteHarness::start().await;
    let outbox = harness.outbox(ROUTE);
    let (mut before, mut ended, mut drops) = (0, 0, 0);
    for polls in 0.. {
        let mut tx = harness.begin().await;
        let done = poll_times(outbox.stage_all(&mut tx, (0..100).map(event)), polls).await;
        // The application goes on with its transaction as if the future had never been.
        harness.commit(tx).await;
        let after = harness.number("select count(*) from pillarbox_outbox").await;
        assert!(
            after == before || after == before + 100,
            "{after} after {before}, dropped after {polls} polls"
        );
        assert!(!done || after == before + 100, "what was answered is there");
        before = after;
        ended += usize::from(done);
        drops += usize::from(!done);
        if ended == 5 {
            break;
        }
    }
    assert!(drops > 1, "the test dropped something");
}

#[tokio::test]
async fn a_transaction_dropped_with_its_stage_leaves_nothing() {
    let harness = SqliteHarness::start().await;
    let outbox = harness.outbox(ROUTE);
    for polls in 0..40 {
        let whole = async {
            let mut tx = harness.store().pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
            let staged = outbox.stage_all(&mut tx, (0..50).map(event)).await.unwrap();
            assert_eq!(staged.len(), 50);
            // Never committed.
            drop(tx);
        };
        let _ended = poll_times(whole, polls).await;
        assert_eq!(harness.number("select count(*) from pillarbox_outbox").await, 0);
    }
    // Every connection that was in use is free and in no transaction.
    stage(&harness, 10).await;
    assert_eq!(claim(&harness.store(), 100).await.len(), 10);
}

#[tokio::test]
async fn who_leaves_the_line_does_not_stop_it() {
    let harness = SqliteHarness::start().await;
    let store = harness.store();
    for polls in 0..40 {
        let _begun = poll_times(store.begin(), polls).await;
        let tx = store.begin().await.unwrap();
        // Also of those who wait behind somebody.
        assert!(!poll_times(store.begin(), polls).await);
        tx.rollback().await.unwrap();
    }
    stage(&harness, 10).await;
    assert_eq!(claim(&store, 100).await.len(), 10);
}

#[tokio::test]
async fn a_dropped_claim_leaves_whole_leases_and_a_working_store() {
    let harness = SqliteHarness::start().await;
    stage(&harness, 400).await;
    let store = harness.store();
    let mut left = 400;
    for polls in 0..40 {
        let done = poll_times(store.claim(wish(10)), polls).await;
        quiesce(&store).await;
        let pending = harness.number("select count(*) from pillarbox_outbox where status = 'pending'").await;
        assert!(pending == left || pending == left - 10, "{pending} of {left}");
        assert!(!done || pending == left - 10);
        left = pending;
        let odd = "select count(*) from pillarbox_outbox \
            where (status = 'in_flight') != (attempts = 1 and due_at is not null and owner = 'worker')";
        assert_eq!(harness.number(odd).await, 0, "an entry is claimed wholly or not at all");
    }
    assert_eq!(claim(&store, 1).await.len(), 1);
}

#[tokio::test]
async fn a_dropped_settle_settles_the_whole_batch_or_nothing() {
    let harness = SqliteHarness::start().await;
    let store = harness.store();
    for polls in 0..60 {
        stage(&harness, 6).await;
        let held = claim(&store, 6).await;
        let audited = "select count(*) from pillarbox_audit where kind = 'dead'";
        let before = harness.number(audited).await;
        // Deaths and deliveries together take several statements.
        let mut request = settlement(&held, dead());
        request.settlements[0].verdict = Verdict::Delivered;
        let done = poll_times(store.settle(request), polls).await;
        quiesce(&store).await;
        let dead = harness.number("select count(*) from pillarbox_outbox where status = 'dead'").await;
        let audited = harness.number(audited).await - before;
        assert!(dead == 0 || dead == 5, "{dead}");
        assert_eq!(dead, audited, "no death without its audit row, and none too many");
        assert!(!done || dead == 5);
        harness.execute("delete from pillarbox_outbox").await;
    }
}
