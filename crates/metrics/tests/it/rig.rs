//! A store in memory, a sink, and metrics to read back.

use std::sync::Arc;

use pillarbox_core::Event;
use pillarbox_core::port::{Sink, Store};
use pillarbox_engine::{Relay, RelayBuilder};
use pillarbox_metrics::Metrics;
use pillarbox_testkit::{MemoryOutbox, MemoryStore};

/// A `traceparent`, and the trace id in it.
pub(crate) const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
pub(crate) const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

pub(crate) async fn stage(store: &MemoryStore, route: &str, event: Event) {
    let mut tx = store.begin();
    MemoryOutbox::new(store, route).stage(&mut tx, event).await.unwrap();
    tx.commit();
}

pub(crate) fn relay(
    store: &MemoryStore,
    sink: Arc<dyn Sink>,
    route: &str,
    metrics: &Metrics,
) -> RelayBuilder {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    Relay::builder(store, sink).route(route).owner("relay").seed(7).observer(metrics.route(route))
}

/// The value of a sample, by its name and labels as they are written.
pub(crate) fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find(|line| line.strip_prefix(sample).is_some_and(|rest| rest.starts_with(' ')));
    let line = line.unwrap_or_else(|| panic!("{sample} is not in:\n{text}"));
    line[sample.len() + 1..].split(' ').next().unwrap().parse().unwrap()
}
