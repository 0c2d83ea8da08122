//! The suites for sinks, sources, consumers and faults.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use pillarbox_conformance::delivery::SOON;
use pillarbox_conformance::process::OwnServer;
use pillarbox_conformance::{
    FaultHarness, Received, ServerHarness, SinkHarness, SourceHarness, Timeouts, Wanted,
};
use pillarbox_core::EventId;
use pillarbox_core::port::{Sink, Source};
use pillarbox_testkit::{Fault, FaultProxy, Published, eventually};
use pillarbox_transport_mqtt::{MqttSink, MqttSource};
use rumqttc::{Publish, PublishProperties};

use crate::harness::{DURABLE, OwnTopic, Server, property};

/// How a sink publishes.
pub(crate) trait Quality: Send + Sync + 'static {
    const NAME: &'static str;
    const PARAMETERS: &'static str;
}

pub(crate) struct AtLeastOnce;

impl Quality for AtLeastOnce {
    const NAME: &'static str = "mosquitto";
    const PARAMETERS: &'static str = "qos=1";
}

pub(crate) struct ExactlyOnce;

impl Quality for ExactlyOnce {
    const NAME: &'static str = "mosquitto, quality of service 2";
    const PARAMETERS: &'static str = "qos=2";
}

/// Topics, a topic for what was parked, and a proxy between the server and its consumers.
struct On<Q> {
    place: OwnTopic,
    sink: Arc<MqttSink>,
    proxy: FaultProxy,
    through: String,
    /// The sources that may run beside each other, so far.
    beside: AtomicUsize,
    /// The sources that were made, to know which of them are gone.
    sources: Mutex<Vec<Weak<MqttSource>>>,
    quality: std::marker::PhantomData<Q>,
}

impl<Q: Quality> On<Q> {
    async fn new() -> Self {
        let place = OwnTopic::new().await;
        let sink = Arc::new(MqttSink::new(&format!("{}?{}", place.to(), Q::PARAMETERS)).unwrap());
        let (proxy, through) = FaultProxy::before(&place.server);
        let (beside, sources) = (AtomicUsize::new(0), Mutex::default());
        Self { place, sink, proxy, through, beside, sources, quality: std::marker::PhantomData }
    }

    /// The session of the usual source exists before anything is published, as that of a consumer must.
    async fn with_session() -> Self {
        let on = Self::new().await;
        on.source_of(0, "").subscribe().await.unwrap().close().await;
        on.no_source().await;
        on
    }

    fn source_of(&self, member: usize, more: &str) -> Arc<dyn Source> {
        let OwnTopic { name, .. } = &self.place;
        let parked = format!("parked={name}/parked");
        let url = self.place.from(&member.to_string(), &format!("&{parked}{more}"));
        let url = url.replacen(&self.place.server, &self.through, 1);
        let source = Arc::new(MqttSource::new(&url).unwrap());
        self.sources.lock().unwrap().push(Arc::downgrade(&source));
        source
    }

    /// Waits until the server has closed the connections of sources that are gone.
    async fn no_source(&self) {
        if self.sources.lock().unwrap().iter().all(|source| source.strong_count() == 0) {
            eventually(SOON, async || self.proxy.open() == 0).await;
        }
    }
}

pub(crate) fn received(publish: &Publish) -> Received {
    Received {
        event_id: property(publish, "id").unwrap().parse().unwrap(),
        event_type: property(publish, "type").unwrap(),
        key: property(publish, "subject"),
        payload: publish.payload.to_vec(),
    }
}

pub(crate) fn context(publish: Publish) -> BTreeMap<String, String> {
    let properties = publish.properties.unwrap();
    let content_type = properties.content_type.map(|value| ("datacontenttype".to_owned(), value));
    properties.user_properties.into_iter().chain(content_type).collect()
}

#[async_trait]
impl<Q: Quality> SinkHarness for On<Q> {
    fn name() -> &'static str {
        Q::NAME
    }

    async fn start() -> Self {
        Self::new().await
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }

    async fn received(&self) -> Vec<Received> {
        self.place.listener.messages().await.iter().map(received).collect()
    }

    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        Some(self.place.listener.messages().await.into_iter().map(context).collect())
    }
}

#[async_trait]
impl SourceHarness for On<AtLeastOnce> {
    fn name() -> &'static str {
        AtLeastOnce::NAME
    }

    async fn start() -> Self {
        Self::with_session().await
    }

    fn source(&self) -> Arc<dyn Source> {
        self.source_of(0, "")
    }

    fn source_with(&self, wanted: Wanted) -> Option<Arc<dyn Source>> {
        match wanted {
            // Those that a case makes run beside each other, so each has a session of its own.
            Wanted::Ahead(messages) => {
                let member = self.beside.fetch_add(1, Ordering::Relaxed);
                Some(self.source_of(member, &format!("&prefetch={messages}")))
            }
            Wanted::GivenBackAtOnce => Some(self.source_of(0, "&nack_delay=0s")),
            Wanted::GivenBackLate => Some(self.source_of(0, "&nack_delay=1h")),
            // The next one takes over the session, with all that is unanswered in it.
            Wanted::UnansweredSoon => Some(self.source_of(0, "")),
            Wanted::Nobody => {
                Some(Arc::new(MqttSource::new("mqtt://127.0.0.1:1/orders?client_id=c").unwrap()))
            }
            _ => None,
        }
    }

    fn sink(&self) -> Option<Arc<dyn Sink>> {
        Some(self.sink.clone())
    }

    async fn publish(&self, message: Published) {
        // What the server sends to a consumer that has just gone is sent again, as a repetition.
        self.no_source().await;
        let mut user_properties: Vec<_> = message.attributes.into_iter().collect();
        user_properties.extend(message.headers);
        let properties = PublishProperties { user_properties, ..PublishProperties::default() };
        let topic = format!("{}/events/raw", self.place.name);
        self.place.listener.publish(&topic, message.body, properties).await;
    }

    async fn parked(&self) -> Option<usize> {
        let parked = format!("{}/parked", self.place.name);
        let messages = self.place.listener.messages().await;
        Some(messages.iter().filter(|publish| publish.topic == parked.as_bytes()).count())
    }

    async fn cut(&self) -> bool {
        self.proxy.set(Fault::Cut);
        true
    }

    async fn settled(&self) {
        self.no_source().await;
    }
}

#[async_trait]
impl<Q: Quality> FaultHarness for On<Q> {
    const NAME: &'static str = Q::NAME;

    async fn start() -> Self {
        Self::new().await
    }

    fn server(&self) -> String {
        self.place.server.clone()
    }

    fn sink(&self, server: &str, timeouts: Timeouts) -> Arc<dyn Sink> {
        // Messages of MQTT are small. A long source makes them as large as the suite's faults expect.
        let parameters =
            [Q::PARAMETERS, &timeouts.parameters(), &format!("source={}", "s".repeat(512))].join("&");
        let url = format!("{}?{}", self.place.via(server), parameters.replace("&&", "&"));
        Arc::new(MqttSink::new(&url).unwrap())
    }

    async fn received(&self) -> Vec<EventId> {
        self.place.listener.ids().await
    }
}

/// A server of a test's own.
struct Own {
    server: Server,
    place: OwnTopic,
}

#[async_trait]
impl ServerHarness for Own {
    const NAME: &'static str = "mosquitto, a server of its own";

    async fn start() -> Self {
        let server = Server::start(DURABLE).await;
        let place = OwnTopic::on(&server.url()).await;
        Self { server, place }
    }

    fn sink(&self, timeouts: Timeouts) -> Arc<dyn Sink> {
        Arc::new(MqttSink::new(&format!("{}?{}", self.place.to(), timeouts.parameters())).unwrap())
    }

    async fn received(&self) -> Vec<EventId> {
        self.place.listener.ids().await
    }

    fn process(&self) -> Option<&OwnServer> {
        Some(&self.server)
    }

    /// Mosquitto confirms a message before it saves it, so it keeps what it confirmed only if it may end in order.
    async fn kill(&self) {
        self.server.stop();
    }
}

pillarbox_conformance::server_conformance!(Own);

mod qos1 {
    use super::*;

    pillarbox_conformance::transport_conformance!(On<AtLeastOnce>: sink, source, consumer, faults);
}

mod qos2 {
    use super::*;

    pillarbox_conformance::transport_conformance!(On<ExactlyOnce>: sink, faults);
}
