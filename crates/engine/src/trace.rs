//! Spans of relays and consumers, by OpenTelemetry's conventions for messaging.
//!
//! No span has a payload, a key or a tenant. Without a tracer, no span is made, and no message is looked at.

use std::future::Future;
use std::sync::Arc;

use pillarbox_core::{Entry, Error, EventId, Headers, Outcome, Received, RouteName};
use pillarbox_host::{Creation, Tracer};
use tracing::Span;
use tracing::field::Empty;

use crate::observe::Consumed;

tokio::task_local! {
    /// The tracer of the relay that delivers to handlers of this process.
    static OF_RELAY: Traces;
}

/// A tracer, or none.
#[derive(Clone, Default)]
pub(crate) struct Traces(Option<Arc<dyn Tracer>>);

/// What a span needs of a message.
pub(crate) type Message<'a> = (EventId, &'a Headers);

/// Where messages are, or go to: the system, and the name in it.
#[derive(Clone, Copy)]
pub(crate) struct Destination<'a> {
    pub(crate) system: &'static str,
    pub(crate) name: &'a str,
}

/// Makes a span for messages in a place. The name of the span in `tracing` is also `messaging.operation.type`.
macro_rules! span {
    ($type:literal, $kind:literal, $name:expr, $parent:expr, $place:expr, $messages:expr) => {{
        let (name, place, messages): (&'static str, Destination<'_>, &[Message<'_>]) = ($name, $place, $messages);
        let only = messages.first().filter(|_| messages.len() == 1);
        tracing::info_span!(
            target: "pillarbox::trace",
            parent: $parent,
            $type,
            otel.name = %format_args!("{name} {}", place.name),
            otel.kind = $kind,
            otel.status_code = Empty,
            messaging.system = place.system,
            messaging.destination.name = place.name,
            messaging.operation.name = name,
            "messaging.operation.type" = $type,
            messaging.message.id = only.map(|(event_id, _)| tracing::field::display(event_id)),
            // The conventions want a count for batches only.
            messaging.batch.message_count = only.is_none().then(|| i64::try_from(messages.len()).unwrap_or(i64::MAX)),
            messaging.consumer.group.name = Empty,
            pillarbox.outcome = Empty,
            "error.type" = Empty,
        )
    }};
}

impl Traces {
    pub(crate) fn new(tracer: impl Tracer + 'static) -> Self {
        Self(Some(Arc::new(tracer)))
    }

    /// The span of a delivery to a broker. It is a trace of its own, linked to the creation of each entry.
    pub(crate) fn send(&self, system: &'static str, route: &RouteName, entries: &[Entry]) -> Span {
        self.linked(
            || entries.iter().map(of_entry).collect(),
            |messages| {
                span!(
                    "send",
                    "client",
                    "publish",
                    None,
                    Destination { system, name: route.as_str() },
                    messages
                )
            },
        )
    }

    /// The span of a call that records outcomes in the store.
    pub(crate) fn settle<'a>(&self, route: &RouteName, entries: impl Iterator<Item = &'a Entry>) -> Span {
        let place = Destination { system: "pillarbox", name: route.as_str() };
        self.linked(
            || entries.map(of_entry).collect(),
            |messages| span!("settle", "client", "settle", None, place, messages),
        )
    }

    /// The span of a consumer that processes one message. The tracer decides how it is tied to the creation.
    pub(crate) fn process(&self, place: Destination<'_>, consumer: &str, event: &Received) -> Span {
        let span = self.processing(place, of_received(event));
        span.record("messaging.consumer.group.name", consumer);
        span
    }

    /// The span of a consumer that processes several messages at once. A span has one parent at most, so these are
    /// links, whatever the tracer does for one message.
    pub(crate) fn process_batch<'a>(
        &self,
        place: Destination<'_>,
        consumer: &str,
        events: impl Iterator<Item = &'a Received>,
    ) -> Span {
        let span = self.linked(
            || events.map(of_received).collect(),
            |messages| span!("process", "consumer", "process", None, place, messages),
        );
        span.record("messaging.consumer.group.name", consumer);
        span
    }

    /// The span of a consumer's answer to the broker, inside of the span that processed the messages.
    pub(crate) fn answer<'a>(
        &self,
        processed: &Span,
        place: Destination<'_>,
        name: &'static str,
        events: impl Iterator<Item = &'a Received>,
    ) -> Span {
        self.linked(
            || events.map(of_received).collect(),
            |messages| span!("settle", "client", name, processed, place, messages),
        )
    }

    /// Delivers to handlers of this process, whose spans then belong to this tracer.
    pub(crate) async fn scope<T>(&self, delivery: impl Future<Output = T>) -> T {
        match &self.0 {
            Some(_) => OF_RELAY.scope(self.clone(), delivery).await,
            None => delivery.await,
        }
    }

    /// The span of a handler that processes an entry for a relay with a tracer.
    pub(crate) fn handle(entry: &Entry) -> Span {
        let place = Destination { system: "pillarbox", name: entry.route.as_str() };
        OF_RELAY.try_with(|traces| traces.processing(place, of_entry(entry))).unwrap_or_else(|_| Span::none())
    }

    fn processing(&self, place: Destination<'_>, message: Message<'_>) -> Span {
        let Some(tracer) = &self.0 else { return Span::none() };
        let span = span!("process", "consumer", "process", None, place, &[message]);
        if !span.is_disabled()
            && let Some(creation) = Creation::of(message.0, message.1)
        {
            tracer.process(&span, creation);
        }
        span
    }

    fn linked<'m>(
        &self,
        messages: impl FnOnce() -> Vec<Message<'m>>,
        span: impl FnOnce(&[Message<'m>]) -> Span,
    ) -> Span {
        let Some(tracer) = &self.0 else { return Span::none() };
        let messages = messages();
        let span = span(&messages);
        if !span.is_disabled() {
            let creations =
                messages.iter().filter_map(|(event_id, headers)| Creation::of(*event_id, headers));
            creations.for_each(|creation| tracer.link(&span, creation));
        }
        span
    }
}

/// Notes what came of a delivery.
pub(crate) fn delivered(span: &Span, outcome: &Outcome) {
    if let Some(failure) = outcome.failure() {
        failed(span, failure.kind.as_str());
    }
}

/// Notes what a consumer did.
pub(crate) fn consumed(span: &Span, consumed: Consumed) {
    span.record("pillarbox.outcome", consumed.as_str());
    if matches!(consumed, Consumed::Failed | Consumed::Parked) {
        failed(span, consumed.as_str());
    }
}

/// Notes that the store refused.
pub(crate) fn refused(span: &Span, error: &Error) {
    failed(span, error.kind().as_str());
}

/// Notes a failure by its kind, which is one of a closed set.
pub(crate) fn failed(span: &Span, kind: &'static str) {
    span.record("otel.status_code", "ERROR");
    span.record("error.type", kind);
}

fn of_entry(entry: &Entry) -> Message<'_> {
    (entry.event_id, &entry.headers)
}

fn of_received(event: &Received) -> Message<'_> {
    (event.event_id, &event.headers)
}
