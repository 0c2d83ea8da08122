//! The brokers: a queue or stream of each test's own, behind a proxy that can cut its connections.

mod kafka;
mod mqtt;
mod nats;
mod rabbitmq;
mod redis;

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use pillarbox::Source;
use pillarbox_testkit::{Fault, FaultProxy, eventually};

pub(crate) use kafka::Kafka;
pub(crate) use mqtt::Mqtt;
pub(crate) use nats::Nats;
pub(crate) use rabbitmq::RabbitMq;
pub(crate) use redis::Redis;

/// The way to a server, and the consumers that took it.
struct Path {
    proxy: FaultProxy,
    sources: Mutex<Vec<Weak<dyn Source>>>,
}

impl Path {
    /// A way to this server, and its URL.
    fn to(server: &str) -> (Self, String) {
        let (proxy, url) = FaultProxy::before(server);
        (Self { proxy, sources: Mutex::default() }, url)
    }

    fn lead(&self, source: Arc<dyn Source>) -> Arc<dyn Source> {
        self.sources.lock().unwrap().push(Arc::downgrade(&source));
        source
    }

    /// Waits until the server has noticed that nobody consumes any more. What it sends to a consumer that has just
    /// gone comes again late, which is its right, but no case expects it.
    async fn settle(&self) {
        if self.sources.lock().unwrap().iter().all(|source| source.strong_count() == 0) {
            eventually(Duration::from_secs(60), async || self.proxy.open() == 0).await;
        }
    }

    fn cut(&self) -> bool {
        self.proxy.set(Fault::Cut);
        true
    }
}
