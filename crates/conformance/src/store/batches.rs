//! Batches of the inbox: several events in one call, with the outcomes that each would have by itself.

use std::pin::pin;

use pillarbox_core::limits::ACCEPT_BATCH_MAX;
use pillarbox_core::port::{AcceptBatch, AcceptRequest, Accepted, Inbox, Origin, Position};
use pillarbox_core::{ErrorKind, EventId, Fence};

use super::steps::*;
use crate::StoreHarness;
use crate::case::poll_once;

type Arrival = (EventId, Option<Origin>);

fn batch(consumer: &str, events: impl IntoIterator<Item = Arrival>) -> AcceptBatch {
    events.into_iter().fold(AcceptBatch::new(consumer), |batch, (id, origin)| batch.event(id, origin))
}

fn plain(numbers: impl IntoIterator<Item = u64>) -> AcceptBatch {
    batch("billing", numbers.into_iter().map(|n| (id(n), None)))
}

/// Accepts in a transaction of its own and commits it. What another transaction was in the way of is run again.
async fn accept_all<H: StoreHarness>(harness: &H, batch: AcceptBatch) -> Vec<Accepted> {
    loop {
        let mut tx = harness.begin().await;
        match harness.inbox().accept_all(&mut tx, batch.clone()).await {
            Ok(accepted) => {
                harness.commit(tx).await;
                return accepted;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Contention, "{error}");
                harness.rollback(tx).await;
            }
        }
    }
}

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    fn arrival(&mut self, offset: i64) -> Arrival {
        let event_id = id(self.below(12));
        let origin = (self.below(4) > 0).then(|| {
            let lane = format!("shop orders/{}", self.below(2));
            let stream = if self.below(8) == 0 { "t" } else { "s" };
            // Some were published in time and are handled late.
            let offset = offset - i64::try_from(self.below(3)).unwrap();
            let fence = Fence(i64::try_from(self.below(4)).unwrap() + offset / 8);
            Origin { lane, fence, position: Position { stream: stream.into(), offset } }
        });
        (event_id, origin)
    }
}

/// Two consumers see the same events: one accepts each in a transaction of its own, the other in batches. Duplicates inside a batch, and
/// owners that change inside it, make no difference.
pub async fn a_batch_is_accepted_as_its_events_would_be_one_by_one<H: StoreHarness>(harness: &H) {
    let seed = crate::delivery::random();
    let mut dice = Dice(seed);
    let mut offset = 0;
    for round in 0..12 {
        let size = 1 + dice.below(9);
        let events: Vec<Arrival> = (0..size)
            .map(|_| {
                offset += 1;
                dice.arrival(offset)
            })
            .collect();
        let mut one_by_one = Vec::new();
        for (event_id, origin) in &events {
            let request = AcceptRequest::new("single", *event_id).origin(origin.clone());
            let mut tx = harness.begin().await;
            one_by_one.push(harness.inbox().accept(&mut tx, request).await.unwrap());
            harness.commit(tx).await;
        }
        let together = accept_all(harness, batch("batched", events.clone())).await;
        assert_eq!(together, one_by_one, "seed {seed}, round {round}: {events:?}");
    }
}

/// Marks and effects of a batch commit together, and are gone together.
pub async fn a_rolled_back_batch_leaves_no_mark<H: StoreHarness>(harness: &H) {
    let owner = |fence: i64, offset: i64| {
        let position = Position { stream: "s".into(), offset };
        Some(Origin { lane: "shop orders/3".into(), fence: Fence(fence), position })
    };
    let events = [(id(1), owner(7, 10)), (id(2), None), (id(1), None), (id(3), owner(6, 11))];
    let wanted = [Accepted::Fresh, Accepted::Fresh, Accepted::Duplicate, Accepted::Stale];
    for _ in 0..2 {
        let mut tx = harness.begin().await;
        let accepted = harness.inbox().accept_all(&mut tx, batch("billing", events.clone())).await.unwrap();
        assert_eq!(accepted, wanted);
        harness.rollback(tx).await;
    }
    assert_eq!(accept_all(harness, batch("billing", [(id(3), owner(6, 11))])).await, [Accepted::Fresh]);
    assert_eq!(
        accept_all(harness, plain([1, 2, 3])).await,
        [Accepted::Fresh, Accepted::Fresh, Accepted::Duplicate]
    );
}

/// A batch that has an event of an open transaction waits for its end. Two batches do not deadlock, in whatever order
/// their events arrived.
pub async fn a_concurrent_batch_waits_and_its_events_are_fresh_once<H: StoreHarness>(harness: &H) {
    let mut first = harness.begin().await;
    let accepted = harness.inbox().accept_all(&mut first, plain([1, 2])).await.unwrap();
    assert_eq!(accepted, [Accepted::Fresh; 2]);
    let mut second = pin!(accept_all(harness, plain([3, 2, 1])));
    for _ in 0..20 {
        let polled = poll_once(second.as_mut()).await;
        assert!(polled.is_pending(), "a concurrent duplicate must wait for the first transaction");
        tokio::task::yield_now().await;
    }
    let ((), accepted) = futures_util::future::join(harness.commit(first), second).await;
    assert_eq!(accepted, [Accepted::Fresh, Accepted::Duplicate, Accepted::Duplicate]);

    let batches = (0..6_u64).map(|n| {
        let mut events: Vec<u64> = (10..30).collect();
        events.rotate_left(usize::try_from(n).unwrap() * 3);
        accept_all(harness, plain(events))
    });
    let accepted = futures_util::future::join_all(batches).await;
    let fresh = accepted.iter().flatten().filter(|accepted| **accepted == Accepted::Fresh).count();
    assert_eq!(fresh, 20, "{accepted:?}");
}

/// The largest batch is accepted at once. One event more is refused, as is a name that is out of bounds.
pub async fn a_batch_out_of_bounds_is_refused<H: StoreHarness>(harness: &H) {
    let inbox = harness.inbox();
    let most = ACCEPT_BATCH_MAX as u64;
    let mut tx = harness.begin().await;
    for (batch, kind) in [
        (plain(0..=most), ErrorKind::TooLarge),
        (AcceptBatch::new("").event(id(1), None), ErrorKind::Invalid),
        (AcceptBatch::new("x".repeat(256)).event(id(1), None), ErrorKind::TooLarge),
    ] {
        assert_eq!(inbox.accept_all(&mut tx, batch).await.unwrap_err().kind(), kind);
    }
    assert_eq!(inbox.accept_all(&mut tx, AcceptBatch::new("billing")).await.unwrap(), []);
    let accepted = inbox.accept_all(&mut tx, plain(0..most)).await.unwrap();
    assert!(accepted.iter().all(|accepted| *accepted == Accepted::Fresh) && accepted.len() == 10_000);
    harness.commit(tx).await;
}
