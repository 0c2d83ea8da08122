//! What every test needs: a store, a destination, and staged events.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::port::{Sink, Store};
use pillarbox_core::{Backoff, Entry, Event, EventId, Jitter, Status};
use pillarbox_engine::{Relay, RelayBuilder, RelayOptions};
use pillarbox_testkit::{MemoryOutbox, MemorySink, MemoryStore};

pub const ROUTE: &str = "orders";

pub struct Rig {
    pub store: MemoryStore,
    pub sink: MemorySink,
}

impl Rig {
    pub fn new() -> Self {
        Self { store: MemoryStore::new(), sink: MemorySink::new() }
    }

    pub async fn stage(&self, event: Event) -> EventId {
        let mut tx = self.store.begin();
        let staged = MemoryOutbox::new(&self.store, ROUTE).stage(&mut tx, event).await.unwrap();
        tx.commit();
        staged.event_id()
    }

    pub async fn stage_many(&self, count: usize) -> Vec<EventId> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(self.stage(Event::new("order.placed", "{}")).await);
        }
        ids
    }

    pub fn relay(&self, options: RelayOptions) -> Relay {
        self.builder(options).build().unwrap()
    }

    pub fn builder(&self, options: RelayOptions) -> RelayBuilder {
        self.to(Arc::new(self.sink.clone()), options)
    }

    pub fn to(&self, sink: Arc<dyn Sink>, options: RelayOptions) -> RelayBuilder {
        let store: Arc<dyn Store> = Arc::new(self.store.clone());
        Relay::builder(store, sink).route(ROUTE).options(options).owner("relay").seed(7)
    }

    pub fn entry(&self, id: EventId) -> Entry {
        self.store.entries().into_iter().find(|entry| entry.event_id == id).expect("the entry is there")
    }

    pub fn with_status(&self, status: Status) -> usize {
        self.store.entries().iter().filter(|entry| entry.status == status).count()
    }
}

/// Deterministic waits of one second, doubling.
pub fn options() -> RelayOptions {
    let mut options = RelayOptions::broker();
    options.backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), Jitter::None).unwrap();
    options
}
