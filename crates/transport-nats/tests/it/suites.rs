//! The suites for sinks, sources, consumers, transcripts and faults, on both servers.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, Weak};

use async_nats::HeaderMap;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::Config;
use async_trait::async_trait;
use pillarbox_conformance::delivery::SOON;
use pillarbox_conformance::process::OwnServer;
use pillarbox_conformance::{
    FaultHarness, Received, Refusal, ServerHarness, SinkHarness, SourceHarness, Timeouts, TranscriptHarness,
    Wanted,
};
use pillarbox_core::port::{Sink, Source, Transcript};
use pillarbox_core::{Event, EventId, RouteName};
use pillarbox_testkit::{Fault, FaultProxy, Published, eventually};
use pillarbox_transport_nats::{NatsSink, NatsSource, NatsTranscript};

use crate::harness::{DEBIAN, JETSTREAM, LATEST, OwnStream, Server, atomic, variable};

/// Which server.
pub(crate) trait Version: Send + Sync + 'static {
    const NAME: &'static str;
    const VARIABLE: &'static str;
    /// Whether it remembers all of several that are given back while nobody asks. The older one forgets one of them until
    /// `ack_wait` is over.
    const REMEMBERS: bool;
    /// What its streams are made with.
    fn config(config: Config) -> Config;
}

pub(crate) struct Debian;

impl Version for Debian {
    const NAME: &'static str = "nats";
    const VARIABLE: &'static str = DEBIAN;
    const REMEMBERS: bool = false;

    fn config(config: Config) -> Config {
        config
    }
}

pub(crate) struct Latest;

impl Version for Latest {
    const NAME: &'static str = "nats-latest";
    const VARIABLE: &'static str = LATEST;
    const REMEMBERS: bool = true;

    fn config(config: Config) -> Config {
        atomic(config)
    }
}

/// A stream with a subject for what was parked, and a proxy between the server and its consumers.
struct On<V> {
    place: OwnStream,
    sink: Arc<NatsSink>,
    proxy: FaultProxy,
    through: String,
    /// The sources that were made, to know which of them are gone.
    sources: Mutex<Vec<Weak<NatsSource>>>,
    version: PhantomData<V>,
}

impl<V: Version> On<V> {
    async fn new() -> Self {
        let place = OwnStream::on(&variable(V::VARIABLE), V::config).await;
        let sink = Arc::new(NatsSink::new(&place.to()).unwrap());
        let (proxy, through) = FaultProxy::before(&place.server);
        Self { place, sink, proxy, through, sources: Mutex::default(), version: PhantomData }
    }

    fn source_of(&self, more: &str) -> Arc<dyn Source> {
        let (through, name) = (&self.through, &self.place.name);
        let url = format!("{through}/{name}.events.>?durable=billing&parked={name}.parked{more}");
        let source = Arc::new(NatsSource::new(&url).unwrap());
        self.sources.lock().unwrap().push(Arc::downgrade(&source));
        source
    }
}

#[async_trait]
impl<V: Version> SinkHarness for On<V> {
    fn name() -> &'static str {
        V::NAME
    }

    async fn start() -> Self {
        Self::new().await
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }

    async fn received(&self) -> Vec<Received> {
        let received = |message: StreamMessage| {
            let header = |name: &str| message.headers.get(name).map(ToString::to_string);
            Received {
                event_id: header("Nats-Msg-Id").unwrap().parse().unwrap(),
                event_type: header("ce-type").unwrap(),
                key: header("ce-subject"),
                payload: message.payload.to_vec(),
            }
        };
        self.place.stored().await.into_iter().map(received).collect()
    }

    /// Attributes and headers. What begins with `Nats-` is the server's own.
    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        let context = |message: StreamMessage| {
            let headers = message.headers.iter().filter(|(name, _)| !name.to_string().starts_with("Nats-"));
            let headers = headers.map(|(name, values)| match name.to_string().strip_prefix("ce-") {
                Some(attribute) => (attribute.to_owned(), percent_decoded(values[0].as_str())),
                None => (name.to_string(), values[0].to_string()),
            });
            headers.collect()
        };
        Some(self.place.stored().await.into_iter().map(context).collect())
    }

    /// The stream takes small messages only, of which the sink does not know.
    async fn refusal(&self) -> Option<Refusal> {
        let config = self.place.stream().await.cached_info().config.clone();
        self.place.context.update_stream(Config { max_message_size: 4096, ..config }).await.unwrap();
        let of = |payload: &[u8]| Event::new("sample.first", payload);
        Some(Refusal { sink: self.sink.clone(), taken: of(b"{}"), refused: of(&[b'x'; 4096]) })
    }
}

pub(crate) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, encoded)) = rest.split_once('%') {
        bytes.extend_from_slice(plain.as_bytes());
        bytes.push(u8::from_str_radix(&encoded[..2], 16).unwrap());
        rest = &encoded[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).unwrap()
}

#[async_trait]
impl<V: Version> SourceHarness for On<V> {
    fn name() -> &'static str {
        V::NAME
    }

    async fn start() -> Self {
        Self::new().await
    }

    fn source(&self) -> Arc<dyn Source> {
        self.source_of("&ack_wait=5s")
    }

    fn source_with(&self, wanted: Wanted) -> Option<Arc<dyn Source>> {
        match wanted {
            Wanted::Ahead(messages) => Some(self.source_of(&format!("&ack_wait=5s&prefetch={messages}"))),
            Wanted::GivenBackAtOnce => V::REMEMBERS.then(|| self.source_of("&nack_delay=0s&ack_wait=1h")),
            Wanted::GivenBackLate => Some(self.source_of("&nack_delay=1h&ack_wait=5s")),
            Wanted::NothingAgain => V::REMEMBERS.then(|| self.source_of("&nack_delay=1h&ack_wait=1h")),
            Wanted::UnansweredSoon => Some(self.source_of("&ack_wait=200ms")),
            Wanted::Missing => {
                let url = format!("{}/missing.>?stream=missing&durable=d", self.place.server);
                Some(Arc::new(NatsSource::new(&url).unwrap()))
            }
            Wanted::Nobody => Some(Arc::new(NatsSource::new("nats://127.0.0.1:1/orders?durable=d").unwrap())),
            _ => None,
        }
    }

    fn sink(&self) -> Option<Arc<dyn Sink>> {
        Some(self.sink.clone())
    }

    async fn publish(&self, message: Published) {
        // What the server sends to a consumer that has just gone comes again late, which is its right.
        self.settled().await;
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

    async fn parked(&self) -> Option<usize> {
        let subject = format!("{}.parked", self.place.name);
        let stored = self.place.stored().await;
        Some(stored.iter().filter(|message| message.subject.as_str() == subject).count())
    }

    async fn cut(&self) -> bool {
        self.proxy.set(Fault::Cut);
        true
    }

    async fn unanswered(&self) -> Option<usize> {
        let info = self.place.stream().await.consumer_info("billing").await;
        Some(info.map_or(0, |info| info.num_ack_pending))
    }

    async fn settled(&self) {
        if self.sources.lock().unwrap().iter().all(|source| source.strong_count() == 0) {
            eventually(SOON, async || self.proxy.open() == 0).await;
        }
    }

    async fn delete_group(&self) -> bool {
        self.place.stream().await.delete_consumer("billing").await.unwrap();
        true
    }

    fn returns_in_order(&self) -> bool {
        false
    }
}

/// As the binding says.
fn encoded(value: &str) -> String {
    let plain = |byte: &u8| (0x21..=0x7e).contains(byte) && !b"\"%".contains(byte);
    let encode = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(encode).collect()
}

#[async_trait]
impl<V: Version> TranscriptHarness for On<V> {
    const NAME: &'static str = V::NAME;

    async fn start() -> Self {
        Self::new().await
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }

    fn transcripts(&self) -> Vec<Box<dyn Transcript>> {
        let of_sink = NatsTranscript::of_sink(&self.place.to(), &RouteName::new("orders").unwrap());
        let all = NatsTranscript::new(&format!("{}/{}.>", self.place.server, self.place.name));
        vec![Box::new(of_sink.unwrap()), Box::new(all.unwrap())]
    }

    async fn publish_foreign(&self) {
        let subject = format!("{}.events.other", self.place.name);
        self.place.context.publish(subject, "7".into()).await.unwrap().await.unwrap();
    }

    fn missing(&self) -> Vec<Box<dyn Transcript>> {
        let OwnStream { server, name, .. } = &self.place;
        let urls = [format!("{server}/nobody.takes.{name}"), format!("{server}?stream=no-{name}")];
        urls.iter().map(|url| Box::new(NatsTranscript::new(url).unwrap()) as _).collect()
    }

    async fn keep(&self, messages: usize) -> bool {
        let messages = u64::try_from(messages).unwrap();
        self.place.stream().await.purge().keep(messages).await.unwrap();
        true
    }
}

#[async_trait]
impl<V: Version> FaultHarness for On<V> {
    const NAME: &'static str = V::NAME;

    async fn start() -> Self {
        Self::new().await
    }

    fn server(&self) -> String {
        self.place.server.clone()
    }

    fn sink(&self, server: &str, timeouts: Timeouts) -> Arc<dyn Sink> {
        Arc::new(NatsSink::new(&format!("{}?{}", self.place.via(server), timeouts.parameters())).unwrap())
    }

    async fn received(&self) -> Vec<EventId> {
        self.place.stored_ids().await
    }
}

/// A server of a test's own.
struct Own {
    server: Server,
    place: OwnStream,
}

#[async_trait]
impl ServerHarness for Own {
    const NAME: &'static str = "nats, a server of its own";

    async fn start() -> Self {
        let server = Server::start(JETSTREAM).await;
        let place = OwnStream::on(&server.url(), |config| config).await;
        Self { server, place }
    }

    fn sink(&self, timeouts: Timeouts) -> Arc<dyn Sink> {
        Arc::new(NatsSink::new(&format!("{}?{}", self.place.to(), timeouts.parameters())).unwrap())
    }

    async fn received(&self) -> Vec<EventId> {
        self.place.stored_ids().await
    }

    fn process(&self) -> Option<&OwnServer> {
        Some(&self.server)
    }
}

pillarbox_conformance::server_conformance!(Own);

mod debian {
    use super::*;

    pillarbox_conformance::transport_conformance!(On<Debian>: sink, source, consumer, transcript, faults);
}

mod latest {
    use super::*;

    pillarbox_conformance::transport_conformance!(On<Latest>: sink, source, consumer, transcript, faults);
}
