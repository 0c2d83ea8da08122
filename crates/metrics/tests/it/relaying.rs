//! What a relay counts.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::{Event, Outcome};
use pillarbox_engine::{Observe, RelayOptions};
use pillarbox_metrics::Metrics;
use pillarbox_testkit::{MemorySink, MemoryStore, Reply, Which};

use crate::rig::{TRACE_ID, TRACEPARENT, relay, stage, value};

#[tokio::test]
async fn each_outcome_is_counted_once_it_is_recorded() {
    let (store, sink, metrics) = (MemoryStore::new(), MemorySink::new(), Metrics::new());
    for event_type in ["fine", "bad", "later"] {
        stage(&store, "orders", Event::new(event_type, "{}")).await;
    }
    sink.on(Which::Type("bad".into()), Reply::Answer(Outcome::rejected("no", "")));
    sink.on(Which::Type("later".into()), Reply::Answer(Outcome::failed("later", "")));
    let tally = relay(&store, Arc::new(sink), "orders", &metrics).build().unwrap().run_once().await.unwrap();
    assert_eq!((tally.delivered, tally.dead, tally.retried), (1, 1, 1));
    let text = metrics.encode();
    for (sample, wanted) in [
        ("pillarbox_claimed_total{route=\"orders\"}", 3.0),
        ("pillarbox_settled_total{route=\"orders\",outcome=\"delivered\"}", 1.0),
        ("pillarbox_settled_total{route=\"orders\",outcome=\"dead\"}", 1.0),
        ("pillarbox_settled_total{route=\"orders\",outcome=\"retried\"}", 1.0),
        ("pillarbox_settled_total{route=\"orders\",outcome=\"fenced\"}", 0.0),
        ("pillarbox_wait_seconds_count{route=\"orders\"}", 3.0),
        ("pillarbox_claim_duration_seconds_count{route=\"orders\"}", 1.0),
        ("pillarbox_publish_duration_seconds_count{route=\"orders\"}", 1.0),
        ("pillarbox_settle_duration_seconds_count{route=\"orders\"}", 1.0),
        ("pillarbox_in_flight{route=\"orders\"}", 0.0),
        ("pillarbox_circuit_open{route=\"orders\"}", 0.0),
    ] {
        assert_eq!(value(&text, sample), wanted, "{sample}");
    }
}

#[tokio::test]
async fn an_open_circuit_and_what_it_released_are_shown() {
    let (store, sink, metrics) = (MemoryStore::new(), MemorySink::new(), Metrics::new());
    stage(&store, "orders", Event::new("order.placed", "{}")).await;
    sink.on(Which::Any, Reply::Answer(Outcome::down("refused", "")));
    relay(&store, Arc::new(sink), "orders", &metrics).build().unwrap().drain().await.unwrap();
    let text = metrics.encode();
    assert_eq!(value(&text, "pillarbox_circuit_open{route=\"orders\"}"), 1.0);
    assert_eq!(value(&text, "pillarbox_settled_total{route=\"orders\",outcome=\"released\"}"), 1.0);
}

#[tokio::test]
async fn an_exemplar_has_the_trace_and_nothing_else_of_the_header() {
    let (store, sink, metrics) = (MemoryStore::new(), MemorySink::new(), Metrics::new());
    stage(&store, "orders", Event::new("a", "{}").header("traceparent", TRACEPARENT)).await;
    stage(&store, "hostile", Event::new("a", "{}").header("traceparent", "00-canary-secret-01")).await;
    for route in ["orders", "hostile"] {
        relay(&store, Arc::new(sink.clone()), route, &metrics).build().unwrap().drain().await.unwrap();
    }
    let text = metrics.encode();
    let with = |name: &str| text.lines().any(|line| line.starts_with(name) && line.contains(TRACE_ID));
    assert!(with("pillarbox_wait_seconds_bucket{") && with("pillarbox_publish_duration_seconds_bucket{"));
    assert!(!text.contains("canary"), "{text}");
    assert!(!metrics.encode_plain().contains(TRACE_ID));
}

#[tokio::test]
async fn the_lanes_of_an_ordered_relay_are_shown() {
    let (store, metrics) = (MemoryStore::new(), Metrics::new());
    stage(&store, "orders", Event::new("a", "{}").key("k")).await;
    let relay = pillarbox_engine::Relay::ordered(store.clone(), MemorySink::new())
        .route("orders")
        .observer(metrics.route("orders"));
    relay.build().unwrap().drain().await.unwrap();
    assert_eq!(value(&metrics.encode(), "pillarbox_lanes_held{route=\"orders\"}"), 64.0);
}

struct Panicking;

impl Observe for Panicking {
    fn claimed(&self, _: &[pillarbox_core::Entry], _: Duration) {
        panic!("an observer that fails");
    }
}

#[tokio::test]
async fn an_observer_that_panics_stops_nothing() {
    let (store, metrics) = (MemoryStore::new(), Metrics::new());
    stage(&store, "orders", Event::new("a", "{}")).await;
    let relay = relay(&store, Arc::new(MemorySink::new()), "orders", &metrics).observer(Panicking);
    let tally = relay.options(RelayOptions::broker()).build().unwrap().drain().await.unwrap();
    assert_eq!(tally.delivered, 1);
}
