//! NATS JetStream: a stream, and a durable consumer of it.

use std::sync::Arc;

use async_nats::HeaderMap;
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use async_trait::async_trait;
use pillarbox::Source;
use pillarbox::nats::NatsSource;
use pillarbox_conformance::SourceHarness;
use pillarbox_testkit::Published;

use super::Path;
use crate::{unique, variable};

pub(crate) struct Nats {
    path: Path,
    url: String,
    name: String,
    context: Context,
}

#[async_trait]
impl SourceHarness for Nats {
    fn name() -> &'static str {
        "nats"
    }

    async fn start() -> Self {
        let server = variable("PILLARBOX_TEST_NATS");
        let name = unique();
        let context = jetstream::new(async_nats::connect(&server).await.unwrap());
        let config = Config { name: name.clone(), subjects: vec![format!("{name}.>")], ..Config::default() };
        context.create_stream(config).await.unwrap();
        let (path, through) = Path::to(&server);
        let url = format!("{through}/{name}.>?durable=billing&ack_wait=5s");
        Self { path, url, name, context }
    }

    fn source(&self) -> Arc<dyn Source> {
        self.path.lead(Arc::new(NatsSource::new(&self.url).unwrap()))
    }

    async fn publish(&self, message: Published) {
        self.path.settle().await;
        let mut headers = HeaderMap::new();
        for (name, value) in message.attributes {
            headers.insert(format!("ce-{name}"), encoded(&value).as_str());
        }
        for (name, value) in message.headers {
            headers.insert(name, value.as_str());
        }
        let subject = format!("{}.events", self.name);
        let published = self.context.publish_with_headers(subject, headers, message.body.into()).await;
        published.unwrap().await.unwrap();
    }

    async fn cut(&self) -> bool {
        self.path.cut()
    }
}

/// As the binding says.
fn encoded(value: &str) -> String {
    let plain = |byte: &u8| (0x21..=0x7e).contains(byte) && !b"\"%".contains(byte);
    let encode = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(encode).collect()
}
