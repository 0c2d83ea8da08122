//! Batches: when one begins, what is in it, and how a failing one is divided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox_core::{Backoff, Event, Jitter, Received};
use pillarbox_engine::Consumer;
use pillarbox_engine::sink::HandlerError;
use pillarbox_testkit::{MemoryBroker, MemoryInbox, MemoryOutbox, MemoryStore, eventually};
use tokio::time::Instant;

use super::rig::*;

/// The numbers of the events in each call of a handler, and when it was called.
type Calls = Arc<Mutex<Vec<(Instant, Vec<u64>)>>>;

fn numbers(events: &[Received]) -> Vec<u64> {
    events.iter().map(|event| std::str::from_utf8(&event.payload).unwrap().parse().unwrap()).collect()
}

async fn record(
    broker: &MemoryBroker,
    max: usize,
    within: Duration,
    concurrency: usize,
) -> Vec<(Duration, Vec<u64>)> {
    let calls = Calls::default();
    let (told, begin) = (Arc::clone(&calls), Instant::now());
    let options = options(|options| options.concurrency = concurrency).batch(max, within);
    let consumer = consumer(broker.source(QUEUE)).options(options).build().unwrap();
    let drained = eventually(SOON, async || broker.ready(QUEUE) + broker.unanswered(QUEUE) == 0);
    consumer
        .run_batches(drained, async move |_, events| {
            told.lock().unwrap().push((Instant::now(), numbers(&events)));
            Ok(())
        })
        .await
        .unwrap();
    let calls = calls.lock().unwrap();
    calls.iter().map(|(at, events)| (*at - begin, events.clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_batch_begins_when_it_is_full_or_its_first_message_has_waited_long_enough() {
    let within = Duration::from_secs(2);
    let calls = record(&broker(1..=7), 3, within, 1).await;
    let sizes: Vec<usize> = calls.iter().map(|(_, events)| events.len()).collect();
    assert_eq!(sizes, [3, 3, 1]);
    assert!(calls[1].0 < within && calls[2].0 >= within && calls[2].0 < 2 * within, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_wait_a_batch_takes_what_is_there() {
    let calls = record(&broker(1..=7), 5, Duration::ZERO, 1).await;
    assert_eq!(calls[0].1, [1, 2, 3, 4, 5]);
    assert_eq!(calls.len(), 2, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn messages_of_one_key_share_a_batch_in_their_order() {
    let broker = MemoryBroker::new();
    for n in 1..=9 {
        broker.publish(QUEUE, message(n, Some("hot")));
    }
    let calls = record(&broker, 4, Duration::from_millis(10), 4).await;
    let batches: Vec<Vec<u64>> = calls.into_iter().map(|(_, events)| events).collect();
    assert_eq!(batches.concat(), Vec::from_iter(1..=9));
    assert!(batches.len() <= 4, "{batches:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_delivered_before_is_handled_alone() {
    let broker = broker(1..=4);
    let options = options(|options| options.concurrency = 1).batch(4, Duration::from_millis(10));
    let crashed = consumer(broker.source(QUEUE)).options(options).build().unwrap();
    let begun = Count::default();
    let told = begun.clone();
    // A process that dies while it handles a batch: nobody knows which event it was.
    tokio::select! {
        ended = crashed.run_batches(std::future::pending(), async move |_, events| {
            assert_eq!(events.len(), 4);
            told.up();
            std::future::pending().await
        }) => panic!("it ended by itself: {ended:?}"),
        () = eventually(SOON, async || begun.get() == 1) => {}
    }
    drop(crashed);
    broker.publish(QUEUE, message(5, None));
    broker.publish(QUEUE, message(6, None));
    let calls = record(&broker, 4, Duration::from_millis(10), 1).await;
    let mut batches: Vec<Vec<u64>> = calls.into_iter().map(|(_, events)| events).collect();
    batches.sort();
    assert_eq!(batches, [vec![1], vec![2], vec![3], vec![4], vec![5, 6]]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_which_no_transaction_begins_goes_back_whole_and_in_order() {
    let broker = broker([]);
    for n in 1..=4 {
        broker.publish(QUEUE, message(n, Some("key")));
    }
    let store = MemoryStore::new();
    let inbox = Flaky { inbox: MemoryInbox::new(&store), begun: Count::default(), refused: 1 };
    let options = options(|options| options.redeliver_after = Duration::from_secs(1))
        .batch(4, Duration::from_millis(10));
    let consumer =
        Consumer::builder(broker.source(QUEUE), inbox).name("billing").options(options).build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&order);
    let drained = eventually(SOON, async || broker.ready(QUEUE) + broker.unanswered(QUEUE) == 0);
    let tally = consumer
        .run_batches(drained, async move |_, events| {
            told.lock().unwrap().extend(numbers(&events));
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!((tally.failed, tally.processed), (4, 4));
    assert_eq!(*order.lock().unwrap(), [1, 2, 3, 4]);
}

/// While a batch is divided, the database goes away. What follows of a key that is left by itself stays behind it.
#[tokio::test(start_paused = true)]
async fn a_batch_that_is_divided_when_no_transaction_begins_keeps_the_order_of_its_keys() {
    let keys = ["a", "b", "c", "d", "a", "c", "e", "e", "a"];
    let broker = broker([]);
    for (n, key) in (1..).zip(keys) {
        broker.publish(QUEUE, message(n, Some(key)));
    }
    let store = MemoryStore::new();
    // The halves of the batch until the first event is found, and then the part beside it.
    let inbox = Flaky { inbox: MemoryInbox::new(&store), begun: Count::default(), refused: 4 };
    let options = options(|options| options.redeliver_after = Duration::from_secs(1))
        .batch(8, Duration::from_millis(10));
    let consumer =
        Consumer::builder(broker.source(QUEUE), inbox).name("billing").options(options).build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&order);
    let drained = eventually(SOON, async || broker.ready(QUEUE) + broker.unanswered(QUEUE) == 0);
    let tally = consumer
        .run_batches(drained, async move |_, events| {
            let numbers = numbers(&events);
            if numbers.len() > 1 && numbers.contains(&1) {
                return Err(HandlerError::retry("early", ""));
            }
            told.lock().unwrap().extend(numbers);
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!((tally.failed, tally.processed), (5, 9));
    let mut by_key: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for n in order.lock().unwrap().iter() {
        by_key.entry(keys[usize::try_from(*n).unwrap() - 1]).or_default().push(*n);
    }
    assert!(by_key.values().all(|numbers| numbers.is_sorted()), "{by_key:?}");
}

/// An inbox of which one transaction cannot begin.
struct Flaky {
    inbox: MemoryInbox,
    begun: Count,
    refused: usize,
}

#[async_trait::async_trait]
impl pillarbox_core::port::Inbox<pillarbox_testkit::MemoryTx> for Flaky {
    async fn accept(
        &self,
        tx: &mut pillarbox_testkit::MemoryTx,
        request: pillarbox_core::port::AcceptRequest,
    ) -> pillarbox_core::Result<pillarbox_core::port::Accepted> {
        self.inbox.accept(tx, request).await
    }
}

#[async_trait::async_trait]
impl pillarbox_core::port::Transactions for Flaky {
    type Tx = pillarbox_testkit::MemoryTx;

    async fn begin(&self) -> pillarbox_core::Result<Self::Tx> {
        if self.begun.up() == self.refused {
            return Err(pillarbox_core::Error::new(pillarbox_core::ErrorKind::Unavailable, "refused"));
        }
        self.inbox.begin().await
    }

    async fn commit(&self, tx: Self::Tx) -> pillarbox_core::Result<()> {
        self.inbox.commit(tx).await
    }

    async fn rollback(&self, tx: Self::Tx) -> pillarbox_core::Result<()> {
        self.inbox.rollback(tx).await
    }
}

/// What the handler does with an event.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Works,
    /// Always refused for good.
    Rejected,
    /// Fails in the first calls that have it.
    Fails(u64),
    /// Panics in the first call that has it.
    Panics,
}

/// Whatever fails in whatever batch: each event is applied once or parked, and each key in its order.
#[tokio::test(start_paused = true)]
async fn a_divided_batch_applies_each_event_once_and_in_the_order_of_its_key() {
    for seed in 0..300 {
        divided(seed).await;
    }
}

async fn divided(seed: u64) {
    let mut dice = Dice(seed);
    let (broker, store) = (MemoryBroker::new(), MemoryStore::new());
    let fates: BTreeMap<u64, Fate> = (1..=30)
        .map(|n| {
            let fate = match dice.below(10) {
                0 => Fate::Rejected,
                1 => Fate::Fails(1 + dice.below(4)),
                2 => Fate::Panics,
                _ => Fate::Works,
            };
            (n, fate)
        })
        .collect();
    let (mut keys, mut rejected, mut published) = (BTreeMap::new(), 0, Vec::new());
    for n in 1..=30 {
        let key = ["a", "b", "c", ""][usize::try_from(dice.below(4)).unwrap()];
        keys.insert(n, key);
        published.push(n);
        // An earlier one comes again.
        if dice.below(5) == 0 {
            published.push(1 + dice.below(n));
        }
    }
    for n in &published {
        broker.publish(QUEUE, message(*n, Some(keys[n]).filter(|key| !key.is_empty())));
        rejected += u64::from(fates[n] == Fate::Rejected);
    }
    let options = options(|options| {
        options.concurrency = 1 + usize::try_from(dice.below(4)).unwrap();
        options.retries = u32::MAX;
        options.backoff =
            Backoff::new(Duration::from_millis(1), Duration::from_millis(1), Jitter::None).unwrap();
    });
    let options =
        options.batch(2 + usize::try_from(dice.below(9)).unwrap(), Duration::from_millis(dice.below(3)));
    let consumer = Consumer::builder(broker.source(QUEUE), MemoryInbox::new(&store))
        .name("billing")
        .options(options)
        .build()
        .unwrap();
    let outbox = MemoryOutbox::new(&store, "effects");
    let calls: Mutex<BTreeMap<u64, u64>> = Mutex::default();
    let plan = fates.clone();
    let drained = eventually(SOON, async || broker.ready(QUEUE) + broker.unanswered(QUEUE) == 0);
    let tally = consumer
        .run_batches(drained, async move |tx, events| {
            for event in &events {
                let _ = outbox.stage(tx, event.causes(Event::new("applied", event.payload.clone()))).await?;
            }
            for n in numbers(&events) {
                let nth = {
                    let mut calls = calls.lock().unwrap();
                    let nth = calls.entry(n).or_default();
                    *nth += 1;
                    *nth
                };
                match plan[&n] {
                    Fate::Rejected => return Err(HandlerError::reject("bad", "")),
                    Fate::Fails(most) if nth <= most => return Err(HandlerError::retry("early", "")),
                    Fate::Panics if nth == 1 => std::panic::resume_unwind(Box::new("as the case wants it")),
                    _ => {}
                }
            }
            Ok(())
        })
        .await
        .unwrap();
    let applied: Vec<u64> = store
        .entries()
        .iter()
        .map(|entry| String::from_utf8_lossy(&entry.payload).parse().unwrap())
        .collect();
    let wanted: BTreeSet<u64> =
        fates.iter().filter(|(_, fate)| **fate != Fate::Rejected).map(|(n, _)| *n).collect();
    assert_eq!(applied.len(), wanted.len(), "seed {seed}: {applied:?}");
    assert_eq!(applied.iter().copied().collect::<BTreeSet<_>>(), wanted, "seed {seed}");
    assert_eq!((tally.parked, tally.failed), (rejected, 0), "seed {seed}");
    assert_eq!(tally.processed + tally.duplicates + tally.parked, published.len() as u64, "seed {seed}");
    for key in ["a", "b", "c"] {
        let of_key: Vec<u64> = applied.iter().copied().filter(|n| keys[n] == key).collect();
        assert!(of_key.is_sorted(), "seed {seed}, key {key}: {of_key:?}");
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
}
