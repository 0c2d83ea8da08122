//! The suite for consuming, on both servers, with the inbox in memory.

use std::sync::{Arc, Mutex, Weak};

use async_nats::HeaderMap;
use async_trait::async_trait;
use pillarbox_conformance::SourceHarness;
use pillarbox_core::port::Source;
use pillarbox_testkit::{Fault, FaultProxy, Published, eventually};
use pillarbox_transport_nats::NatsSource;

use crate::harness::{DEBIAN, LATEST, Place, SOON};

/// A stream with a subject for what was parked, and a proxy before the server.
struct Subject {
    place: Place,
    proxy: FaultProxy,
    url: String,
    /// The sources that were made, to know which of them are gone.
    sources: Mutex<Vec<Weak<NatsSource>>>,
}

impl Subject {
    async fn on(variable: &str) -> Self {
        let place = Place::new(variable).await;
        let (proxy, through) = FaultProxy::before(&place.server);
        let name = &place.name;
        let more = "durable=billing&ack_wait=5s";
        let url = format!("{through}/{name}.events.>?{more}&parked={name}.parked");
        Self { place, proxy, url, sources: Mutex::default() }
    }

    fn source(&self) -> Arc<dyn Source> {
        let source = Arc::new(NatsSource::new(&self.url).unwrap());
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
        let mut headers = HeaderMap::new();
        for (name, value) in message.attributes {
            headers.insert(format!("ce-{name}"), encoded(&value).as_str());
        }
        for (name, value) in message.headers {
            headers.insert(name, value.as_str());
        }
        let subject = format!("{}.events.raw", self.place.name);
        let published = self.place.context.publish_with_headers(subject, headers, message.body.into()).await;
        published.unwrap().await.unwrap();
    }

    async fn parked(&self) -> usize {
        let subject = format!("{}.parked", self.place.name);
        let stored = self.place.stored().await;
        stored.iter().filter(|message| message.subject.as_str() == subject).count()
    }
}

/// As the binding says.
fn encoded(value: &str) -> String {
    let plain = |byte: &u8| (0x21..=0x7e).contains(byte) && !b"\"%".contains(byte);
    let encode = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(encode).collect()
}

macro_rules! suite {
    ($module:ident, $variable:ident) => {
        mod $module {
            use super::*;

            struct Harness(Subject);

            #[async_trait]
            impl SourceHarness for Harness {
                const NAME: &'static str = concat!("nats, ", stringify!($module));

                async fn start() -> Self {
                    Self(Subject::on($variable).await)
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

suite!(debian, DEBIAN);
suite!(latest, LATEST);
