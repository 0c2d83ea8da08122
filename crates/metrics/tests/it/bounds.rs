//! Labels are bounded, and no secret is in them.

use std::sync::Arc;

use pillarbox_core::port::{RouteCounts, SagaCounts};
use pillarbox_core::{Event, Outcome, RouteName, Status};
use pillarbox_metrics::{Metrics, NAMES_MAX, StoreSample};
use pillarbox_testkit::{MemorySink, MemoryStore, Reply, Which};

use crate::rig::{relay, stage, value};

#[test]
fn routes_beyond_the_limit_are_counted_together() {
    let metrics = Metrics::new();
    let counts = |n: usize| {
        let mut counts = RouteCounts::zero(RouteName::new(format!("route-{n}")).unwrap());
        counts.counts.insert(Status::Dead, 1);
        counts
    };
    let routes = (0..NAMES_MAX + 7).map(counts).collect();
    metrics.set_store(&StoreSample::new(routes, SagaCounts::zero(), vec![]));
    metrics.staged("one-more", 5);
    for n in 0..NAMES_MAX + 7 {
        drop(metrics.consumer(&format!("consumer-{n}")));
    }
    let text = metrics.encode();
    assert_eq!(value(&text, "pillarbox_entries{route=\"other\",status=\"dead\"}"), 7.0);
    assert_eq!(value(&text, "pillarbox_relays{route=\"other\"}"), 0.0);
    assert_eq!(value(&text, "pillarbox_staged_total{route=\"other\"}"), 5.0);
    let routes = text.lines().filter(|line| line.starts_with("pillarbox_relays{")).count();
    assert_eq!(routes, NAMES_MAX + 1);
    let consumers = text.lines().filter(|line| line.contains("outcome=\"processed\"")).count();
    assert_eq!(consumers, NAMES_MAX + 1);
}

#[tokio::test]
async fn planted_secrets_are_in_no_metric() {
    const CANARY: &str = "canary";
    let (store, sink, metrics) = (MemoryStore::new(), MemorySink::new(), Metrics::new());
    let event = Event::new("canary.type", "{\"card\":\"canary\"}").key("canary-key").header("auth", "canary");
    stage(&store, "orders", event).await;
    sink.on(Which::Any, Reply::Answer(Outcome::rejected("canary", "password=canary")));
    relay(&store, Arc::new(sink), "orders", &metrics)
        .owner("canary-host")
        .presence(store.clone())
        .build()
        .unwrap()
        .drain()
        .await
        .unwrap();
    metrics.set_store(&StoreSample::read(&store, &store, &store, []).await.unwrap());
    let text = metrics.encode();
    assert_eq!(value(&text, "pillarbox_entries{route=\"orders\",status=\"dead\"}"), 1.0);
    assert!(!text.contains(CANARY), "{text}");
}

#[test]
fn a_route_with_quotes_cannot_forge_a_sample() {
    let metrics = Metrics::new();
    metrics.staged("a\"} 1\\", 3);
    let text = metrics.encode();
    assert!(text.contains("pillarbox_staged_total{route=\"a\\\"} 1\\\\\"} 3"), "{text}");
    assert!(metrics.encode_plain().contains("pillarbox_staged_total{route=\"a\\\"} 1\\\\\"} 3"));
}

#[test]
fn only_an_application_that_counts_what_it_stages_shows_that_series() {
    let metrics = Metrics::new();
    drop(metrics.route("orders"));
    assert!(!metrics.encode().contains("pillarbox_staged_total{"), "a relay stages nothing");
    metrics.staged("orders", 0);
    assert_eq!(value(&metrics.encode(), "pillarbox_staged_total{route=\"orders\"}"), 0.0);
}
