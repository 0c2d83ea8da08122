//! Producers: business rows and events in one transaction, some of which roll back.

use std::time::Duration;

use futures_util::future::try_join_all;
use pillarbox_core::port::Entropy as _;
use pillarbox_core::{Event, EventId};
use pillarbox_host::OsEntropy;
use serde_json::json;

use super::random::Random;
use super::state::{Demo, Figures};
use crate::database::Notes;
use crate::fault::Fault;

const PRODUCERS: u64 = 4;
/// Most orders of one transaction.
const ORDERS_MAX: u64 = 5;
const ROLLBACK_PERCENT: u64 = 20;
/// How often a producer does not know whether its commit arrived, and does it all again.
const AGAIN_PERCENT: u64 = 5;
/// Between two transactions of one producer.
const PAUSE: Duration = Duration::from_millis(5);

/// Stages everything there is to stage.
pub(crate) async fn run(demo: &Demo) -> Result<(), Fault> {
    let shares = (0..PRODUCERS).map(|producer| {
        let share = demo.events / PRODUCERS + u64::from(producer < demo.events % PRODUCERS);
        produce(demo, producer, share)
    });
    try_join_all(shares).await.map(|_| ())
}

async fn produce(demo: &Demo, producer: u64, share: u64) -> Result<(), Fault> {
    let mut random = Random::new(demo.seed, 100 + producer);
    let mut left = share;
    while left > 0 {
        let size = (1 + random.next() % ORDERS_MAX).min(left);
        left -= size;
        let ids: Vec<EventId> = (0..size).map(|_| OsEntropy.event_id()).collect();
        let rolls_back = random.percent(ROLLBACK_PERCENT);
        transact(demo, &ids, rolls_back).await?;
        if !rolls_back && random.percent(AGAIN_PERCENT) {
            stage_again(demo, &ids).await?;
        }
        // As requests come: one after the other, and not all at once.
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn transact(demo: &Demo, ids: &[EventId], rolls_back: bool) -> Result<(), Fault> {
    let mut tx = demo.database.staging.begin().await?;
    for id in ids {
        tx.note(Notes::Orders, &demo.run, &id.to_string()).await?;
    }
    let staged = tx.stage_all(&demo.database.staging.outbox(&demo.route), events(ids)?).await?;
    if staged.iter().any(|staged| staged.is_duplicate()) {
        return Err(Fault::failed("a fresh event id was taken for a duplicate"));
    }
    Figures::add(&demo.figures.transactions, 1);
    if rolls_back {
        tx.rollback().await?;
        Figures::add(&demo.figures.rolled_back, ids.len());
    } else {
        tx.commit().await?;
        Figures::add(&demo.figures.committed, ids.len());
    }
    Ok(())
}

// What a caller does whose commit was not answered: the same ids again, which changes nothing.
async fn stage_again(demo: &Demo, ids: &[EventId]) -> Result<(), Fault> {
    let mut tx = demo.database.staging.begin().await?;
    let staged = tx.stage_all(&demo.database.staging.outbox(&demo.route), events(ids)?).await?;
    tx.commit().await?;
    let duplicates = staged.iter().filter(|staged| staged.is_duplicate()).count();
    if duplicates != ids.len() {
        return Err(Fault::failed("an event id was staged twice on one route"));
    }
    Figures::add(&demo.figures.staged_twice, duplicates);
    Ok(())
}

fn events(ids: &[EventId]) -> Result<Vec<Event>, Fault> {
    let event = |id: &EventId| {
        let order = json!({ "order": id, "total_cents": id.0.as_u128() % 10_000 });
        Event::json("order.placed", &order).map(|event| event.id(*id).key(id.to_string()))
    };
    Ok(ids.iter().map(event).collect::<pillarbox_core::Result<_>>()?)
}
