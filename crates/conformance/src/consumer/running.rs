//! The loop: order per key, shutdown, lost streams, dropped futures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::harness::InboxHarness;
use super::steps::*;
use crate::case::skip;
use pillarbox_testkit::eventually;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Many at once, and of one key never two, never out of order.
pub async fn messages_of_one_key_stay_in_order<I: InboxHarness>(world: &ConsumerInput<I>) {
    const KEYS: u64 = 4;
    const EACH: u64 = 10;
    for n in 0..KEYS * EACH {
        world.broker.publish(keyed(n, &format!("key-{}", n % KEYS))).await;
    }
    let mut setup = world.setup();
    setup.options.concurrency = 8;
    let work = world.work();
    let handler = work.clone();
    let busy: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    // A panic in a handler would only be a failed delivery, so the problem is reported outside of it.
    let together: Arc<Mutex<Vec<String>>> = Arc::default();
    let (at_work, seen) = (Arc::clone(&busy), Arc::clone(&together));
    let all = work.until(|work| work.calls().len() == 40);
    let tally = setup
        .run(all, async move |tx, event| {
            let key = event.key.clone().unwrap_or_default();
            if !lock(&at_work).insert(key.clone()) {
                lock(&seen).push(key.clone());
            }
            handler.apply(tx, &event).await?;
            tokio::task::yield_now().await;
            lock(&at_work).remove(&key);
            Ok(())
        })
        .await;
    assert!(lock(&together).is_empty(), "two at once of {together:?}");
    assert_eq!((tally.processed, tally.failed), (40, 0));
    let mut by_key: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for n in work.calls() {
        by_key.entry(n % KEYS).or_default().push(n);
    }
    assert!(by_key.values().all(|numbers| numbers.is_sorted()), "{by_key:?}");
}

/// A key waits for itself only.
pub async fn a_slow_key_does_not_hold_up_the_others<I: InboxHarness>(world: &ConsumerInput<I>) {
    if !world.inbox.concurrent_writers() {
        return skip("handlers cannot wait for each other on a database with one writer");
    }
    world.broker.publish(keyed(1, "slow")).await;
    world.broker.publish(keyed(2, "slow")).await;
    world.broker.publish(keyed(3, "fast")).await;
    world.publish([4]).await;
    let mut setup = world.setup();
    setup.options.concurrency = 4;
    let work = world.work();
    let handler = work.clone();
    let tally = setup
        .run(work.until_called(2), async move |tx, event| {
            handler.apply(tx, &event).await?;
            if event.event_id == id(1) {
                handler.until(|work| work.calls_of(3) > 0 && work.calls_of(4) > 0).await;
            }
            Ok(())
        })
        .await;
    assert_eq!((tally.processed, tally.failed), (4, 0));
    assert_eq!(world.applied().await, [1, 2, 3, 4]);
}

/// It is handled, committed and acknowledged; what waits behind it is given back for the next consumer.
pub async fn a_shutdown_finishes_the_message_in_flight<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.broker.publish(keyed(1, "key")).await;
    world.broker.publish(keyed(2, "key")).await;
    let mut setup = world.setup();
    setup.options.concurrency = 4;
    let work = world.work();
    let stopped = Arc::new(AtomicBool::new(false));
    let (handler, told) = (work.clone(), Arc::clone(&stopped));
    let shutdown = async {
        work.until_called(1).await;
        stopped.store(true, Ordering::SeqCst);
    };
    let tally = setup
        .run(shutdown, async move |tx, event| {
            handler.record(&event);
            eventually(SOON, async || told.load(Ordering::SeqCst)).await;
            handler.write(tx, &event).await
        })
        .await;
    assert_eq!((work.calls(), tally.processed, tally.failed), (vec![1], 1, 0));
    assert_eq!(world.applied().await, [1]);
    let work = world.work();
    let handler = work.clone();
    let tally =
        world.setup().run(work.until_called(2), async move |tx, event| handler.apply(tx, &event).await).await;
    assert_eq!(
        (work.calls(), tally.processed, tally.duplicates),
        (vec![2], 1, 0),
        "the first was acknowledged"
    );
}

/// The loss ends nothing: the stream is opened again, and what was not answered comes again.
pub async fn a_lost_stream_is_opened_again<I: InboxHarness>(world: &ConsumerInput<I>) {
    let work = world.work();
    let handler = work.clone();
    let could = AtomicBool::new(true);
    world.publish([1]).await;
    let shutdown = async {
        work.until_called(1).await;
        could.store(world.broker.cut().await, Ordering::SeqCst);
        world.publish([2]).await;
        work.until_called(2).await;
    };
    world.setup().run(shutdown, async move |tx, event| handler.apply(tx, &event).await).await;
    if !could.load(Ordering::SeqCst) {
        return skip("the harness cannot cut a stream");
    }
    world.consume_the_rest(world.setup()).await;
    assert_eq!(world.applied().await, [1, 2]);
}

/// A consumer whose future is dropped in the middle: neither mark nor effect stays, and the next one applies it.
pub async fn a_dropped_consumer_leaves_nothing_half_done<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish([1]).await;
    let work = world.work();
    let handler = work.clone();
    let consumer = world.setup().build();
    let run = consumer.run(std::future::pending(), async move |tx, event| {
        handler.write(tx, &event).await?;
        handler.record(&event);
        std::future::pending().await
    });
    tokio::select! {
        ended = run => panic!("it ended by itself: {ended:?}"),
        () = work.until_called(1) => {}
    }
    drop(consumer);
    assert_eq!(world.applied().await, [0; 0]);
    let handler = work.clone();
    let twice = work.until(|work| work.calls_of(1) == 2);
    let tally = world.setup().run(twice, async move |tx, event| handler.apply(tx, &event).await).await;
    assert_eq!((tally.processed, tally.duplicates), (1, 0));
    assert_eq!(world.applied().await, [1]);
}

/// Two consumers of one queue share its messages: each is applied once.
pub async fn two_consumers_share_the_work<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish(1..=30).await;
    let work = world.work();
    let run = || {
        let handler = work.clone();
        let all = work.until(|work| (1..=30).all(|n| work.calls_of(n) > 0));
        let mut setup = world.setup();
        setup.options.concurrency = 2;
        setup.run(all, async move |tx, event| handler.apply(tx, &event).await)
    };
    let (one, other) = tokio::join!(run(), run());
    assert_eq!(one.processed + other.processed, 30);
    assert_eq!(world.applied().await, Vec::from_iter(1..=30));
}
