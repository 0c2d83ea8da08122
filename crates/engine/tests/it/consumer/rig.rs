//! What the tests of the consumer share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{Source, SourceCapabilities, Subscription};
use pillarbox_core::{Error, Event, EventId, Result, RouteName};
use pillarbox_engine::{Consumer, ConsumerBuilder, ConsumerOptions};
use pillarbox_testkit::{MemoryBroker, MemoryInbox, MemoryStore, Published, sample_entry};
use tokio::time::Instant;

pub(crate) const QUEUE: &str = "orders";

/// Only a test that hangs takes it.
pub(crate) const SOON: Duration = Duration::from_secs(600);

pub(crate) fn id(n: u64) -> EventId {
    EventId(uuid::Uuid::from_u64_pair(0x0190_0000_0000_7000, 0x8000_0000_0000_0000 | n))
}

pub(crate) fn message(n: u64, key: Option<&str>) -> Published {
    let mut event = Event::new("order.placed", n.to_string()).id(id(n));
    event.key = key.map(str::to_owned);
    Published::of(&sample_entry(RouteName::new(QUEUE).unwrap(), event))
}

/// A broker with these events in its queue.
pub(crate) fn broker(events: impl IntoIterator<Item = u64>) -> MemoryBroker {
    let broker = MemoryBroker::new();
    for n in events {
        broker.publish(QUEUE, message(n, None));
    }
    broker
}

pub(crate) fn consumer(source: impl Source + 'static) -> ConsumerBuilder<MemoryInbox> {
    Consumer::builder(source, MemoryInbox::new(&MemoryStore::new())).name("billing")
}

pub(crate) fn options(change: impl FnOnce(&mut ConsumerOptions)) -> ConsumerOptions {
    let mut options = ConsumerOptions::default();
    change(&mut options);
    options
}

/// Counts, for conditions.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(crate) fn up(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A source whose first subscriptions go as they are told, each with the time at which it was asked for.
pub(crate) struct Moody {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) moods: Mutex<Vec<Mood>>,
    pub(crate) asked: Arc<Mutex<Vec<Instant>>>,
}

pub(crate) enum Mood {
    Works,
    Fails(fn() -> Error),
    Hangs,
}

impl Moody {
    pub(crate) fn new(source: impl Source + 'static, moods: impl IntoIterator<Item = Mood>) -> Self {
        let moods = Mutex::new(moods.into_iter().collect());
        Self { source: Arc::new(source), moods, asked: Arc::default() }
    }
}

#[async_trait]
impl Source for Moody {
    fn capabilities(&self) -> SourceCapabilities {
        self.source.capabilities()
    }

    async fn subscribe(&self) -> Result<Box<dyn Subscription>> {
        self.asked.lock().unwrap().push(Instant::now());
        let mood = {
            let mut moods = self.moods.lock().unwrap();
            if moods.is_empty() { Mood::Works } else { moods.remove(0) }
        };
        match mood {
            Mood::Works => self.source.subscribe().await,
            Mood::Fails(error) => Err(error()),
            Mood::Hangs => std::future::pending().await,
        }
    }
}
