//! The suites for sinks, sources, consumers, transcripts and faults, on both servers.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

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
use pillarbox_transport_redis::{RedisSink, RedisSource, RedisTranscript};

use crate::harness::{OwnStream, REDIS, Server, Stored, VALKEY};

const HOUR: Duration = Duration::from_secs(3600);

/// Which server.
pub(crate) trait Kind: Send + Sync + 'static {
    const NAME: &'static str;
    const VARIABLE: &'static str;
}

pub(crate) struct Redis;

impl Kind for Redis {
    const NAME: &'static str = "redis";
    const VARIABLE: &'static str = REDIS;
}

pub(crate) struct Valkey;

impl Kind for Valkey {
    const NAME: &'static str = "valkey";
    const VARIABLE: &'static str = VALKEY;
}

/// A stream, and a proxy between the server and its consumers.
struct On<K> {
    place: OwnStream,
    sink: Arc<RedisSink>,
    proxy: FaultProxy,
    through: String,
    /// The sources that were made, to know which of them are gone.
    sources: Mutex<Vec<Weak<RedisSource>>>,
    kind: PhantomData<K>,
}

impl<K: Kind> On<K> {
    async fn new() -> Self {
        let place = OwnStream::new(K::VARIABLE).await;
        let sink = Arc::new(RedisSink::new(&place.to()).unwrap());
        let (proxy, through) = FaultProxy::before(&place.server);
        Self { place, sink, proxy, through, sources: Mutex::default(), kind: PhantomData }
    }

    fn source_of(&self, more: &str) -> Arc<dyn Source> {
        let url = self.place.from(more).replacen(&self.place.server, &self.through, 1);
        let source = Arc::new(RedisSource::new(&url).unwrap());
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
        self.sink.clone()
    }

    async fn received(&self) -> Vec<Received> {
        let received = |stored: Stored| Received {
            event_id: stored.text("ce-id").unwrap().parse().unwrap(),
            event_type: stored.text("ce-type").unwrap(),
            key: stored.text("ce-subject"),
            payload: stored.fields["data"].clone(),
        };
        self.place.stored().await.into_iter().map(received).collect()
    }

    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        let context = |stored: Stored| {
            let names = stored.fields.keys().filter(|name| *name != "data");
            let bare = |name: &String| {
                let bare = name.strip_prefix("ce-").or_else(|| name.strip_prefix("h-")).unwrap_or(name);
                (bare.to_owned(), stored.text(name).unwrap())
            };
            names.map(bare).collect()
        };
        Some(self.place.stored().await.into_iter().map(context).collect())
    }

    /// The stream of one type is none.
    async fn refusal(&self) -> Option<Refusal> {
        let other = format!("{}:none", self.place.stream);
        self.place.ask(&["SET", &other, "7"]).await.unwrap();
        let sink = RedisSink::new(&format!("{}?stream={{type}}", self.place.server)).unwrap();
        let of = |event_type: &str| Event::new(event_type, "{}");
        Some(Refusal { sink: Arc::new(sink), taken: of(&self.place.stream), refused: of(&other) })
    }
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
        self.source_of("&reclaim_after=5s")
    }

    fn source_with(&self, wanted: Wanted) -> Option<Arc<dyn Source>> {
        match wanted {
            Wanted::Ahead(entries) => Some(self.source_of(&format!("&reclaim_after=5s&prefetch={entries}"))),
            Wanted::GivenBackAtOnce => Some(self.source_of("&reclaim_after=1h")),
            Wanted::GivenBackLate | Wanted::NothingAgain => {
                Some(self.source_of("&reclaim_after=1h&nack_delay=1h"))
            }
            Wanted::UnansweredSoon => Some(self.source_of("&reclaim_after=200ms")),
            Wanted::Missing => {
                let url = format!("{}?stream=missing&group=none&create_group=false", self.place.server);
                Some(Arc::new(RedisSource::new(&url).unwrap()))
            }
            Wanted::Nobody => {
                Some(Arc::new(RedisSource::new("redis://127.0.0.1:1?stream=s&group=g").unwrap()))
            }
            _ => None,
        }
    }

    fn sink(&self) -> Option<Arc<dyn Sink>> {
        Some(self.sink.clone())
    }

    async fn publish(&self, message: Published) {
        // What the server sends to a consumer that has just gone comes again late, which is its right.
        self.settled().await;
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

    async fn parked(&self) -> Option<usize> {
        Some(self.place.stored_in(&format!("{}:parked", self.place.stream)).await.len())
    }

    async fn cut(&self) -> bool {
        self.proxy.set(Fault::Cut);
        true
    }

    async fn unanswered(&self) -> Option<usize> {
        Some(self.place.pending().await)
    }

    async fn settled(&self) {
        if self.sources.lock().unwrap().iter().all(|source| source.strong_count() == 0) {
            eventually(SOON, async || self.proxy.open() == 0).await;
        }
    }

    /// Let go of without waiting, they may still be on their way. Given back is what has waited for `reclaim_after`.
    async fn returned(&self, entries: usize) {
        eventually(SOON, async || {
            let waiting = self.place.waiting().await;
            waiting.len() == entries && waiting.iter().all(|waited| *waited >= HOUR)
        })
        .await;
    }

    async fn delete_group(&self) -> bool {
        self.place.ask(&["XGROUP", "DESTROY", &self.place.stream, "billing"]).await.unwrap();
        true
    }
}

#[async_trait]
impl<K: Kind> TranscriptHarness for On<K> {
    const NAME: &'static str = K::NAME;

    async fn start() -> Self {
        Self::new().await
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }

    fn transcripts(&self) -> Vec<Box<dyn Transcript>> {
        let of_sink = RedisTranscript::of_sink(&self.place.to(), &RouteName::new("orders").unwrap());
        vec![Box::new(of_sink.unwrap()), Box::new(RedisTranscript::new(&self.place.to()).unwrap())]
    }

    async fn publish_foreign(&self) {
        self.place.ask(&["XADD", &self.place.stream, "*", "price", "7"]).await.unwrap();
    }

    /// Nobody has written to it yet.
    fn missing(&self) -> Vec<Box<dyn Transcript>> {
        self.transcripts()
    }

    async fn keep(&self, entries: usize) -> bool {
        self.place.ask(&["XTRIM", &self.place.stream, "MAXLEN", &entries.to_string()]).await.unwrap();
        true
    }
}

#[async_trait]
impl<K: Kind> FaultHarness for On<K> {
    const NAME: &'static str = K::NAME;

    async fn start() -> Self {
        Self::new().await
    }

    fn server(&self) -> String {
        self.place.server.clone()
    }

    fn sink(&self, server: &str, timeouts: Timeouts) -> Arc<dyn Sink> {
        Arc::new(RedisSink::new(&self.place.with(server, timeouts)).unwrap())
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
    const NAME: &'static str = "redis, a server of its own";

    async fn start() -> Self {
        let server = Server::start("appendonly yes\nappendfsync always").await;
        let place = OwnStream::on(&server.url()).await;
        Self { server, place }
    }

    fn sink(&self, timeouts: Timeouts) -> Arc<dyn Sink> {
        Arc::new(RedisSink::new(&self.place.with(&self.place.server, timeouts)).unwrap())
    }

    async fn received(&self) -> Vec<EventId> {
        // The connection of before ended with the server.
        let again =
            OwnStream { stream: self.place.stream.clone(), ..OwnStream::on(&self.place.server).await };
        again.stored_ids().await
    }

    fn process(&self) -> Option<&OwnServer> {
        Some(&self.server)
    }
}

pillarbox_conformance::server_conformance!(Own);

mod on_redis {
    use super::*;

    pillarbox_conformance::transport_conformance!(On<Redis>: sink, source, consumer, transcript, faults);
}

mod on_valkey {
    use super::*;

    pillarbox_conformance::transport_conformance!(On<Valkey>: sink, source, consumer, transcript, faults);
}
