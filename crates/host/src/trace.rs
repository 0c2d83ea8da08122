//! The seam between the spans of Pillarbox and a tracing system that knows W3C trace contexts.
//!
//! Spans are made with `tracing`, which knows neither W3C contexts nor links between spans. A [`Tracer`] adds both. The
//! crate `pillarbox-otel` has one for OpenTelemetry. Without a tracer, Pillarbox makes no span at all.

use std::sync::Arc;

use pillarbox_core::{EventId, Headers, NewEntry, Result, RouteName, SagaId};
use tracing::Span;
use tracing::field::Empty;

/// The header that carries the trace.
pub(crate) const TRACEPARENT: &str = "traceparent";
/// The header beside it, for what the tracing system adds.
pub(crate) const TRACESTATE: &str = "tracestate";

/// A W3C trace context, as it travels in the headers of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceContext {
    /// Trace, span and flags, as the header `traceparent` has them.
    pub traceparent: String,
    /// What the tracing system adds, as the header `tracestate` has it.
    pub tracestate: Option<String>,
}

impl TraceContext {
    /// A context of this trace and span.
    pub fn new(traceparent: impl Into<String>) -> Self {
        Self { traceparent: traceparent.into(), tracestate: None }
    }

    /// Sets what the tracing system adds. An empty text is the same as none.
    #[must_use]
    pub fn tracestate(mut self, state: impl Into<String>) -> Self {
        self.tracestate = Some(state.into()).filter(|state| !state.is_empty());
        self
    }
}

/// The trace context that was stored with an event when it was staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Creation<'a> {
    /// The event's id.
    pub event_id: EventId,
    /// The stored `traceparent`. Any producer may have written it, so it may be no context at all.
    pub traceparent: &'a str,
    /// The stored `tracestate`.
    pub tracestate: Option<&'a str>,
}

impl<'a> Creation<'a> {
    /// The context in the headers of an event, if there is one.
    #[must_use]
    pub fn of(event_id: EventId, headers: &'a Headers) -> Option<Self> {
        let header = |wanted: &str| {
            let found = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.as_str())
        };
        Some(Self { event_id, traceparent: header(TRACEPARENT)?, tracestate: header(TRACESTATE) })
    }
}

/// What a tracing system does with the spans of Pillarbox.
///
/// The methods are called only for spans that a subscriber of `tracing` listens to. They must return at once.
pub trait Tracer: Send + Sync {
    /// The context of this span, to be stored with an event. `None`: the tracing system does not know the span.
    fn context(&self, span: &Span) -> Option<TraceContext>;

    /// Links this span to the context in which an event was created.
    fn link(&self, span: &Span, creation: Creation<'_>);

    /// Ties the span that processes one event to the context in which the event was created: as a link, or as the
    /// parent of the span.
    fn process(&self, span: &Span, creation: Creation<'_>);
}

/// Forwards every call to the shared value.
impl<T: Tracer + ?Sized> Tracer for Arc<T> {
    fn context(&self, span: &Span) -> Option<TraceContext> {
        (**self).context(span)
    }

    fn link(&self, span: &Span, creation: Creation<'_>) {
        (**self).link(span, creation);
    }

    fn process(&self, span: &Span, creation: Creation<'_>) {
        (**self).process(span, creation);
    }
}

/// Makes an entry inside of a span of its own, whose context is stored with the entry. `make` gets that context.
pub(crate) fn creating(
    tracer: &dyn Tracer,
    route: &RouteName,
    event_id: EventId,
    make: impl FnOnce(Option<TraceContext>) -> Result<NewEntry>,
) -> Result<NewEntry> {
    let span = span(route, Some(event_id), None);
    if span.is_disabled() {
        return make(None);
    }
    let made = make(tracer.context(&span));
    if let Err(error) = &made {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", error.kind().as_str());
    }
    made
}

/// The context that all entries of a new saga share.
pub(crate) fn creating_saga(tracer: &dyn Tracer, route: &RouteName, saga: SagaId) -> Option<TraceContext> {
    let span = span(route, None, Some(saga));
    if span.is_disabled() { None } else { tracer.context(&span) }
}

/// A span of the kind *create*, by OpenTelemetry's conventions for messaging. It is part of the caller's trace.
fn span(route: &RouteName, event_id: Option<EventId>, saga: Option<SagaId>) -> Span {
    tracing::info_span!(
        target: "pillarbox::trace",
        "create",
        otel.name = %format_args!("stage {route}"),
        otel.kind = "producer",
        otel.status_code = Empty,
        messaging.system = "pillarbox",
        messaging.destination.name = %route,
        messaging.operation.name = "stage",
        "messaging.operation.type" = "create",
        messaging.message.id = event_id.map(tracing::field::display),
        messaging.message.conversation_id = saga.map(tracing::field::display),
        "error.type" = Empty,
    )
}
