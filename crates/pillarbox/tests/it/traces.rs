//! Traces of a service that has everything in one process: an outbox, a relay with handlers, a consumer, a saga.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry::trace::{SpanId, Status, TracerProvider as _};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use pillarbox::otel::Otel;
use pillarbox::port::{Creation, Filter, TraceContext, Tracer};
use pillarbox::sink::{HandlerError, Handlers};
use pillarbox::sqlite::{Options, Outbox, SqliteStore};
use pillarbox::{Admin, Consumer, ConsumerOptions, Entry, Event, Reference, Relay, Saga, Step};
use pillarbox_testkit::MemoryBroker;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt as _;

const ROUTE: &str = "orders";

/// Keeps the spans that have ended.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

impl Kept {
    /// Listens to the spans of this thread.
    fn listen() -> (Self, SdkTracerProvider, DefaultGuard) {
        let kept = Self::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        (kept, provider, guard)
    }

    fn named(&self, name: &str) -> Vec<SpanData> {
        self.0.lock().unwrap().iter().filter(|span| span.name == name).cloned().collect()
    }

    #[track_caller]
    fn one(&self, name: &str) -> SpanData {
        let mut named = self.named(name);
        assert_eq!(named.len(), 1, "{name}: {:?}", self.0.lock().unwrap());
        named.remove(0)
    }
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.map(|attribute| attribute.value.to_string())
}

fn linked(span: &SpanData) -> Vec<SpanId> {
    span.links.iter().map(|link| link.span_context.span_id()).collect()
}

async fn store() -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("shop.db").display());
    let store = SqliteStore::connect(&url, Options::default()).await.unwrap();
    store.migrate().await.unwrap();
    (folder, store)
}

async fn stage(store: &SqliteStore, outbox: &Outbox, events: Vec<Event>) {
    let mut tx = store.begin().await.unwrap();
    outbox.stage_all(&mut tx, events).await.unwrap();
    outbox.commit(tx).await.unwrap();
}

async fn entries(store: &SqliteStore) -> Vec<Entry> {
    store.list(Filter::default().limit(100)).await.unwrap()
}

/// The handler makes a span of its own, and refuses what is not for it.
fn handlers() -> Handlers {
    let handler = async |handling: pillarbox::sink::Handling| {
        tracing::info_span!("send mail").in_scope(|| ());
        if handling.json::<u32>()? == 0 {
            return Err(HandlerError::reject("nobody", "there is nobody to write to"));
        }
        Ok(())
    };
    Handlers::new().on("mail.send", handler).unwrap()
}

async fn handled(otel: Otel) -> Kept {
    let (kept, _provider, _guard) = Kept::listen();
    let (_folder, store) = store().await;
    let outbox = Outbox::new(ROUTE).tracer(otel);
    {
        let _request = tracing::info_span!("request").entered();
        let mut tx = store.begin().await.unwrap();
        outbox.stage(&mut tx, Event::new("mail.send", "1")).await.unwrap();
        outbox.commit(tx).await.unwrap();
    }
    let relay = Relay::builder(store.clone(), handlers()).route(ROUTE).tracer(otel).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 1);
    assert!(kept.named("publish orders").is_empty(), "nothing was sent anywhere");
    kept
}

#[tokio::test]
async fn a_handler_processes_in_a_trace_of_its_own_with_a_link_to_the_creation() {
    let kept = handled(Otel::link()).await;
    let (request, create) = (kept.one("request"), kept.one("stage orders"));
    assert_eq!(create.parent_span_id, request.span_context.span_id());
    let process = kept.one("process orders");
    assert_eq!(linked(&process), [create.span_context.span_id()]);
    assert_eq!(process.parent_span_id, SpanId::INVALID);
    assert_ne!(process.span_context.trace_id(), create.span_context.trace_id());
    assert_eq!(kept.one("send mail").parent_span_id, process.span_context.span_id());
    assert_eq!(linked(&kept.one("settle orders")), [create.span_context.span_id()]);
}

#[tokio::test]
async fn a_handler_continues_the_trace_of_the_creation_if_it_is_told_to() {
    let kept = handled(Otel::parent()).await;
    let (create, process) = (kept.one("stage orders"), kept.one("process orders"));
    assert_eq!(process.parent_span_id, create.span_context.span_id());
    assert_eq!(process.span_context.trace_id(), create.span_context.trace_id());
    assert!(linked(&process).is_empty());
    assert_eq!(kept.one("send mail").span_context.trace_id(), create.span_context.trace_id());
}

#[tokio::test]
async fn a_handler_that_refuses_leaves_an_error_by_its_kind_without_its_words() {
    let (kept, _provider, _guard) = Kept::listen();
    let (_folder, store) = store().await;
    stage(&store, &Outbox::new(ROUTE).tracer(Otel::link()), vec![Event::new("mail.send", "0")]).await;
    let relay = Relay::builder(store, handlers()).route(ROUTE).tracer(Otel::link()).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().dead, 1);
    let process = kept.one("process orders");
    assert_eq!(attribute(&process, "error.type").as_deref(), Some("rejected"));
    assert!(matches!(process.status, Status::Error { .. }), "{:?}", process.status);
    assert!(!format!("{process:?}").contains("nobody to write to"));
}

#[tokio::test]
async fn a_batch_of_a_consumer_is_linked_to_every_creation_whatever_the_relation() {
    let (kept, _provider, _guard) = Kept::listen();
    let (_folder, store) = store().await;
    let outbox = Outbox::new(ROUTE).tracer(Otel::parent());
    stage(&store, &outbox, (0..3).map(|n| Event::new("t", n.to_string())).collect()).await;
    let broker = MemoryBroker::new();
    let relay =
        Relay::builder(store.clone(), broker.clone()).route(ROUTE).tracer(Otel::parent()).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 3);
    let consumer = Consumer::builder(broker.source(ROUTE), store.inbox())
        .name("billing")
        .options(ConsumerOptions::default().idle(Some(Duration::from_millis(200))))
        .batch(3, Duration::from_secs(5))
        .tracer(Otel::parent())
        .build()
        .unwrap();
    let tally = consumer.run_batches(pending(), async |_, _| Ok(())).await.unwrap();
    assert_eq!(tally.processed, 3);
    let mut created: Vec<SpanId> =
        kept.named("stage orders").iter().map(|span| span.span_context.span_id()).collect();
    created.sort_by_key(|id| id.to_bytes());
    for name in ["publish orders", "process orders", "ack orders"] {
        let span = kept.one(name);
        let mut links = linked(&span);
        links.sort_by_key(|id| id.to_bytes());
        assert_eq!(links, created, "{name}");
        assert_eq!(attribute(&span, "messaging.batch.message_count").as_deref(), Some("3"), "{name}");
        assert_eq!(attribute(&span, "messaging.message.id"), None, "{name}");
    }
    assert_eq!(kept.one("ack orders").parent_span_id, kept.one("process orders").span_context.span_id());
}

#[tokio::test]
async fn the_steps_of_a_saga_are_linked_to_the_creation_of_the_saga() {
    let (kept, _provider, _guard) = Kept::listen();
    let (_folder, store) = store().await;
    let outbox = Outbox::new(ROUTE).tracer(Otel::link());
    let saga = Saga::group("welcome", Reference::new("user", "7"))
        .step(Step::new("one", "mail.send"))
        .step(Step::new("two", "mail.send"))
        .build()
        .unwrap();
    let mut tx = store.begin().await.unwrap();
    let staged = outbox.stage_saga(&mut tx, saga).await.unwrap();
    outbox.commit(tx).await.unwrap();
    let create = kept.one("stage orders");
    let id = attribute(&create, "messaging.message.conversation_id").unwrap();
    assert!(format!("{staged:?}").contains(&id), "{staged:?} {id}");
    let handlers = Handlers::new().on("mail.send", async |_| Ok(())).unwrap();
    let relay = Relay::sagas(store.clone(), store.sagas(), handlers);
    let relay = relay.route(ROUTE).tracer(Otel::link()).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 2);
    let steps = kept.named("process orders");
    assert_eq!(steps.len(), 2);
    assert!(steps.iter().all(|step| linked(step) == [create.span_context.span_id()]), "{steps:?}");
}

/// Must not be called.
struct Unheard;

impl Tracer for Unheard {
    fn context(&self, _: &tracing::Span) -> Option<TraceContext> {
        panic!("nobody listens")
    }

    fn link(&self, _: &tracing::Span, _: Creation<'_>) {
        panic!("nobody listens")
    }

    fn process(&self, _: &tracing::Span, _: Creation<'_>) {
        panic!("nobody listens")
    }
}

#[tokio::test]
async fn while_nobody_listens_a_tracer_is_not_asked_and_nothing_is_stored() {
    // Other tests of this process listen on threads of their own.
    let deaf = tracing_subscriber::registry().with(tracing_subscriber::filter::LevelFilter::OFF);
    let _guard = tracing::subscriber::set_default(deaf);
    let (_folder, store) = store().await;
    stage(&store, &Outbox::new(ROUTE).tracer(Unheard), vec![Event::new("mail.send", "1")]).await;
    let own = Event::new("mail.send", "2")
        .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    stage(&store, &Outbox::new(ROUTE).tracer(Unheard), vec![own]).await;
    let relay = Relay::builder(store.clone(), handlers()).route(ROUTE).tracer(Unheard).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 2);
    let stored: Vec<bool> =
        entries(&store).await.iter().map(|entry| entry.headers.contains_key("traceparent")).collect();
    assert_eq!(stored.iter().filter(|has| **has).count(), 1, "{stored:?}");
}

#[tokio::test]
async fn what_is_no_context_is_no_link_and_stops_nothing() {
    let (kept, _provider, _guard) = Kept::listen();
    let (_folder, store) = store().await;
    let event = Event::new("mail.send", "1").header("traceparent", "canary");
    stage(&store, &Outbox::new(ROUTE).tracer(Otel::link()), vec![event]).await;
    let relay = Relay::builder(store.clone(), handlers()).route(ROUTE).tracer(Otel::link()).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 1);
    assert!(linked(&kept.one("process orders")).is_empty());
    assert_eq!(entries(&store).await[0].headers["traceparent"], "canary", "what is stored stays");
    assert!(!format!("{:?}", kept.0.lock().unwrap()).contains("canary"));
}
