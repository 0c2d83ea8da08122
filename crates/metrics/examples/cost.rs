//! What metrics cost a relay: drains of a store in memory with and without them, in turns.
//!
//! The store and the sink cost next to nothing here, so this is the worst case. Only the ratio is a claim.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that prints what it measured")]

use std::time::{Duration, Instant};

use pillarbox_core::Event;
use pillarbox_engine::{Relay, sink::NullSink};
use pillarbox_metrics::Metrics;
use pillarbox_testkit::{MemoryOutbox, MemoryStore};

const EVENTS: usize = 50_000;
const ROUNDS: usize = 11;
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn drained(metrics: Option<&Metrics>) -> Duration {
    let store = MemoryStore::new();
    let outbox = MemoryOutbox::new(&store, "orders");
    let mut tx = store.begin();
    for _ in 0..EVENTS {
        outbox.stage(&mut tx, Event::new("order.placed", "{}").header("traceparent", TRACE)).await.unwrap();
    }
    tx.commit();
    let builder = Relay::builder(store, NullSink).route("orders").without_retention();
    let relay = match metrics {
        Some(metrics) => builder.observer(metrics.route("orders")),
        None => builder,
    };
    let relay = relay.build().unwrap();
    let started = Instant::now();
    assert_eq!(relay.drain().await.unwrap().delivered, u64::try_from(EVENTS).unwrap());
    started.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let metrics = Metrics::new();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(drained(None).await);
        with.push(drained(Some(&metrics)).await);
    }
    let (with, without) = (median(with), median(without));
    let micros = (with - without) * 1e6 / f64::from(u32::try_from(EVENTS).unwrap());
    println!(
        "without {without:.3} s, with {with:.3} s: ratio {:.3}, {micros:.2} µs an entry",
        with / without
    );
}
