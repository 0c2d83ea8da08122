//! The suite for consuming, on both servers, with the inbox in memory.

use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use pillarbox_conformance::SourceHarness;
use pillarbox_core::port::Source;
use pillarbox_testkit::{Fault, FaultProxy, Published, eventually};
use pillarbox_transport_redis::RedisSource;

use crate::harness::{Place, REDIS, SOON, VALKEY};

/// A stream, and a proxy before the server.
struct Stream {
    place: Place,
    proxy: FaultProxy,
    url: String,
    /// The sources that were made, to know which of them are gone.
    sources: Mutex<Vec<Weak<RedisSource>>>,
}

impl Stream {
    async fn on(variable: &str) -> Self {
        let place = Place::new(variable).await;
        let (proxy, through) = FaultProxy::before(&place.server);
        let from = place.from("&reclaim_after=5s");
        let url = from.replacen(&place.server, &through, 1);
        Self { place, proxy, url, sources: Mutex::default() }
    }

    fn source(&self) -> Arc<dyn Source> {
        let source = Arc::new(RedisSource::new(&self.url).unwrap());
        self.sources.lock().unwrap().push(Arc::downgrade(&source));
        source
    }

    /// Waits until the server has noticed that nobody consumes any more. What it sends to a consumer that has just gone
    /// comes again late, which is its right, but no case expects it.
    async fn settle(&self) {
        if self.sources.lock().unwrap().iter().all(|source| source.strong_count() == 0) {
            eventually(SOON, async || self.proxy.open() == 0).await;
        }
    }

    async fn publish(&self, message: Published) {
        self.settle().await;
        let mut command = redis::cmd("XADD");
        command.arg(&self.place.stream).arg("*");
        for (name, value) in message.attributes {
            command.arg(format!("ce-{name}")).arg(value);
        }
        for (name, value) in message.headers {
            command.arg(format!("h-{name}")).arg(value);
        }
        command.arg("data").arg(message.body);
        command.query_async::<String>(&mut self.place.commands.clone()).await.unwrap();
    }

    async fn parked(&self) -> usize {
        self.place.stored_in(&format!("{}:parked", self.place.stream)).await.len()
    }
}

macro_rules! suite {
    ($module:ident, $variable:ident) => {
        mod $module {
            use super::*;

            struct Harness(Stream);

            #[async_trait]
            impl SourceHarness for Harness {
                const NAME: &'static str = stringify!($module);

                async fn start() -> Self {
                    Self(Stream::on($variable).await)
                }

                fn source(&self) -> Arc<dyn Source> {
                    self.0.source()
                }

                async fn publish(&self, message: Published) {
                    self.0.publish(message).await;
                }

                async fn parked(&self) -> Option<usize> {
                    Some(self.0.parked().await)
                }

                async fn cut(&self) -> bool {
                    self.0.proxy.set(Fault::Cut);
                    true
                }
            }

            pillarbox_conformance::consumer_conformance!(Harness);
        }
    };
}

suite!(on_redis, REDIS);
suite!(on_valkey, VALKEY);
