//! The suites for sinks, sources, consumers, transcripts and faults, on every kind of queue that they fit.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, ExchangeKind};
use pillarbox_conformance::delivery::SOON;
use pillarbox_conformance::process::OwnServer;
use pillarbox_conformance::{
    FaultHarness, Received, ServerHarness, SinkHarness, SourceHarness, Timeouts, Told, TranscriptHarness,
    Wanted,
};
use pillarbox_core::port::{Sink, Source, Transcript};
use pillarbox_core::{EventId, RouteName};
use pillarbox_testkit::{Fault, FaultProxy, Published, eventually};
use pillarbox_transport_amqp::{AmqpSink, AmqpSource, AmqpTranscript, Options};

use crate::harness::{Broker, header, server};
use crate::outage::Killed;

/// A kind of queue.
trait Kind: Send + Sync + 'static {
    const NAME: &'static str;
    const TYPE: &'static str;
}

struct Classic;

impl Kind for Classic {
    const NAME: &'static str = "amqp, classic queue";
    const TYPE: &'static str = "classic";
}

struct Quorum;

impl Kind for Quorum {
    const NAME: &'static str = "amqp, quorum queue";
    const TYPE: &'static str = "quorum";
}

struct Stream;

impl Kind for Stream {
    const NAME: &'static str = "amqp, stream";
    const TYPE: &'static str = "stream";
}

/// A message, and its attributes and headers.
type Arrived = (Received, BTreeMap<String, String>);

/// A queue, with dead letters unless it is a stream, and a proxy between the broker and its consumers.
struct On<K> {
    broker: Broker,
    queue: String,
    dead_letters: String,
    proxy: FaultProxy,
    through: String,
    /// What was taken out of the queue so far.
    taken: Mutex<Vec<Arrived>>,
    /// The sources that were made, to know which of them are gone.
    sources: Mutex<Vec<Weak<AmqpSource>>>,
    kind: PhantomData<K>,
}

impl<K: Kind> On<K> {
    async fn new() -> Self {
        let broker = Broker::start().await;
        let exchange = broker.exchange(ExchangeKind::Fanout).await;
        let dead_letters = broker.named_queue("dead", "classic", &[]).await;
        broker.bind(&dead_letters, &exchange, "").await;
        let to = [("x-dead-letter-exchange", AMQPValue::LongString(exchange.as_str().into()))];
        let arguments = if K::TYPE == "stream" { &[] } else { &to[..] };
        let queue = broker.queue(K::TYPE, arguments).await;
        let (proxy, through) = FaultProxy::before(&server());
        let (taken, sources) = (Mutex::default(), Mutex::default());
        Self { broker, queue, dead_letters, proxy, through, taken, sources, kind: PhantomData }
    }

    /// The URL of a sink to the queue.
    fn to(&self, server: &str) -> String {
        format!("{server}?routing_key={}", self.queue)
    }

    /// What arrived: of a stream everything, of a queue what was taken before as well.
    async fn arrived(&self) -> Vec<Arrived> {
        let read = |delivery: Delivery| (received(&delivery), context(&delivery));
        if K::TYPE == "stream" {
            return self.broker.read_stream(&self.queue).await.into_iter().map(read).collect();
        }
        let fresh = self.broker.take(&self.queue).await;
        let mut taken = self.taken.lock().unwrap();
        taken.extend(fresh.into_iter().map(read));
        taken.clone()
    }

    fn source_of(&self, more: &str) -> Arc<dyn Source> {
        let url = format!("{}?queue={}&queue_type={}{more}", self.through, self.queue, K::TYPE);
        let source = Arc::new(AmqpSource::new(&url).unwrap());
        self.sources.lock().unwrap().push(Arc::downgrade(&source));
        source
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
        let options = Options::of_sink(&self.to(&server())).unwrap().payload_bytes_max(100_000);
        Arc::new(AmqpSink::with_options(options).unwrap())
    }

    async fn received(&self) -> Vec<Received> {
        self.arrived().await.into_iter().map(|(received, _)| received).collect()
    }

    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        Some(self.arrived().await.into_iter().map(|(_, context)| context).collect())
    }
}

fn received(delivery: &Delivery) -> Received {
    let attribute = |name: &str| header(delivery, &format!("cloudEvents:{name}"));
    Received {
        event_id: attribute("id").unwrap().parse().unwrap(),
        event_type: attribute("type").unwrap(),
        key: attribute("subject"),
        payload: delivery.data.clone(),
    }
}

/// Attributes and headers of a message. What begins with `x-` is the broker's own.
fn context(delivery: &Delivery) -> BTreeMap<String, String> {
    let content_type = delivery.properties.content_type().as_ref().map(ToString::to_string);
    let headers = delivery.properties.headers().clone().unwrap_or_default();
    let text = |value: &AMQPValue| value.as_long_string().map(ToString::to_string);
    let headers = headers.inner().iter().filter_map(|(name, value)| {
        let name = name.as_str();
        Some((name.strip_prefix("cloudEvents:").unwrap_or(name).to_owned(), text(value)?))
    });
    let headers = headers.filter(|(name, _)| !name.starts_with("x-"));
    headers.chain(content_type.map(|value| ("datacontenttype".to_owned(), value))).collect()
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
        self.source_of("")
    }

    fn source_with(&self, wanted: Wanted) -> Option<Arc<dyn Source>> {
        match wanted {
            Wanted::Ahead(messages) => Some(self.source_of(&format!("&prefetch={messages}"))),
            Wanted::GivenBackAtOnce => Some(self.source_of("")),
            Wanted::Missing => {
                Some(Arc::new(AmqpSource::new(&format!("{}?queue=missing", server())).unwrap()))
            }
            Wanted::Nobody => Some(Arc::new(AmqpSource::new("amqp://127.0.0.1:1/?queue=q").unwrap())),
            _ => None,
        }
    }

    fn sink(&self) -> Option<Arc<dyn Sink>> {
        Some(Arc::new(AmqpSink::new(&self.to(&server())).unwrap()))
    }

    async fn publish(&self, message: Published) {
        let mut headers = FieldTable::default();
        let mut add = |name: String, value: String| {
            headers.insert(ShortString::from(name), AMQPValue::LongString(LongString::from(value)));
        };
        let mut properties = BasicProperties::default();
        for (name, value) in message.attributes {
            if name == "datacontenttype" {
                properties = properties.with_content_type(value.as_str().into());
            } else {
                add(format!("cloudEvents:{name}"), value);
            }
        }
        message.headers.into_iter().for_each(|(name, value)| add(name, value));
        self.broker.publish(&self.queue, properties.with_headers(headers), &message.body).await;
    }

    async fn left(&self) -> Option<usize> {
        usize::try_from(self.broker.waiting(&self.queue).await).ok()
    }

    async fn parked(&self) -> Option<usize> {
        usize::try_from(self.broker.waiting(&self.dead_letters).await).ok()
    }

    async fn cut(&self) -> bool {
        self.proxy.set(Fault::Cut);
        true
    }

    async fn settled(&self) {
        if self.sources.lock().unwrap().iter().all(|source| source.strong_count() == 0) {
            eventually(SOON, async || self.proxy.open() == 0).await;
        }
    }
}

#[async_trait]
impl<K: Kind> FaultHarness for On<K> {
    const NAME: &'static str = K::NAME;

    async fn start() -> Self {
        Self::new().await
    }

    fn server(&self) -> String {
        server()
    }

    fn sink(&self, server: &str, timeouts: Timeouts) -> Arc<dyn Sink> {
        Arc::new(AmqpSink::new(&format!("{}&{}", self.to(server), timeouts.parameters())).unwrap())
    }

    async fn received(&self) -> Vec<EventId> {
        self.arrived().await.into_iter().map(|(received, _)| received.event_id).collect()
    }

    fn told(&self) -> Told {
        let mut told = Told::default();
        // It asks the broker before it gives up waiting.
        told.withheld = "down/no_answer";
        told.unreachable = "down/connection_lost";
        told.names_server = false;
        told.connections_max = 1;
        told
    }
}

#[async_trait]
impl TranscriptHarness for On<Stream> {
    const NAME: &'static str = Stream::NAME;

    async fn start() -> Self {
        Self::new().await
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(AmqpSink::new(&self.to(&server())).unwrap())
    }

    fn transcripts(&self) -> Vec<Box<dyn Transcript>> {
        let of_sink = AmqpTranscript::of_sink(&self.to(&server()), &RouteName::new("orders").unwrap());
        let own = AmqpTranscript::new(&format!("{}?queue={}", server(), self.queue));
        vec![Box::new(of_sink.unwrap()), Box::new(own.unwrap())]
    }

    async fn publish_foreign(&self) {
        self.broker.publish(&self.queue, BasicProperties::default(), b"7").await;
    }

    fn missing(&self) -> Vec<Box<dyn Transcript>> {
        let url = format!("{}?queue={}", server(), self.broker.name("nowhere"));
        vec![Box::new(AmqpTranscript::new(&url).unwrap())]
    }

    fn tells_total(&self) -> bool {
        false
    }
}

/// With a classic queue: a quorum queue of a single member confirmed nothing after its node had been killed (RabbitMQ 3.10).
struct Own(Killed);

#[async_trait]
impl ServerHarness for Own {
    const NAME: &'static str = "amqp, a node of its own";

    async fn start() -> Self {
        Self(Killed::new("classic", 1, vec![0]).await)
    }

    fn sink(&self, timeouts: Timeouts) -> Arc<dyn Sink> {
        self.0.sink(&timeouts.parameters())
    }

    async fn received(&self) -> Vec<EventId> {
        self.0.received().await
    }

    fn process(&self) -> Option<&OwnServer> {
        None
    }

    async fn kill(&self) {
        self.0.kill();
    }

    async fn start_again(&self) {
        self.0.restart().await;
    }
}

pillarbox_conformance::server_conformance!(Own);

mod classic {
    use super::*;

    pillarbox_conformance::transport_conformance!(On<Classic>: sink, source, consumer, faults);
}

mod quorum {
    use super::*;

    pillarbox_conformance::transport_conformance!(On<Quorum>: sink, source, consumer, faults);
}

mod stream {
    use super::*;

    pillarbox_conformance::transport_conformance!(On<Stream>: sink, transcript);
}
