//! One mail in two traces: the request that staged it, and the work that sends it, with a link between them.
//!
//! `cargo run -p pillarbox-examples --bin traces -- work.db` prints each span as it ends. A service sends them with
//! the exporter of `opentelemetry-otlp` instead.
#![allow(clippy::print_stdout)]

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use pillarbox::otel::Otel;
use pillarbox::sink::Handlers;
use pillarbox::sqlite::{Options, Outbox, SqliteStore};
use pillarbox::{Event, Relay};
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Prints spans.
#[derive(Debug)]
struct Printer;

impl SpanExporter for Printer {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        for span in batch {
            let links = span.links.iter().map(|link| format!(" -> {}", link.span_context.span_id()));
            let (trace, id) = (span.span_context.trace_id(), span.span_context.span_id());
            println!("{trace} {id} {}{}", span.name, links.collect::<String>());
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let database = std::env::args().nth(1).unwrap_or_else(|| "work.db".into());
    let provider = SdkTracerProvider::builder().with_simple_exporter(Printer).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    tracing_subscriber::registry().with(layer.with_location(false)).with(ours()).init();

    let store = SqliteStore::connect(&format!("sqlite://{database}"), Options::default()).await?;
    store.migrate().await?;
    let outbox = Outbox::new("mail").tracer(Otel::link());
    let request = async {
        let mut tx = store.begin().await?;
        outbox.stage(&mut tx, Event::json("mail.send", "ann@example.org")?).await?;
        outbox.commit(tx).await
    };
    request.instrument(tracing::info_span!("POST /orders")).await?;

    let handlers = Handlers::new().on("mail.send", async |_| {
        tracing::info_span!("call the mail provider").in_scope(|| ());
        Ok(())
    })?;
    let relay = Relay::builder(store.clone(), handlers).route("mail").tracer(Otel::link()).build()?;
    relay.drain().await?;
    // The driver's thread may still hold the span of the last statement. It ends with the store.
    store.close().await;
    provider.shutdown()?;
    Ok(())
}

/// Drivers make spans and events too: here, only those of this program and of Pillarbox count.
fn ours() -> tracing_subscriber::filter::Targets {
    let info = tracing::Level::INFO;
    tracing_subscriber::filter::Targets::new()
        .with_target("traces", info)
        .with_target("pillarbox::trace", info)
}
