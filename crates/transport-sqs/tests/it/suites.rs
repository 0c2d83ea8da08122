//! The suites for sinks, sources, consumers and faults, on standard and on FIFO queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::process::OwnServer;
use pillarbox_conformance::{
    FaultHarness, Received, Refusal, ServerHarness, SinkHarness, SourceHarness, Timeouts, Told, Wanted,
};
use pillarbox_core::port::{Sink, Source};
use pillarbox_core::{Event, EventId};
use pillarbox_testkit::{Fault, FaultProxy, Published};
use pillarbox_transport_sqs::{SqsSink, SqsSource};
use serde_json::{Map, Value};

use crate::harness::{OwnQueue, address, own_server};

/// Which kind of queue.
pub(crate) trait Kind: Send + Sync + 'static {
    const NAME: &'static str;
    /// How the sink is set. The suites assert the order of all entries, which one request at a time keeps.
    const PARAMETERS: &'static str;

    fn queue() -> impl Future<Output = OwnQueue> + Send;
}

pub(crate) struct Standard;

impl Kind for Standard {
    const NAME: &'static str = "a standard queue of fauxqs";
    const PARAMETERS: &'static str = "in_flight=1";

    async fn queue() -> OwnQueue {
        OwnQueue::standard().await
    }
}

pub(crate) struct Fifo;

impl Kind for Fifo {
    const NAME: &'static str = "a FIFO queue of fauxqs";
    const PARAMETERS: &'static str = "in_flight=1";

    async fn queue() -> OwnQueue {
        OwnQueue::fifo().await
    }
}

/// As it is by default: several requests at once.
pub(crate) struct Parallel;

impl Kind for Parallel {
    const NAME: &'static str = "a standard queue of fauxqs, several requests at once";
    const PARAMETERS: &'static str = "in_flight=8";

    async fn queue() -> OwnQueue {
        OwnQueue::standard().await
    }
}

/// A queue, a queue for what was parked, and a proxy between the server and its consumers.
struct On<K> {
    queue: OwnQueue,
    sink: Arc<SqsSink>,
    proxy: FaultProxy,
    through: String,
    kind: std::marker::PhantomData<K>,
}

impl<K: Kind> On<K> {
    async fn new() -> Self {
        let queue = K::queue().await;
        let sink = Arc::new(SqsSink::new(&queue.at(K::PARAMETERS)).unwrap());
        let (proxy, through) = FaultProxy::before(&queue.server);
        Self { queue, sink, proxy, through, kind: std::marker::PhantomData }
    }

    /// The requests for messages are short, so that one that a test leaves behind takes nothing from the next consumer.
    fn source_of(&self, more: &str) -> Arc<dyn Source> {
        let more = format!("wait=1s&parked={}&{more}", self.queue.parked_name());
        Arc::new(SqsSource::new(&self.queue.via(&self.through, &more)).unwrap())
    }
}

#[async_trait]
impl<K: Kind> SinkHarness for On<K> {
    fn name() -> &'static str {
        K::NAME
    }

    async fn start() -> Self {
        Self::new().await
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }

    async fn received(&self) -> Vec<Received> {
        self.queue.bodies().await.iter().map(|body| Received::of_line(body)).collect()
    }

    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        Some(self.queue.bodies().await.iter().map(|body| context(body)).collect())
    }

    fn keeps_blanks(&self) -> bool {
        false
    }

    /// More than a message may have.
    async fn refusal(&self) -> Option<Refusal> {
        let of = |payload: &[u8]| Event::new("sample.first", payload);
        Some(Refusal { sink: self.sink.clone(), taken: of(b"{}"), refused: of(&[b'x'; 300_000]) })
    }
}

/// Attributes and headers, those included whose names CloudEvents does not allow. Data is none of them.
fn context(body: &str) -> BTreeMap<String, String> {
    let mut context = pillarbox_conformance::sink::context_of_line(body);
    context.remove("data_base64");
    context.remove("data");
    let others = context.remove("pillarboxheaders");
    let others: BTreeMap<String, String> =
        others.map(|others| serde_json::from_str(&others).unwrap()).unwrap_or_default();
    context.extend(others);
    context
}

#[async_trait]
impl<K: Kind> SourceHarness for On<K> {
    fn name() -> &'static str {
        K::NAME
    }

    async fn start() -> Self {
        Self::new().await
    }

    fn source(&self) -> Arc<dyn Source> {
        self.source_of("visibility=5s&nack_delay=0s")
    }

    fn source_with(&self, wanted: Wanted) -> Option<Arc<dyn Source>> {
        match wanted {
            Wanted::Ahead(messages) => Some(self.source_of(&format!("prefetch={messages}"))),
            Wanted::GivenBackAtOnce => Some(self.source_of("nack_delay=0s")),
            Wanted::GivenBackLate => Some(self.source_of("nack_delay=1h")),
            Wanted::NothingAgain => Some(self.source_of("nack_delay=1h&visibility=1h")),
            // Held for no longer than the server hides it.
            Wanted::UnansweredSoon => Some(self.source_of("visibility=1s&hold=0s")),
            Wanted::Missing => {
                let url = format!("sqs://eu-west-1/missing?endpoint={}", self.queue.server);
                Some(Arc::new(SqsSource::new(&url).unwrap()))
            }
            Wanted::Nobody => {
                Some(Arc::new(SqsSource::new("sqs://eu-west-1/orders?endpoint=http://127.0.0.1:1").unwrap()))
            }
            _ => None,
        }
    }

    fn sink(&self) -> Option<Arc<dyn Sink>> {
        Some(self.sink.clone())
    }

    async fn publish(&self, message: Published) {
        // Without a key each has a group of its own.
        let group = message.attributes.get("subject").cloned();
        let headers: Vec<_> =
            message.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        if message.attributes.is_empty() {
            let body = String::from_utf8(message.body).unwrap();
            // SQS takes ten attributes of a message and no more.
            return self.queue.send(&body, group.as_deref(), &headers[..headers.len().min(10)]).await;
        }
        let text = |(name, value): (String, String)| (name, Value::String(value));
        let mut event: Map<String, Value> = message.attributes.into_iter().map(text).collect();
        if !headers.is_empty() {
            let headers: Map<String, Value> = message.headers.into_iter().map(text).collect();
            event.insert("pillarboxheaders".into(), Value::Object(headers).to_string().into());
        }
        let data = serde_json::from_slice(&message.body).unwrap_or_else(|_| {
            event.insert("datacontenttype".into(), "text/plain".into());
            Value::String(String::from_utf8(message.body.clone()).unwrap())
        });
        event.insert("data".into(), data);
        self.queue.send(&Value::Object(event).to_string(), group.as_deref(), &[]).await;
    }

    async fn parked(&self) -> Option<usize> {
        let (waiting, held) = self.queue.counts(&self.queue.parked_name()).await;
        Some(waiting + held)
    }

    async fn cut(&self) -> bool {
        self.proxy.set(Fault::Cut);
        true
    }

    async fn unanswered(&self) -> Option<usize> {
        Some(self.queue.counts(&self.queue.name).await.1)
    }

    async fn left(&self) -> Option<usize> {
        let (waiting, held) = self.queue.counts(&self.queue.name).await;
        Some(waiting + held)
    }

    fn tells_positions(&self) -> bool {
        false
    }

    /// Several requests give back at once.
    fn returns_in_order(&self) -> bool {
        false
    }
}

#[async_trait]
impl<K: Kind> FaultHarness for On<K> {
    const NAME: &'static str = K::NAME;

    async fn start() -> Self {
        Self::new().await
    }

    fn server(&self) -> String {
        self.queue.server.clone()
    }

    fn sink(&self, server: &str, timeouts: Timeouts) -> Arc<dyn Sink> {
        let parameters = [K::PARAMETERS, &timeouts.parameters()].join("&");
        Arc::new(SqsSink::new(&self.queue.via(server, parameters.trim_end_matches('&'))).unwrap())
    }

    async fn received(&self) -> Vec<EventId> {
        self.queue.ids().await
    }

    fn told(&self) -> Told {
        let mut told = Told::default();
        // One request has ten messages at most.
        told.together = 10;
        // With several requests at once there are several connections, and no order of all entries.
        told.asks = K::PARAMETERS == Standard::PARAMETERS;
        told
    }
}

/// A server of a test's own.
struct Own {
    server: OwnServer,
    queue: OwnQueue,
}

#[async_trait]
impl ServerHarness for Own {
    const NAME: &'static str = "fauxqs, a server of its own";

    async fn start() -> Self {
        let server = own_server(None).await;
        let queue = OwnQueue::on(&address(&server), "").await;
        Self { server, queue }
    }

    fn sink(&self, timeouts: Timeouts) -> Arc<dyn Sink> {
        Arc::new(SqsSink::new(&self.queue.at(&timeouts.parameters())).unwrap())
    }

    async fn received(&self) -> Vec<EventId> {
        self.queue.ids().await
    }

    fn process(&self) -> Option<&OwnServer> {
        Some(&self.server)
    }

    /// Its queues are in memory.
    fn keeps(&self) -> bool {
        false
    }

    async fn start_again(&self) {
        self.server.restart().await;
        self.queue.again().await;
    }
}

pillarbox_conformance::server_conformance!(Own);

mod standard {
    use super::*;

    pillarbox_conformance::transport_conformance!(On<Standard>: sink, source, consumer, faults);
}

mod fifo {
    use super::*;

    pillarbox_conformance::transport_conformance!(On<Fifo>: sink, source, consumer, faults);
}

mod parallel {
    use super::*;

    pillarbox_conformance::transport_conformance!(On<Parallel>: faults);
}
