//! Handlers that fail: no mark, no effect, and the event comes again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillarbox_core::{Backoff, Jitter};
use pillarbox_engine::sink::HandlerError;

use super::harness::InboxHarness;
use super::steps::*;
use super::wrap::{Change, changed};
use crate::Ruin;
use crate::case::skip;
use pillarbox_testkit::eventually;

/// Its write is gone with its mark, and the next delivery applies it.
pub async fn a_failed_handler_leaves_no_mark_and_the_event_comes_again<I: InboxHarness>(
    world: &ConsumerInput<I>,
) {
    world.publish([1]).await;
    let work = world.work();
    let handler = work.clone();
    let tally = world
        .setup()
        .run(work.until(|work| work.calls_of(1) > 1), async move |tx, event| {
            let nth = handler.record(&event);
            handler.write(tx, &event).await?;
            if nth == 1 { Err(HandlerError::retry("first", "")) } else { Ok(()) }
        })
        .await;
    assert_eq!((work.calls(), tally.processed, tally.failed), (vec![1, 1], 1, 1));
    assert_eq!(world.applied().await, [1]);
}

/// A unique index of the application's own is not the inbox's: the event is not taken for a duplicate and lost.
pub async fn the_handlers_own_unique_violation_is_a_failure<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish([1]).await;
    let work = world.work();
    let handler = work.clone();
    let tally = world
        .setup()
        .run(work.until(|work| work.calls_of(1) > 1), async move |tx, event| {
            if handler.record(&event) == 1 {
                return handler.violate(tx).await;
            }
            handler.write(tx, &event).await
        })
        .await;
    assert_eq!((tally.processed, tally.duplicates, tally.failed), (1, 0, 1));
    assert_eq!(world.applied().await, [1]);
}

/// The consumer lives, and the next delivery is handled.
pub async fn a_panicking_handler_is_a_failed_delivery<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish([1]).await;
    let work = world.work();
    let handler = work.clone();
    let tally = world
        .setup()
        .run(work.until(|work| work.calls_of(1) > 1), async move |tx, event| {
            let nth = handler.record(&event);
            handler.write(tx, &event).await?;
            assert!(nth > 1, "the first call panics, as the case wants it");
            Ok(())
        })
        .await;
    assert_eq!((tally.processed, tally.failed), (1, 1));
    assert_eq!(world.applied().await, [1]);
}

/// Tries beyond the first stay inside one delivery, each in a transaction of its own.
pub async fn a_retry_in_the_process_has_a_fresh_transaction<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish([1]).await;
    let mut setup = world.setup();
    setup.options.retries = 2;
    setup.options.backoff =
        Backoff::new(Duration::from_millis(1), Duration::from_millis(1), Jitter::None).unwrap();
    let work = world.work();
    let handler = work.clone();
    let tally = setup
        .run(work.until(|work| work.calls_of(1) > 2), async move |tx, event| {
            let nth = handler.record(&event);
            handler.write(tx, &event).await?;
            if nth < 3 { Err(HandlerError::retry("early", "")) } else { Ok(()) }
        })
        .await;
    assert_eq!((tally.processed, tally.failed), (1, 0), "the broker saw one delivery");
    assert_eq!(world.applied().await, [1]);
}

/// A nack that does not arrive is as good as one that does: without an answer the event comes again.
pub async fn a_failed_event_whose_answer_was_lost_comes_again<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish([1]).await;
    let mut dying = world.setup();
    dying.source = changed(dying.source, Change::AnswersAreLost);
    let work = world.work();
    let handler = work.clone();
    let tally = dying
        .run(work.until_called(1), async move |_, event| {
            handler.record(&event);
            Err(HandlerError::retry("first", ""))
        })
        .await;
    assert_eq!((tally.processed, tally.failed), (0, 1), "a lost answer is not fatal");
    let handler = work.clone();
    let twice = work.until(|work| work.calls_of(1) > 1);
    let tally = world.setup().run(twice, async move |tx, event| handler.apply(tx, &event).await).await;
    assert_eq!(tally.processed, 1);
    assert_eq!(world.applied().await, [1]);
}

/// The events of a key are applied in their order although some fail and go back to the broker: the newer ones that are
/// on their way do not overtake them.
pub async fn newer_events_of_a_key_wait_for_one_that_failed<I: InboxHarness>(world: &ConsumerInput<I>) {
    let mut setup = world.setup();
    setup.options.concurrency = 3;
    newer_events_wait(world, setup).await;
}

/// So it is if the failed one was in a batch.
pub async fn newer_events_of_a_key_wait_for_one_that_failed_in_a_batch<I: InboxHarness>(
    world: &ConsumerInput<I>,
) {
    let mut setup = world.setup();
    setup.options.concurrency = 2;
    setup.options = setup.options.batch(5, Duration::from_millis(10));
    newer_events_wait(world, setup).await;
}

/// Some events fail once or twice by themselves. A batch is divided until they are.
async fn newer_events_wait<I: InboxHarness>(world: &ConsumerInput<I>, setup: Setup<I>) {
    const KEYS: u64 = 3;
    const ALL: u64 = 30;
    if !setup.source.capabilities().returns_in_order {
        return skip("newer messages may come before one that was given back");
    }
    for n in 0..ALL {
        world.broker.publish(keyed(n, &format!("key-{}", n % KEYS))).await;
    }
    let work = world.work();
    let handler = work.clone();
    let committed: Arc<Mutex<Vec<u64>>> = Arc::default();
    let seen = Arc::clone(&committed);
    let done = eventually(SOON, async || world.applied().await.len() as u64 == ALL);
    let tally = setup
        .run_batches(done, async move |tx, events| {
            for event in &events {
                handler.write(tx, event).await?;
            }
            let numbers: Vec<u64> =
                events.iter().map(|event| String::from_utf8_lossy(&event.payload).parse().unwrap()).collect();
            // The first ones of each key, and one of every seven behind them. The second key fails twice.
            let fails =
                |n: u64| if n < KEYS || n.is_multiple_of(7) { 1 + usize::from(n % KEYS == 1) } else { 0 };
            let too_early = numbers.iter().any(|n| handler.calls_of(*n) < fails(*n));
            if too_early {
                if let [event] = events.as_slice() {
                    handler.record(event);
                }
                return Err(HandlerError::retry("early", ""));
            }
            seen.lock().unwrap_or_else(PoisonError::into_inner).extend(numbers);
            Ok(())
        })
        .await;
    assert_eq!((tally.processed, tally.parked), (ALL, 0));
    assert_eq!(tally.failed, work.calls().len() as u64, "each failure went back to the broker");
    let mut by_key: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for n in committed.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        by_key.entry(n % KEYS).or_default().push(*n);
    }
    assert!(by_key.values().all(|numbers| numbers.is_sorted()), "{by_key:?}");
    assert_eq!(world.applied().await, Vec::from_iter(0..ALL));
}

/// Its handler goes on and returns as if all were well: the commit is none, and so the event is not acknowledged.
pub async fn a_swallowed_error_that_ruins_the_transaction_loses_nothing<I: InboxHarness>(
    world: &ConsumerInput<I>,
) {
    ruined(world, Ruin::FailedStatement).await;
}

/// Mark and effect are gone, and the event comes again.
pub async fn a_handler_that_ends_its_transaction_loses_nothing<I: InboxHarness>(world: &ConsumerInput<I>) {
    ruined(world, Ruin::Ended).await;
}

/// Neither the event nor the consumer is lost with the connection.
pub async fn a_handler_whose_connection_breaks_loses_nothing<I: InboxHarness>(world: &ConsumerInput<I>) {
    ruined(world, Ruin::BrokenConnection).await;
}

/// The first call of the handler ruins its transaction and takes no notice of it.
async fn ruined<I: InboxHarness>(world: &ConsumerInput<I>, how: Ruin) {
    world.publish([1]).await;
    let work = world.work();
    let handler = work.clone();
    let (told, could) = tokio::sync::watch::channel(true);
    let tally = world
        .setup()
        .run(work.until_called(1), async move |tx, event| {
            handler.write(tx, &event).await?;
            if handler.record(&event) == 1 {
                told.send_replace(handler.ruin(tx, how).await);
            }
            Ok(())
        })
        .await;
    if !*could.borrow() {
        return skip("a transaction cannot be ruined that way");
    }
    // It may have come again already. Otherwise it comes when the broker sees fit, perhaps behind others.
    assert_eq!((tally.failed, tally.processed), (1, work.calls().len() as u64 - 1));
    if tally.processed == 0 {
        let (again, handler) = (work.until(|work| work.calls_of(1) > 1), work.clone());
        world.setup().run(again, async move |tx, event| handler.apply(tx, &event).await).await;
    }
    world.consume_the_rest(world.setup()).await;
    assert_eq!(world.applied().await, [1], "neither lost nor applied twice");
}
