//! From spans to a receiver: OpenTelemetry's pipeline, as the configuration and the usual variables say.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use pillarbox_core::limits::BATCH_MAX;
use pillarbox_host::{Creation, TraceContext, Tracer};
use pillarbox_otel::{Otel, adopt};
use tracing::Span;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, filter_fn};

use super::SpanLayer;
use super::client::Client;
use crate::config::{TraceConfig, TraceRelation};
use crate::fault::Fault;

/// The target of every span that Pillarbox makes.
const TARGET: &str = "pillarbox::trace";
/// How long the end of a command waits for the receiver.
const FINISH_MAX: Duration = Duration::from_secs(2);
/// Where the environment names a receiver: for traces, or for everything.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// What is on in this process.
struct Running {
    provider: SdkTracerProvider,
    tracer: Arc<dyn Tracer>,
}

static RUNNING: OnceLock<Running> = OnceLock::new();

/// Must be called inside of the runtime, which sends the spans.
pub(super) fn start(config: &TraceConfig) -> Result<Option<SpanLayer>, Fault> {
    let named = config.endpoint.is_some() || ENDPOINTS.into_iter().any(|name| variable(name).is_some());
    let disabled = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
    if !named || disabled {
        return Ok(None);
    }
    let client = Client::new(tokio::runtime::Handle::current())?;
    let mut exporter = SpanExporter::builder().with_http().with_http_client(client);
    if let Some(endpoint) = &config.endpoint {
        exporter = exporter.with_endpoint(endpoint.traces());
    }
    let exporter = exporter.build().map_err(|error| {
        Fault::usage(format!(
            "traces cannot be sent: {error}. Correct [trace] endpoint or the OTEL_ variables"
        ))
    })?;
    let mut provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource());
    if variable("OTEL_SPAN_LINK_COUNT_LIMIT").is_none() {
        // A delivery has a link for each entry, and the usual limit is below the usual batch.
        provider = provider.with_max_links_per_span(BATCH_MAX);
    }
    let provider = provider.build();
    let ours = filter_fn(|metadata| metadata.is_span() && metadata.target() == TARGET);
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("pillarbox"))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        // Spans only: lines of the log stay in the log.
        .with_filter(ours.with_max_level_hint(LevelFilter::INFO));
    let tracer: Arc<dyn Tracer> = Arc::new(Started::new(config.relation));
    RUNNING
        .set(Running { provider, tracer })
        .map_err(|_| Fault::failed("traces were started twice; this is a defect of pillarbox"))?;
    Ok(Some(Box::new(layer)))
}

pub(super) fn tracer() -> Option<Arc<dyn Tracer>> {
    RUNNING.get().map(|running| Arc::clone(&running.tracer))
}

pub(super) fn finish() {
    if let Some(running) = RUNNING.get() {
        // The client has told of a receiver that does not answer.
        let _ = running.provider.shutdown_with_timeout(FINISH_MAX);
    }
}

/// Who sends: `pillarbox`, unless the environment has a name.
fn resource() -> Resource {
    let mut resource =
        Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let attributes = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let has_name = attributes.split(',').any(|pair| pair.trim_start().starts_with("service.name="));
    if variable("OTEL_SERVICE_NAME").is_none() && !has_name {
        resource = resource.with_service_name("pillarbox");
    }
    resource.build()
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The tracer of a program that another one may have started: what it stages is then part of the trace in
/// `TRACEPARENT`.
struct Started {
    otel: Otel,
    parent: Option<(String, Option<String>)>,
}

impl Started {
    fn new(relation: TraceRelation) -> Self {
        let otel = match relation {
            TraceRelation::Link => Otel::link(),
            TraceRelation::Parent => Otel::parent(),
        };
        let parent = variable("TRACEPARENT").map(|parent| (parent, variable("TRACESTATE")));
        Self { otel, parent }
    }
}

impl Tracer for Started {
    fn context(&self, span: &Span) -> Option<TraceContext> {
        if let Some((parent, state)) = &self.parent {
            adopt(span, parent, state.as_deref());
        }
        self.otel.context(span)
    }

    fn link(&self, span: &Span, creation: Creation<'_>) {
        self.otel.link(span, creation);
    }

    fn process(&self, span: &Span, creation: Creation<'_>) {
        self.otel.process(span, creation);
    }
}
