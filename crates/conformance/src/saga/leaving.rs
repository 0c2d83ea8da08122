//! Relays that know no sagas leave their steps alone, and only these.

use pillarbox_core::port::{ClaimOrder, ClaimRequest, ReapRequest, Stage, Steps, Store, Verdict};
use pillarbox_core::{Entry, Event, SagaId, SagaStatus, Status, Timestamp};
use pillarbox_engine::Relay;

use super::SagaHarness;
use super::steps::{booking, claim, done, erasure, show, stage, work};
use crate::store::steps::{
    LEASE, ROUTE, all, claim_request, event, ids, ids_of, overtake, reap, reap_request, retry, route,
    settle_all, soon,
};
use pillarbox_testkit::MemorySink;

/// Plain entries, in a group that is no saga's and about a saga too.
async fn plain<H: SagaHarness>(harness: &H, numbers: std::ops::RangeInclusive<u64>, saga: SagaId) {
    let grouped = |n: u64| match n % 3 {
        0 => event(n),
        1 => event(n).group_id("a group"),
        _ => event(n).group_id(saga.to_string()),
    };
    let events: Vec<Event> = numbers.map(grouped).collect();
    let mut tx = harness.begin().await;
    let count = events.len();
    assert_eq!(harness.outbox(ROUTE).stage_all(&mut tx, events).await.unwrap().len(), count);
    harness.commit(tx).await;
}

/// Claims as a relay that knows no sagas does.
async fn claim_plain<H: SagaHarness>(
    harness: &H,
    limit: u32,
    order: ClaimOrder,
    now: Timestamp,
) -> Vec<Entry> {
    let request = ClaimRequest { order, steps: Steps::Leave, ..claim_request(limit, now) };
    harness.store().claim(request).await.unwrap().entries
}

/// Due at once or by time, fresh or tried before: never given to a relay without sagas, and in the way of no
/// other entry.
pub async fn a_claim_without_sagas_leaves_steps_alone<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    let now = soon(harness).await;
    // One waits for its next attempt, one was returned, one is as it was staged.
    let steps = claim(harness, 2, now).await;
    let verdicts = vec![(steps[0].held(), retry(LEASE)), (steps[1].held(), Verdict::release(None))];
    assert_eq!(settle_all(harness, verdicts, now).await.accepted, 2);
    plain(harness, 1..=6, id).await;
    let later = now.saturating_add(LEASE * 2);
    let first = claim_plain(harness, 3, ClaimOrder::Staged, later).await;
    assert_eq!(ids(&first), ids_of(1..=3), "the limit is filled by what may be taken");
    let second = claim_plain(harness, 100, ClaimOrder::Causal, later).await;
    assert_eq!(ids(&second), ids_of(4..=6));
    for order in [ClaimOrder::Staged, ClaimOrder::Causal] {
        assert!(claim_plain(harness, 100, order, later).await.is_empty());
    }
    let left = show(harness, id).await.entries;
    assert!(left.iter().all(|entry| entry.status != Status::InFlight), "{left:?}");
    assert_eq!(claim(harness, 100, later).await.len(), 3, "who knows sagas has them all");
    assert_eq!(harness.store().open_sagas(&route(ROUTE)).await.unwrap(), 1);
    assert_eq!(harness.store().open_sagas(&route("elsewhere")).await.unwrap(), 0);
}

/// A lease of a step is for those who know how many attempts it has.
pub async fn a_reap_without_sagas_leaves_steps_alone<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    plain(harness, 1..=3, id).await;
    let now = soon(harness).await;
    assert_eq!(claim(harness, 100, now).await.len(), 6);
    let later = now.saturating_add(LEASE * 2);
    let request = || ReapRequest { max_attempts: Some(1), ..reap_request(later) };
    assert_eq!(reap(harness, request()).await.released, 3);
    assert!(show(harness, id).await.entries.iter().all(|entry| entry.status == Status::InFlight));
    let request = ReapRequest { steps: Steps::Take, max_attempts: Some(2), ..request() };
    assert_eq!(reap(harness, request).await.released, 3);
    assert!(show(harness, id).await.entries.iter().all(|entry| entry.status == Status::Retrying));
    // Suspects by now, as the others are.
    assert_eq!(ids(&overtake(harness, claim_request(100, later)).await), ids_of(1..=3));
    assert!(show(harness, id).await.entries.iter().all(|entry| entry.status == Status::Retrying));
}

/// It delivers the rest, and a relay with sagas does the steps, before or after.
pub async fn a_relay_without_sagas_delivers_everything_else<H: SagaHarness>(harness: &H) {
    let erasure = stage(harness, erasure(1)).await;
    let booking = stage(harness, booking(2)).await;
    plain(harness, 1..=9, erasure).await;
    let sink = MemorySink::new();
    let plain = Relay::builder(harness.store(), sink.clone()).route(ROUTE).build().unwrap();
    assert_eq!(plain.drain().await.unwrap().delivered, 9);
    assert_eq!(sink.received().len(), 9);
    assert_eq!(all(harness).await.iter().filter(|entry| !entry.status.is_terminal()).count(), 4);
    for id in [erasure, booking] {
        assert_eq!(show(harness, id).await.saga.status, SagaStatus::Running);
    }
    assert_eq!(harness.store().open_sagas(&route(ROUTE)).await.unwrap(), 2);
    while !show(harness, booking).await.saga.status.is_ended() {
        work(harness, |_| done()).await;
        assert_eq!(plain.drain().await.unwrap().claimed, 0);
    }
    for id in [erasure, booking] {
        assert_eq!(show(harness, id).await.saga.status, SagaStatus::Completed);
    }
    assert_eq!(harness.store().open_sagas(&route(ROUTE)).await.unwrap(), 0);
}
