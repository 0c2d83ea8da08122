//! Handing events to a webhook, signed as a relay signs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pillarbox_core::port::{Report, Sink};
use pillarbox_core::{Entry, Outcome, Received, Result, RouteName, Timestamp};
use pillarbox_engine::sink::HandlerError;

use crate::destination::Webhook;

/// Most sources of events whose sinks are kept.
const SOURCES_MAX: usize = 64;

/// One webhook. The source of an event is part of what is signed, so there is a sink for each.
pub(super) struct Hooks {
    url: String,
    webhook: Webhook,
    sinks: Mutex<BTreeMap<String, Arc<dyn Sink>>>,
}

impl Hooks {
    pub(super) fn new(url: &str, webhook: Webhook) -> Self {
        Self { url: url.to_owned(), webhook, sinks: Mutex::default() }
    }

    pub(super) async fn hand_over(&self, event: Received) -> Result<(), HandlerError> {
        let sink = self.sink(&event.source)?;
        let batch = [entry(event)?];
        let told = One::default();
        sink.deliver(&batch, &told).await;
        let outcome = told.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match outcome {
            Some(Outcome::Confirmed) => Ok(()),
            Some(Outcome::Rejected(failure)) => Err(HandlerError::reject(failure.code(), failure.text())),
            Some(Outcome::Failed { failure, retry_after: Some(wait) }) => {
                Err(HandlerError::retry_after(wait, failure.code(), failure.text()))
            }
            Some(outcome) => match outcome.failure() {
                Some(failure) => Err(HandlerError::retry(failure.code(), failure.text())),
                None => Err(HandlerError::retry("no_outcome", "the webhook was not called")),
            },
            None => {
                Err(HandlerError::retry("no_outcome", "the webhook did not say what became of the event"))
            }
        }
    }

    fn sink(&self, source: &str) -> Result<Arc<dyn Sink>> {
        let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sink) = sinks.get(source) {
            return Ok(Arc::clone(sink));
        }
        let webhook = Webhook { source: Some(source.to_owned()), ..self.webhook.clone() };
        let sink = webhook.sink(&self.url)?;
        if sinks.len() >= SOURCES_MAX {
            sinks.clear();
        }
        sinks.insert(source.to_owned(), Arc::clone(&sink));
        Ok(sink)
    }
}

/// The event as a sink takes it.
fn entry(event: Received) -> Result<Entry> {
    let created_at = event.occurred_at.unwrap_or(Timestamp::MIN);
    // Routes are not part of an envelope; a template of the URL may name one.
    let route = RouteName::new("consume")?;
    let mut entry = Entry::new(0, event.event_id, route, event.event_type, created_at);
    entry.key = event.key;
    entry.payload = event.payload;
    entry.content_type = event.content_type;
    entry.headers = event.headers;
    entry.tenant = event.tenant;
    entry.correlation_id = event.correlation_id;
    entry.causation_id = event.causation_id;
    entry.execution_id = event.execution_id;
    entry.occurred_at = event.occurred_at;
    entry.hlc = event.hlc;
    Ok(entry)
}

#[derive(Default)]
struct One(Mutex<Option<Outcome>>);

impl Report for One {
    fn outcome(&self, _: usize, outcome: Outcome) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(outcome);
    }
}
