//! What traces cost a relay: drains of a store in memory without a tracer, with one that nobody listens to, and with
//! spans that are made and thrown away.
//!
//! The store and the sink cost next to nothing here, so this is the worst case. Only the ratios are a claim.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that prints what it measured")]

use std::time::{Duration, Instant};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::SdkTracerProvider;
use pillarbox_core::Event;
use pillarbox_engine::{Relay, sink::NullSink};
use pillarbox_otel::Otel;
use pillarbox_testkit::{MemoryOutbox, MemoryStore};
use tracing_subscriber::layer::SubscriberExt as _;

const EVENTS: u32 = 50_000;
const ROUNDS: usize = 11;
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[derive(Clone, Copy)]
enum Traced {
    Not,
    Unheard,
    Heard,
}

async fn drained(traced: Traced) -> Duration {
    let store = MemoryStore::new();
    let outbox = MemoryOutbox::new(&store, "orders");
    let mut tx = store.begin();
    for _ in 0..EVENTS {
        outbox.stage(&mut tx, Event::new("order.placed", "{}").header("traceparent", TRACE)).await.unwrap();
    }
    tx.commit();
    let builder = Relay::builder(store, NullSink).route("orders").without_retention();
    let relay = match traced {
        Traced::Not => builder,
        Traced::Unheard | Traced::Heard => builder.tracer(Otel::link()),
    };
    let relay = relay.build().unwrap();
    let provider = SdkTracerProvider::builder().with_max_links_per_span(10_000).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("cost"));
    let _listens = matches!(traced, Traced::Heard)
        .then(|| tracing::subscriber::set_default(tracing_subscriber::registry().with(layer)));
    let started = Instant::now();
    assert_eq!(relay.drain().await.unwrap().delivered, u64::from(EVENTS));
    started.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (mut without, mut unheard, mut heard) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(drained(Traced::Not).await);
        unheard.push(drained(Traced::Unheard).await);
        heard.push(drained(Traced::Heard).await);
    }
    let without = median(without);
    for (name, time) in [("nobody listens", median(unheard)), ("spans are made", median(heard))] {
        let micros = (time - without) * 1e6 / f64::from(EVENTS);
        println!(
            "{name}: {time:.3} s, without a tracer {without:.3} s: ratio {:.3}, {micros:.2} µs an entry",
            time / without
        );
    }
}
