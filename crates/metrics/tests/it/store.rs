//! What is shown of the store.

use std::sync::Arc;

use pillarbox_core::port::{Admin, PauseRequest, PauseTo, Presence};
use pillarbox_core::{Event, Outcome, RouteName};
use pillarbox_engine::Relay;
use pillarbox_metrics::{Metrics, NAMES_MAX, Pool, StoreSample};
use pillarbox_testkit::{MemorySink, MemoryStore, Reply, Which, eventually};

use crate::rig::{relay, stage, value};

async fn sample(store: &MemoryStore, configured: &[&str]) -> StoreSample {
    let configured: Vec<RouteName> = configured.iter().map(|name| RouteName::new(*name).unwrap()).collect();
    StoreSample::read(store, store, store, &configured).await.unwrap()
}

#[tokio::test]
async fn depth_age_pause_and_relays_are_shown_per_route() {
    let (store, metrics) = (MemoryStore::new(), Metrics::new());
    stage(&store, "orders", Event::new("a", "{}")).await;
    stage(&store, "orders", Event::new("bad", "{}")).await;
    let sink = MemorySink::new();
    sink.on(Which::Type("bad".into()), Reply::Answer(Outcome::rejected("no", "")));
    relay(&store, Arc::new(sink), "orders", &metrics).build().unwrap().drain().await.unwrap();
    stage(&store, "orders", Event::new("a", "{}")).await;
    let pause = PauseRequest {
        route: RouteName::new("orders").unwrap(),
        to: PauseTo::Paused,
        actor: "me".into(),
        reason: String::new(),
        now: None,
    };
    let _ = store.set_pause(pause).await.unwrap();
    let pool = Pool { open: 5, idle: 2, max: 10 };
    metrics.set_store(&sample(&store, &["orders", "empty"]).await.pool(Some(pool)));
    let text = metrics.encode();
    for (sample, wanted) in [
        ("pillarbox_entries{route=\"orders\",status=\"pending\"}", 1.0),
        ("pillarbox_entries{route=\"orders\",status=\"delivered\"}", 1.0),
        ("pillarbox_entries{route=\"orders\",status=\"dead\"}", 1.0),
        ("pillarbox_entries{route=\"empty\",status=\"dead\"}", 0.0),
        ("pillarbox_relays{route=\"orders\"}", 0.0),
        ("pillarbox_relays{route=\"empty\"}", 0.0),
        ("pillarbox_route_paused{route=\"orders\"}", 1.0),
        ("pillarbox_route_paused{route=\"empty\"}", 0.0),
        ("pillarbox_oldest_due_age_seconds{route=\"empty\"}", 0.0),
        ("pillarbox_pool_connections{state=\"busy\"}", 3.0),
        ("pillarbox_pool_connections{state=\"max\"}", 10.0),
        ("pillarbox_sagas{status=\"blocked\"}", 0.0),
        ("pillarbox_sagas_overdue{}", 0.0),
        ("pillarbox_store_up", 1.0),
    ] {
        assert_eq!(value(&text, sample), wanted, "{sample}");
    }
    assert!(value(&text, "pillarbox_oldest_due_age_seconds{route=\"orders\"}") >= 0.0);
}

#[tokio::test]
async fn entries_behind_a_dead_head_are_shown_as_blocked() {
    let (store, sink, metrics) = (MemoryStore::new(), MemorySink::new(), Metrics::new());
    stage(&store, "orders", Event::new("bad", "{}").key("k")).await;
    stage(&store, "orders", Event::new("a", "{}").key("k")).await;
    sink.on(Which::Type("bad".into()), Reply::Answer(Outcome::rejected("no", "")));
    let relay = Relay::ordered(store.clone(), sink).route("orders").presence(store.clone());
    relay.build().unwrap().drain().await.unwrap();
    metrics.set_store(&sample(&store, &[]).await);
    let text = metrics.encode();
    assert_eq!(value(&text, "pillarbox_blocked_entries{route=\"orders\"}"), 1.0);
    assert_eq!(value(&text, "pillarbox_entries{route=\"orders\",status=\"blocked\"}"), 1.0);
}

#[tokio::test]
async fn a_running_relay_whose_destination_is_down_is_shown() {
    let (store, sink, metrics) = (MemoryStore::new(), MemorySink::new(), Metrics::new());
    stage(&store, "orders", Event::new("a", "{}")).await;
    sink.on(Which::Any, Reply::Answer(Outcome::down("refused", "")));
    let presence: Arc<dyn Presence> = Arc::new(store.clone());
    let relay = relay(&store, Arc::new(sink), "orders", &metrics).presence(presence).build().unwrap();
    let seen = eventually(std::time::Duration::from_secs(30), async || {
        metrics.set_store(&sample(&store, &[]).await);
        let text = metrics.encode();
        let shown = |name: &str| value(&text, &format!("{name}{{route=\"orders\"}}"));
        shown("pillarbox_relays") == 1.0 && shown("pillarbox_relays_down") == 1.0
    });
    tokio::select! {
        _ = relay.run(std::future::pending()) => panic!("the relay ended"),
        () = seen => {}
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_read_shows_no_old_values() {
    let (store, metrics) = (MemoryStore::new(), Metrics::new());
    stage(&store, "orders", Event::new("a", "{}")).await;
    metrics.set_store(&sample(&store, &[]).await);
    metrics.lose_store();
    let text = metrics.encode();
    assert_eq!(value(&text, "pillarbox_store_up"), 0.0);
    assert!(!text.contains("pillarbox_entries{"), "{text}");
    assert!(!text.contains("pillarbox_sagas_overdue{"), "{text}");
}

#[tokio::test]
async fn what_consumers_of_any_process_accept_is_shown_with_bounded_labels() {
    let (store, metrics) = (MemoryStore::new(), Metrics::new());
    let accepted = (0..NAMES_MAX + 5).map(|n| (format!("c{n:03}"), 0.5)).collect();
    metrics.set_store(&sample(&store, &[]).await.accepted(accepted));
    let text = metrics.encode();
    let shown = |consumer: &str| {
        value(&text, &format!("pillarbox_inbox_accepted_per_second{{consumer=\"{consumer}\"}}"))
    };
    assert_eq!((shown("c000"), shown("other")), (0.5, 2.5));
    metrics.set_store(&sample(&store, &[]).await);
    assert!(!metrics.encode().contains("pillarbox_inbox_accepted_per_second{"), "what is over is gone");
}
