//! Batches: several events in one transaction, with every rule of the single one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillarbox_core::{Backoff, Jitter, Received};
use pillarbox_engine::sink::HandlerError;

use super::harness::{InboxHarness, Tx};
use super::steps::*;
use super::wrap::{Arrivals, Change, changed};
use crate::Ruin;
use crate::case::skip;
use pillarbox_testkit::eventually;

/// A consumer that takes up to eight events in one transaction, and waits long enough for a slow broker to bring them.
fn batching<I: InboxHarness>(world: &ConsumerInput<I>) -> Setup<I> {
    let mut setup = world.setup();
    setup.options = setup.options.batch(8, Duration::from_millis(300));
    setup
}

fn has(events: &[Received], n: u64) -> bool {
    events.iter().any(|event| event.event_id == id(n))
}

async fn write_all<I: InboxHarness>(
    work: &Work<I>,
    tx: &mut Tx<I>,
    events: &[Received],
) -> Result<(), HandlerError> {
    for event in events {
        work.write(tx, event).await?;
    }
    Ok(())
}

/// The handler gets the fresh ones of a batch in their order; a duplicate is acknowledged without it, also one that is in
/// the same batch.
pub async fn a_batch_is_applied_once_whatever_is_in_it_twice<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish([1, 2, 1, 3, 2, 4, 5, 6]).await;
    let mark = world.publish_mark().await;
    let (work, largest) = (world.work(), Arc::new(AtomicUsize::new(0)));
    let (handler, seen) = (work.clone(), Arc::clone(&largest));
    let tally = batching(world)
        .run_batches(work.until_called(mark), async move |tx, events| {
            seen.fetch_max(events.len(), Ordering::SeqCst);
            handler.record_all(&events);
            write_all(&handler, tx, &events).await
        })
        .await;
    assert_eq!(work.calls(), [1, 2, 3, 4, 5, 6]);
    assert!(largest.load(Ordering::SeqCst) > 1, "there was no batch");
    assert_eq!((tally.processed, tally.duplicates, tally.failed, tally.parked), (7, 2, 0, 0));
    assert_eq!(world.applied().await, [1, 2, 3, 4, 5, 6]);
    world.publish([3, 4]).await;
    let (work, tally) = world.consume_the_rest(batching(world)).await;
    assert_eq!(
        (work.calls(), tally.duplicates),
        (vec![], 2),
        "the marks were committed, the messages acknowledged"
    );
}

/// A handler of one event is called for each, in one transaction.
pub async fn a_handler_of_one_is_called_for_each_event_of_a_batch<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish(1..=7).await;
    let (work, tally) = world.consume_the_rest(batching(world)).await;
    assert_eq!((work.calls(), tally.processed), (Vec::from_iter(1..=7), 8));
    assert_eq!(world.applied().await, Vec::from_iter(1..=7));
}

/// What the handler rejects is found in its batch and parked; the others are applied once.
pub async fn a_rejected_event_is_parked_and_its_batch_is_applied<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish(1..=7).await;
    let mark = world.publish_mark().await;
    let work = world.work();
    let handler = work.clone();
    let done = work.until(move |work| work.calls_of(mark) > 0 && (1..=7).all(|n| work.calls_of(n) > 0));
    let tally = batching(world)
        .run_batches(done, async move |tx, events| {
            write_all(&handler, tx, &events).await?;
            if has(&events, 5) {
                if let [event] = events.as_slice() {
                    handler.record(event);
                }
                return Err(HandlerError::reject("bad", ""));
            }
            handler.record_all(&events);
            Ok(())
        })
        .await;
    assert_eq!((tally.processed, tally.parked, tally.failed), (7, 1, 0));
    assert_eq!(
        counted(&work.calls()),
        (1..=7).map(|n| (n, 1)).collect(),
        "each was committed or rejected once"
    );
    assert_eq!(world.applied().await, [1, 2, 3, 4, 6, 7]);
    eventually(SOON, async || world.broker.parked().await.is_none_or(|parked| parked == 1)).await;
}

/// An event that panics or fails in a batch fails alone: it is tried again by itself, and nothing of its key overtakes it.
pub async fn a_failing_event_of_a_batch_holds_back_its_key_only<I: InboxHarness>(world: &ConsumerInput<I>) {
    const KEYS: u64 = 3;
    for n in 0..18 {
        world.broker.publish(keyed(n, &format!("key-{}", n % KEYS))).await;
    }
    let mut setup = batching(world);
    setup.options.concurrency = 3;
    setup.options.retries = u32::MAX;
    setup.options.backoff =
        Backoff::new(Duration::from_millis(1), Duration::from_millis(1), Jitter::None).unwrap();
    let work = world.work();
    let (handler, tries) = (work.clone(), Arc::new(AtomicUsize::new(0)));
    let order: Arc<Mutex<Vec<u64>>> = Arc::default();
    let committed = Arc::clone(&order);
    let done = eventually(SOON, async || world.applied().await.len() == 18);
    let tally = setup
        .run_batches(done, async move |tx, events| {
            write_all(&handler, tx, &events).await?;
            let tried = if has(&events, 4) { tries.fetch_add(1, Ordering::SeqCst) } else { usize::MAX };
            assert!(tried != 1, "the second try panics, as the case wants it");
            if tried < 6 {
                return Err(HandlerError::retry("early", ""));
            }
            let numbers = events.iter().map(|event| String::from_utf8_lossy(&event.payload).parse().unwrap());
            committed.lock().unwrap_or_else(PoisonError::into_inner).extend::<Vec<u64>>(numbers.collect());
            Ok(())
        })
        .await;
    assert_eq!((tally.processed, tally.failed), (18, 0));
    let mut by_key: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for n in order.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        by_key.entry(n % KEYS).or_default().push(*n);
    }
    assert!(by_key.values().all(|numbers| numbers.is_sorted()), "{by_key:?}");
    assert_eq!(world.applied().await, Vec::from_iter(0..18));
}

/// What cannot be decoded is parked beside the batch, and a payload that the handler refuses is found in it.
pub async fn what_cannot_be_decoded_is_parked_beside_a_batch<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish([1, 2]).await;
    let mut broken = message(3);
    broken.attributes.remove("id");
    world.broker.publish(broken).await;
    world.publish([4]).await;
    let (work, tally) = world.consume_the_rest(batching(world)).await;
    assert_eq!((work.calls(), tally.parked, tally.failed), (vec![1, 2, 4], 1, 0));
    eventually(SOON, async || world.broker.parked().await.is_none_or(|parked| parked == 1)).await;
}

/// A consumer that dies between the commit of a batch and its answers: all of its events are duplicates.
pub async fn a_batch_whose_answers_were_lost_is_all_duplicates<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish(1..=5).await;
    let mut dying = batching(world);
    dying.source = changed(dying.source, Change::AnswersAreLost);
    let (work, tally) = world.consume_the_rest(dying).await;
    assert_eq!((work.calls(), tally.processed), (vec![1, 2, 3, 4, 5], 6));
    let arrivals = Arrivals::default();
    // One by one: so those that have arrived were handled, but for the last.
    let mut setup = world.setup();
    setup.source = changed(setup.source, Change::ArrivalsAreSeen(arrivals.clone()));
    let came_again = eventually(SOON, async || {
        let arrived = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        (1..=5).all(|n| arrived.contains(&id(n).to_string()))
    });
    let work = world.work();
    let handler = work.clone();
    let tally = setup.run(came_again, async move |tx, event| handler.apply(tx, &event).await).await;
    assert!(tally.duplicates >= 1 && tally.failed == 0, "{tally:?}");
    assert_eq!((work.calls(), world.applied().await), (vec![], vec![1, 2, 3, 4, 5]));
}

/// A commit that is none, or of which nobody knows, loses nothing: the batch is tried again in parts.
pub async fn a_batch_whose_commit_failed_loses_nothing<I: InboxHarness>(world: &ConsumerInput<I>) {
    for (base, how) in [(0, Ruin::FailedStatement), (10, Ruin::Ended), (20, Ruin::BrokenConnection)] {
        world.publish(base + 1..=base + 5).await;
        let mark = world.publish_mark().await;
        let work = world.work();
        let (handler, first) = (work.clone(), AtomicBool::new(true));
        let could = Arc::new(AtomicBool::new(true));
        let told = Arc::clone(&could);
        batching(world)
            .run_batches(work.until_called(mark), async move |tx, events| {
                write_all(&handler, tx, &events).await?;
                handler.record_all(&events);
                if first.swap(false, Ordering::SeqCst) {
                    told.store(handler.ruin(tx, how).await, Ordering::SeqCst);
                }
                Ok(())
            })
            .await;
        if !could.load(Ordering::SeqCst) {
            skip("a transaction cannot be ruined that way");
        }
        world.consume_the_rest(batching(world)).await;
        let applied = world.applied().await;
        let of_round: Vec<u64> = applied.into_iter().filter(|n| *n > base).collect();
        assert_eq!(of_round, Vec::from_iter(base + 1..=base + 5), "{how:?}");
    }
}

/// What is at work is committed and acknowledged; what was gathered for the next batch goes back to the broker.
pub async fn a_shutdown_finishes_the_batch_in_flight<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish(1..=12).await;
    let work = world.work();
    let stopped = Arc::new(AtomicBool::new(false));
    let (handler, told) = (work.clone(), Arc::clone(&stopped));
    let shutdown = async {
        work.until_called(1).await;
        stopped.store(true, Ordering::SeqCst);
    };
    let tally = batching(world)
        .run_batches(shutdown, async move |tx, events| {
            handler.record_all(&events);
            eventually(SOON, async || told.load(Ordering::SeqCst)).await;
            write_all(&handler, tx, &events).await
        })
        .await;
    let first = work.calls().len() as u64;
    assert_eq!((tally.processed, tally.failed), (first, 0), "what was at work was finished");
    assert_eq!(world.applied().await, Vec::from_iter(1..=first));
    let work = world.work();
    let handler = work.clone();
    let rest = work.until(move |work| (first + 1..=12).all(|n| work.calls_of(n) > 0));
    let tally = batching(world).run(rest, async move |tx, event| handler.apply(tx, &event).await).await;
    assert_eq!(tally.duplicates, 0, "the first were acknowledged");
    assert_eq!(world.applied().await, Vec::from_iter(1..=12));
}
