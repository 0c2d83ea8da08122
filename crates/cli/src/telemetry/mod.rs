//! Traces of the commands that stage, relay and consume, as OTLP over HTTP.
//!
//! Traces are off unless the configuration or the environment names a receiver. Then no span is made at all.

#[cfg(feature = "otlp")]
mod client;
#[cfg(feature = "otlp")]
mod export;

use std::sync::Arc;

use pillarbox_host::Tracer;
use tracing_subscriber::{Layer, Registry};

use crate::config::TraceConfig;
use crate::fault::Fault;

/// What listens to spans.
pub(crate) type SpanLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts to send traces, if there is a receiver. The layer is for the subscriber of this process.
pub(crate) fn start(config: &TraceConfig) -> Result<Option<SpanLayer>, Fault> {
    #[cfg(feature = "otlp")]
    return export::start(config);
    #[cfg(not(feature = "otlp"))]
    {
        let _ = config;
        Ok(None)
    }
}

/// The tracer of this process, if traces are on.
pub(crate) fn tracer() -> Option<Arc<dyn Tracer>> {
    #[cfg(feature = "otlp")]
    return export::tracer();
    #[cfg(not(feature = "otlp"))]
    None
}

/// Sends the spans that still wait, for a short time. The runtime must still run.
pub(crate) fn finish() {
    #[cfg(feature = "otlp")]
    export::finish();
}
