//! A broker that tells no delivery counts, as some do not.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::{MemoryBrokerHarness, SourceHarness};
use pillarbox_core::port::Source;
use pillarbox_testkit::{MemoryBroker, Published};

pillarbox_conformance::consumer_conformance!(Countless);

/// The broker in memory, telling no delivery counts.
struct Countless(MemoryBrokerHarness);

#[async_trait]
impl SourceHarness for Countless {
    fn name() -> &'static str {
        "memory broker without delivery counts"
    }

    async fn start() -> Self {
        Self(MemoryBrokerHarness::of(MemoryBroker::new().without_delivery_counts()))
    }

    fn source(&self) -> Arc<dyn Source> {
        self.0.source()
    }

    async fn publish(&self, message: Published) {
        self.0.publish(message).await;
    }

    async fn cut(&self) -> bool {
        self.0.cut().await
    }
}
