//! Traces of Pillarbox with OpenTelemetry.
//!
//! [`Otel`] is the [`Tracer`] of outboxes, relays and consumers. It needs the layer of `tracing-opentelemetry` in the
//! subscriber of the process: without it, and without any other subscriber that listens to the target
//! `pillarbox::trace`, no span is made. The application chooses the exporter.
//!
//! Spans follow the conventions of OpenTelemetry for messaging:
//!
//! | span | made by | tied to |
//! |---|---|---|
//! | `stage ROUTE` (create) | an outbox, for each event | the current span, as its child; its context is stored with the event |
//! | `publish ROUTE` (send) | a relay, for each delivery to a broker | the stored context of each entry, by links |
//! | `settle ROUTE` (settle) | a relay, for each call that records outcomes | the stored context of each entry, by links |
//! | `process QUEUE` (process) | a consumer, for each message or batch; handlers, for each entry | the stored context: by a link, or as its parent |
//! | `ack QUEUE` (settle) | a consumer, for its answer to the broker | the *process* span, as its child; the stored context, by a link |
//!
//! ```
//! use opentelemetry::trace::TracerProvider as _;
//! use opentelemetry_sdk::trace::SdkTracerProvider;
//! use pillarbox_engine::{Relay, sink::NullSink};
//! use pillarbox_otel::Otel;
//! use pillarbox_testkit::MemoryStore;
//! use tracing_subscriber::layer::SubscriberExt as _;
//!
//! // The exporter is up to the application: `.with_batch_exporter(…)`.
//! let provider = SdkTracerProvider::builder().build();
//! let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
//! let subscriber = tracing_subscriber::registry().with(layer);
//! # tracing::subscriber::with_default(subscriber, || {
//! let relay = Relay::builder(MemoryStore::new(), NullSink).route("orders").tracer(Otel::link()).build()?;
//! # drop(relay);
//! # Ok::<(), pillarbox_core::Error>(())
//! # }).unwrap();
//! ```

mod w3c;

use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry::{Context, KeyValue};
use pillarbox_host::{Creation, TraceContext, Tracer};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The tracer for OpenTelemetry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Otel {
    relation: Relation,
}

/// How a *process* span is tied to the creation of its event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Relation {
    #[default]
    Link,
    Parent,
}

impl Otel {
    /// A *process* span begins a trace of its own, with a link to the context in which the event was created. This is
    /// what the conventions recommend, and the default.
    #[must_use]
    pub const fn link() -> Self {
        Self { relation: Relation::Link }
    }

    /// A *process* span continues the trace in which the event was created, as a child of its *create* span. Producer
    /// and consumer are then one trace, which may be large and may take days. A batch keeps its links, because a
    /// span has one parent at most.
    #[must_use]
    pub const fn parent() -> Self {
        Self { relation: Relation::Parent }
    }
}

impl Tracer for Otel {
    fn context(&self, span: &Span) -> Option<TraceContext> {
        let context = span.context();
        let span = context.span();
        Some(span.span_context()).filter(|span| span.is_valid()).map(w3c::write)
    }

    fn link(&self, span: &Span, creation: Creation<'_>) {
        if let Some(context) = w3c::read(creation) {
            span.add_link_with_attributes(context, message_id(creation));
        }
    }

    fn process(&self, span: &Span, creation: Creation<'_>) {
        match (self.relation, w3c::read(creation)) {
            (Relation::Link, Some(context)) => {
                span.add_link_with_attributes(context, message_id(creation));
            }
            (Relation::Parent, Some(context)) => under(span, context),
            (_, None) => {}
        }
    }
}

/// Makes a context the parent of a span. A span that has begun, or that OpenTelemetry does not know, keeps the parent
/// that it has.
fn under(span: &Span, parent: SpanContext) {
    let _ = span.set_parent(Context::new().with_remote_span_context(parent));
}

/// The conventions put what is about one message of many on the link to it.
fn message_id(creation: Creation<'_>) -> Vec<KeyValue> {
    vec![KeyValue::new("messaging.message.id", creation.event_id.to_string())]
}

/// Makes the context in the text of a W3C `traceparent` the parent of this span, as far as it is one. A program that
/// another one has started finds it in its environment as `TRACEPARENT`.
pub fn adopt(span: &Span, traceparent: &str, tracestate: Option<&str>) {
    if let Some(context) = w3c::parse(traceparent, tracestate) {
        under(span, context);
    }
}
