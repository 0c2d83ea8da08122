//! The inbox: the mark is written in the handler's own transaction, once per consumer and event.

use std::pin::pin;

use pillarbox_core::ErrorKind;
use pillarbox_core::port::{AcceptRequest, Accepted, Inbox, Stage};

use super::steps::*;
use crate::StoreHarness;
use crate::case::poll_once;

fn request(consumer: &str, n: u64) -> AcceptRequest {
    AcceptRequest::new(consumer, id(n))
}

/// Accepts in a transaction of its own and commits it.
async fn accept<H: StoreHarness>(harness: &H, consumer: &str, n: u64) -> Accepted {
    let mut tx = harness.begin().await;
    let accepted = harness.inbox().accept(&mut tx, request(consumer, n)).await.unwrap();
    harness.commit(tx).await;
    accepted
}

/// Fresh once, a duplicate ever after; consumers do not see each other's marks.
pub async fn an_event_is_fresh_once_for_each_consumer<H: StoreHarness>(harness: &H) {
    assert_eq!(accept(harness, "billing", 1).await, Accepted::Fresh);
    assert_eq!(accept(harness, "billing", 1).await, Accepted::Duplicate);
    assert_eq!(accept(harness, "mailing", 1).await, Accepted::Fresh);
    assert_eq!(accept(harness, "billing", 2).await, Accepted::Fresh);
    assert_eq!(accept(harness, "billing", 1).await, Accepted::Duplicate);
}

/// Also twice in one transaction.
pub async fn an_event_accepted_twice_in_one_transaction_is_a_duplicate<H: StoreHarness>(harness: &H) {
    let inbox = harness.inbox();
    let mut tx = harness.begin().await;
    assert_eq!(inbox.accept(&mut tx, request("billing", 1)).await.unwrap(), Accepted::Fresh);
    assert_eq!(inbox.accept(&mut tx, request("billing", 1)).await.unwrap(), Accepted::Duplicate);
    harness.commit(tx).await;
}

/// Mark and effect commit together: a failed handler leaves neither.
pub async fn a_rolled_back_handler_leaves_no_mark<H: StoreHarness>(harness: &H) {
    let inbox = harness.inbox();
    let mut tx = harness.begin().await;
    assert_eq!(inbox.accept(&mut tx, request("billing", 1)).await.unwrap(), Accepted::Fresh);
    // The handler's own write: it stages what follows from the event.
    assert_eq!(harness.outbox(ROUTE).stage_all(&mut tx, vec![event(7)]).await.unwrap().len(), 1);
    harness.rollback(tx).await;
    assert!(all(harness).await.is_empty());
    let mut tx = harness.begin().await;
    assert_eq!(inbox.accept(&mut tx, request("billing", 1)).await.unwrap(), Accepted::Fresh);
    assert_eq!(harness.outbox(ROUTE).stage_all(&mut tx, vec![event(7)]).await.unwrap().len(), 1);
    harness.commit(tx).await;
    assert_eq!(ids(&all(harness).await), [id(7)]);
    assert_eq!(accept(harness, "billing", 1).await, Accepted::Duplicate);
}

/// A consumer's name is a name: 1 to 255 characters.
pub async fn a_consumer_out_of_bounds_is_refused<H: StoreHarness>(harness: &H) {
    let inbox = harness.inbox();
    let mut tx = harness.begin().await;
    for (name, kind) in [(String::new(), ErrorKind::Invalid), ("x".repeat(256), ErrorKind::TooLarge)] {
        assert_eq!(inbox.accept(&mut tx, request(&name, 1)).await.unwrap_err().kind(), kind);
    }
    assert_eq!(inbox.accept(&mut tx, request(&"é".repeat(255), 1)).await.unwrap(), Accepted::Fresh);
    harness.commit(tx).await;
}

/// Each has its own mark, and sees it again.
pub async fn consumers_that_differ_in_case_accents_or_spaces_are_different<H: StoreHarness>(harness: &H) {
    for wanted in [Accepted::Fresh, Accepted::Duplicate] {
        for consumer in ALIKE {
            assert_eq!(accept(harness, consumer, 1).await, wanted, "{consumer:?}");
        }
    }
}

/// The other waits for the first transaction's end, and then sees a duplicate.
pub async fn a_concurrent_duplicate_waits_and_is_one_after_a_commit<H: StoreHarness>(harness: &H) {
    second_after(harness, End::Commit, Accepted::Duplicate).await;
}

/// The other waits for the first transaction's end, and runs if that one rolled back.
pub async fn a_concurrent_duplicate_waits_and_is_fresh_after_a_rollback<H: StoreHarness>(harness: &H) {
    second_after(harness, End::Rollback, Accepted::Fresh).await;
}

enum End {
    Commit,
    Rollback,
}

async fn second_after<H: StoreHarness>(harness: &H, end: End, wanted: Accepted) {
    let inbox = harness.inbox();
    let mut first = harness.begin().await;
    assert_eq!(inbox.accept(&mut first, request("billing", 1)).await.unwrap(), Accepted::Fresh);
    // Where the database has one writer, the second already waits at its begin.
    let mut second = pin!(accept(harness, "billing", 1));
    // It is polled while the first is open, and has no answer: its outcome is not known yet.
    for _ in 0..20 {
        let polled = poll_once(second.as_mut()).await;
        assert!(polled.is_pending(), "a concurrent duplicate must wait for the first transaction");
        tokio::task::yield_now().await;
    }
    let ends = async {
        match end {
            End::Commit => harness.commit(first).await,
            End::Rollback => harness.rollback(first).await,
        }
    };
    let ((), accepted) = futures_util::future::join(ends, second).await;
    assert_eq!(accepted, wanted);
    assert_eq!(accept(harness, "billing", 1).await, Accepted::Duplicate);
}

/// Many at once: one is fresh.
pub async fn of_many_concurrent_duplicates_one_is_fresh<H: StoreHarness>(harness: &H) {
    let accepts = (0..8).map(|_| accept(harness, "billing", 1));
    let accepted = futures_util::future::join_all(accepts).await;
    assert_eq!(accepted.iter().filter(|accepted| **accepted == Accepted::Fresh).count(), 1, "{accepted:?}");
}
