//! Members of a group that come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use krafka::Kafka;
use krafka::admin::AlterConsumerGroupOffsetsOptions;
use krafka::consumer::TopicPartition;
use pillarbox_conformance::delivery::{SOON, confirm, entry};
use pillarbox_core::port::Source;
use pillarbox_core::{Entry, ErrorKind, Event, EventId};
use pillarbox_engine::sink::HandlerError;
use pillarbox_engine::{Consumer, ConsumerOptions};
use pillarbox_testkit::{MemoryInbox, MemoryOutbox, MemoryStore, MemoryTx, eventually};
use pillarbox_transport_kafka::{KafkaSink, KafkaSource};
use tokio::sync::watch;

use crate::harness::Fake;
use crate::source::{id, next};

const KEYS: usize = 12;

/// Events of several keys, numbered within each.
fn events(count: usize) -> Vec<Entry> {
    (0..count).map(|n| entry(Event::new("t", n.to_string()).key(format!("k{}", n % KEYS)))).collect()
}

fn member(url: &str) -> Arc<KafkaSource> {
    member_of(url, "billing")
}

fn member_of(url: &str, group: &str) -> Arc<KafkaSource> {
    Arc::new(KafkaSource::new(&format!("{url}?group={group}&prefetch=1000")).unwrap())
}

#[tokio::test]
async fn a_member_that_lost_a_partition_can_no_longer_answer_its_messages() {
    let place = Fake::new(2).await;
    confirm(&KafkaSink::new(&place.url()).unwrap(), &events(600)).await;
    let (one, two) = (member(&place.url()), member(&place.url()));
    let mut first = one.subscribe().await.unwrap();
    let mut held = BTreeMap::new();
    while held.len() < 600 {
        let message = next(&mut first).await;
        held.insert(id(&message), message);
    }
    // All that it commits is committed: a refused commit would end the subscription.
    let committed = |number| place.broker.committed_offset("billing", &place.topic, number) == Some(0);
    eventually(SOON, async || committed(0) && committed(1)).await;
    let mut second = two.subscribe().await.unwrap();
    let taken = next(&mut second).await;
    second.close().await;
    drop(taken);
    // The answer to the first one's next sign of life tells it that it has lost its partitions. It joins again, and gets
    // what nobody has answered once more.
    let again = next(&mut first).await;
    let late = held.remove(&id(&again)).expect("it had them all before");
    let error = late.receipt.ack().await.expect_err("the partition was lost in between");
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unavailable, Some("partition_lost")));
}

/// The server refuses the commit of a member whom the group has left behind. The client would go on as if nothing had
/// happened; what it has is another's.
#[tokio::test]
async fn a_member_whose_commit_is_refused_can_no_longer_answer_and_starts_anew() {
    let place = Fake::new(1).await;
    confirm(&KafkaSink::new(&place.url()).unwrap(), &events(300)).await;
    let (one, two) = (member(&place.url()), member(&place.url()));
    let mut first = one.subscribe().await.unwrap();
    let mut held = Vec::new();
    while held.len() < 300 {
        held.push(next(&mut first).await);
    }
    let mut second = two.subscribe().await.unwrap();
    drop(next(&mut second).await);
    // Each answer lets it commit further, until it learns that it may not.
    let mut held = held.into_iter();
    let refused = loop {
        let message = held.next().expect("no answer was refused");
        match message.receipt.ack().await {
            Ok(()) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => break error,
        }
    };
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::Unavailable, Some("partition_lost")));
    for message in held {
        assert!(message.receipt.ack().await.is_err(), "an answer counted after the loss");
    }
    second.close().await;
    // Who subscribes anew gets what nobody has answered.
    first.close().await;
    let mut first = one.subscribe().await.unwrap();
    next(&mut first).await;
}

/// How the members of a group work.
#[derive(Clone, Copy)]
pub(crate) struct Members<'a> {
    /// No other test has members in it: they would take part in each change of this group.
    pub(crate) group: &'a str,
    /// The most events of a transaction.
    pub(crate) batch_max: usize,
}

/// Every effect once, and each key in order, while members join and leave in the middle of their work.
#[tokio::test]
async fn members_that_come_and_go_lose_and_invert_nothing() {
    come_and_go(&Fake::new(6).await.url(), Members { group: "billing", batch_max: 1 }).await;
}

/// Batches are open when a partition moves.
#[tokio::test]
async fn members_that_come_and_go_in_the_middle_of_batches_lose_and_invert_nothing() {
    come_and_go(&Fake::new(6).await.url(), Members { group: "billing", batch_max: 20 }).await;
}

/// The same on the topic of this URL, which is empty. Every seventeenth event fails once by itself and goes back.
pub(crate) async fn come_and_go(url: &str, members: Members<'_>) {
    let (store, sink) = (MemoryStore::new(), KafkaSink::new(url).unwrap());
    let (inbox, outbox) = (Arc::new(MemoryInbox::new(&store)), MemoryOutbox::new(&store, "effects"));
    let failed: Mutex<BTreeSet<EventId>> = Mutex::default();
    let largest = AtomicUsize::new(0);
    let batch = events(1200);
    let run = async |mut stop: watch::Receiver<bool>| {
        let mut options = ConsumerOptions::default().batch(members.batch_max, Duration::from_millis(50));
        options.restart_backoff = Duration::from_millis(10);
        options.redeliver_after = Duration::from_millis(1);
        let consumer = Consumer::builder(member_of(url, members.group), Arc::clone(&inbox))
            .name("billing")
            .options(options);
        let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
        let handle = async |tx: &mut MemoryTx, events: Vec<pillarbox_core::Received>| {
            largest.fetch_max(events.len(), Ordering::SeqCst);
            for event in &events {
                let effect = Event::new("effect", event.payload.clone()).key(event.key.clone().unwrap());
                outbox.stage(tx, effect).await?;
            }
            tokio::task::yield_now().await;
            let must_fail = |event: &pillarbox_core::Received| {
                number(&event.payload).is_multiple_of(17) && !failed.lock().unwrap().contains(&event.event_id)
            };
            if events.iter().any(must_fail) {
                if let [event] = events.as_slice() {
                    failed.lock().unwrap().insert(event.event_id);
                }
                return Err(HandlerError::retry("early", ""));
            }
            Ok(())
        };
        consumer.build().unwrap().run_batches(stopped, handle).await.unwrap();
    };
    let done = async |count: usize| {
        eventually(SOON, || std::future::ready(store.entries().len() >= count)).await;
    };
    let (all, alls) = watch::channel(false);
    let story = async {
        for (round, part) in batch.chunks(300).enumerate() {
            confirm(&sink, part).await;
            let (stop, stopped) = watch::channel(false);
            // A second member joins in the middle, works, and leaves in the middle of the next part.
            tokio::join!(run(stopped), async {
                done(round * 300 + 150).await;
                stop.send_replace(true);
            });
        }
        done(1200).await;
        all.send_replace(true);
    };
    tokio::join!(run(alls), story);
    assert_eq!(failed.into_inner().unwrap().len(), 1200_usize.div_ceil(17), "each of them went back once");
    assert!(members.batch_max == 1 || largest.into_inner() > 1, "there was no batch");
    let mut effects = store.entries();
    effects.sort_by_key(|effect| effect.seq);
    let numbers: BTreeSet<usize> = effects.iter().map(|effect| number(&effect.payload)).collect();
    assert_eq!((effects.len(), numbers.len()), (1200, 1200), "each effect once");
    let mut last: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for effect in effects {
        let number = number(&effect.payload);
        let before = last.insert(effect.key.clone(), number);
        assert!(before.is_none_or(|before| before < number), "{:?}: {number} after {before:?}", effect.key);
    }
}

fn number(payload: &[u8]) -> usize {
    std::str::from_utf8(payload).unwrap().parse().unwrap()
}

/// The inbox decides what is new, and the group's offset only where reading begins.
#[tokio::test]
async fn a_group_whose_offset_is_set_back_applies_nothing_twice_and_loses_nothing() {
    let place = Fake::new(1).await;
    let sink = KafkaSink::new(&place.url()).unwrap();
    let (store, applied) = (MemoryStore::new(), Mutex::new(Vec::new()));
    let inbox = Arc::new(MemoryInbox::new(&store));
    let consume = async |until: usize| {
        let options = ConsumerOptions::default().batch(50, Duration::from_millis(10));
        let source = member(&place.url());
        let consumer = Consumer::builder(source, Arc::clone(&inbox)).name("billing").options(options);
        let end = i64::try_from(until).unwrap();
        let all =
            eventually(SOON, async || place.broker.committed_offset("billing", &place.topic, 0) == Some(end));
        let handle = async |_tx: &mut MemoryTx, event: pillarbox_core::Received| {
            applied.lock().unwrap().push(event.event_id);
            Ok(())
        };
        consumer.build().unwrap().run(all, handle).await.unwrap()
    };
    let (before, behind) = (events(300), events(40));
    confirm(&sink, &before).await;
    assert_eq!(consume(300).await.processed, 300);
    // As an operator does who sets a group to the earliest offset.
    let kafka = Kafka::builder(place.broker.bootstrap_servers()).connect().await.unwrap();
    let earliest = [(TopicPartition::new(&*place.topic, 0), 0)];
    let changed = kafka
        .admin()
        .alter_consumer_group_offsets("billing", earliest, AlterConsumerGroupOffsetsOptions::default())
        .await;
    assert!(changed.unwrap().into_values().all(|changed| changed.is_ok()));
    confirm(&sink, &behind).await;
    let tally = consume(340).await;
    assert_eq!((tally.processed, tally.duplicates, tally.failed), (40, 300, 0));
    let mut applied = applied.into_inner().unwrap();
    let mut all: Vec<EventId> = before.iter().chain(&behind).map(|entry| entry.event_id).collect();
    applied.sort_unstable();
    all.sort_unstable();
    assert_eq!(applied, all, "each once");
}
