//! The inbox remembers the newest owner of each lane, and refuses what an earlier one published behind it.

use std::pin::pin;

use pillarbox_core::Fence;
use pillarbox_core::port::{AcceptRequest, Accepted, Inbox, Origin, Position};

use super::steps::*;
use crate::StoreHarness;
use crate::case::poll_once;

/// Published under this fence, so far behind in the stream.
fn from(fence: i64, offset: i64) -> Origin {
    let position = Position { stream: "s".into(), offset };
    Origin { lane: "shop orders/3".into(), fence: Fence(fence), position }
}

fn request(n: u64, origin: Origin) -> AcceptRequest {
    AcceptRequest::new("billing", id(n)).origin(Some(origin))
}

async fn accept<H: StoreHarness>(harness: &H, request: AcceptRequest) -> Accepted {
    let mut tx = harness.begin().await;
    let accepted = harness.inbox().accept(&mut tx, request).await.unwrap();
    harness.commit(tx).await;
    accepted
}

/// It is refused as long as it is not applied, leaves no mark, and is fresh from the lane's owner.
pub async fn a_publish_behind_a_later_owners_is_stale<H: StoreHarness>(harness: &H) {
    assert_eq!(accept(harness, request(1, from(7, 10))).await, Accepted::Fresh);
    for _ in 0..2 {
        assert_eq!(accept(harness, request(2, from(6, 11))).await, Accepted::Stale);
    }
    assert_eq!(accept(harness, request(2, from(7, 12))).await, Accepted::Fresh);
    assert_eq!(
        accept(harness, request(2, from(6, 11))).await,
        Accepted::Duplicate,
        "the owner has brought it"
    );
    assert_eq!(accept(harness, request(3, from(8, 13))).await, Accepted::Fresh);
    assert_eq!(
        accept(harness, request(4, from(7, 14))).await,
        Accepted::Stale,
        "there is a newer one by now"
    );
}

/// What stands before the first message of the new owner was published in time, and no relay publishes it
/// again.
pub async fn what_was_published_before_a_take_over_is_fresh_after_it<H: StoreHarness>(harness: &H) {
    assert_eq!(accept(harness, request(2, from(7, 10))).await, Accepted::Fresh);
    assert_eq!(accept(harness, request(1, from(6, 9))).await, Accepted::Fresh);
    assert_eq!(accept(harness, request(3, from(6, 11))).await, Accepted::Stale, "the newest is still known");
}

/// What a new owner publishes first is what the last one may have published already.
pub async fn a_duplicate_tells_of_a_new_owner_too<H: StoreHarness>(harness: &H) {
    assert_eq!(accept(harness, request(1, from(6, 10))).await, Accepted::Fresh);
    assert_eq!(accept(harness, request(1, from(7, 11))).await, Accepted::Duplicate);
    assert_eq!(accept(harness, request(2, from(6, 12))).await, Accepted::Stale);
}

/// Each consumer has its own memory, and each lane its own owners; places of two streams cannot be compared.
pub async fn owners_are_kept_apart_by_consumer_lane_and_stream<H: StoreHarness>(harness: &H) {
    assert_eq!(accept(harness, request(1, from(7, 10))).await, Accepted::Fresh);
    let other = |change: fn(&mut AcceptRequest), n| {
        let mut request = request(n, from(6, 11));
        change(&mut request);
        request
    };
    let consumer = other(|request| request.consumer = "mailing".into(), 2);
    assert_eq!(accept(harness, consumer).await, Accepted::Fresh);
    let lane = other(|request| request.origin.as_mut().unwrap().lane = "shop orders/4".into(), 3);
    assert_eq!(accept(harness, lane).await, Accepted::Fresh);
    let stream = other(|request| request.origin.as_mut().unwrap().position.stream = "t".into(), 4);
    assert_eq!(accept(harness, stream).await, Accepted::Fresh);
    assert_eq!(accept(harness, request(5, from(6, 11))).await, Accepted::Stale);
}

/// Nothing is known of it, so nothing is refused.
pub async fn an_event_without_an_origin_is_never_stale<H: StoreHarness>(harness: &H) {
    assert_eq!(accept(harness, request(1, from(7, 10))).await, Accepted::Fresh);
    assert_eq!(accept(harness, AcceptRequest::new("billing", id(2))).await, Accepted::Fresh);
}

/// The memory is part of the transaction, and a transaction sees its own.
pub async fn a_rolled_back_transaction_remembers_no_owner<H: StoreHarness>(harness: &H) {
    let inbox = harness.inbox();
    let mut tx = harness.begin().await;
    assert_eq!(inbox.accept(&mut tx, request(1, from(7, 10))).await.unwrap(), Accepted::Fresh);
    assert_eq!(inbox.accept(&mut tx, request(2, from(6, 11))).await.unwrap(), Accepted::Stale);
    harness.rollback(tx).await;
    assert_eq!(accept(harness, request(2, from(6, 11))).await, Accepted::Fresh);
}

/// A handler may take its time: other messages of the same new owner are accepted meanwhile.
pub async fn nobody_waits_for_who_remembers_an_owner<H: StoreHarness>(harness: &H) {
    several_writers!(harness);
    assert_eq!(accept(harness, request(1, from(6, 9))).await, Accepted::Fresh);
    let mut first = harness.begin().await;
    assert_eq!(harness.inbox().accept(&mut first, request(2, from(7, 10))).await.unwrap(), Accepted::Fresh);
    assert_eq!(accept(harness, request(3, from(7, 11))).await, Accepted::Fresh);
    assert_eq!(accept(harness, request(4, from(6, 8))).await, Accepted::Fresh);
    // A duplicate of what is open waits, as ever.
    let mut waits = pin!(accept(harness, request(2, from(7, 12))));
    assert!(poll_once(waits.as_mut()).await.is_pending());
    let ((), accepted) = futures_util::future::join(harness.commit(first), waits).await;
    assert_eq!(accepted, Accepted::Duplicate);
    assert_eq!(accept(harness, request(5, from(6, 13))).await, Accepted::Stale);
}
