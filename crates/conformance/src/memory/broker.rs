//! The broker and the store in memory under the suite for consumers; also an example of both harnesses.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{Sink, Source};
use pillarbox_core::{Entry, Event};
use pillarbox_engine::sink::HandlerError;

use pillarbox_testkit::{MemoryBroker, MemoryInbox, MemoryOutbox, MemoryStore, MemoryTx, Published};

use super::MemoryHarness;
use crate::{InboxHarness, Ruin, SourceHarness, StoreHarness, Wanted};

/// The queue of the route that the suites deliver for.
const QUEUE: &str = "orders";

/// Runs the suites for sources and for consumers on the broker in memory.
#[derive(Clone, Default)]
pub struct MemoryBrokerHarness {
    broker: MemoryBroker,
}

impl MemoryBrokerHarness {
    /// A harness of this broker.
    #[must_use]
    pub fn of(broker: MemoryBroker) -> Self {
        Self { broker }
    }
}

/// Runs the suite for consumers on the inbox in memory.
#[derive(Clone, Default)]
pub struct MemoryInboxHarness {
    store: MemoryStore,
}

#[async_trait]
impl SourceHarness for MemoryBrokerHarness {
    fn name() -> &'static str {
        "memory broker"
    }

    async fn start() -> Self {
        Self::default()
    }

    fn source(&self) -> Arc<dyn Source> {
        Arc::new(self.broker.source(QUEUE))
    }

    async fn publish(&self, message: Published) {
        self.broker.publish(QUEUE, message);
    }

    async fn parked(&self) -> Option<usize> {
        Some(self.broker.parked(QUEUE).len())
    }

    async fn cut(&self) -> bool {
        self.broker.cut(QUEUE);
        true
    }

    fn sink(&self) -> Option<Arc<dyn Sink>> {
        Some(Arc::new(self.broker.clone()))
    }

    fn source_with(&self, wanted: Wanted) -> Option<Arc<dyn Source>> {
        match wanted {
            Wanted::GivenBackAtOnce => Some(self.source()),
            Wanted::Nobody => {
                let broker = MemoryBroker::new();
                broker.set_down(true);
                Some(Arc::new(broker.source(QUEUE)))
            }
            _ => None,
        }
    }
}

#[async_trait]
impl InboxHarness for MemoryInboxHarness {
    type Inbox = MemoryInbox;

    const NAME: &'static str = "memory inbox";

    async fn start() -> Self {
        Self::default()
    }

    fn inbox(&self) -> Arc<MemoryInbox> {
        Arc::new(MemoryInbox::new(&self.store))
    }

    async fn apply(&self, tx: &mut MemoryTx, event: Event) -> Result<(), HandlerError> {
        let _ = MemoryOutbox::new(&self.store, "effects").stage(tx, event).await?;
        Ok(())
    }

    async fn applied(&self) -> Vec<Entry> {
        self.store.entries()
    }

    async fn ruin(&self, tx: &mut MemoryTx, how: Ruin) -> bool {
        <MemoryHarness>::ruin(tx, how).await
    }
}
