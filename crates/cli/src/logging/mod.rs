//! Logs of the engine, the stores and the brokers' clients, on stderr: for people, or as JSON lines.

mod json;
mod terminal;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogFormat;
use crate::telemetry::SpanLayer;

pub(crate) use json::line as json_line;
pub(crate) use terminal::{Stderr, clear_line, show_line};

/// Whatever is asked for: the clients of brokers and databases say how they do, and only their troubles matter here.
/// One of them logs whole messages, payload included. Spans are for traces: a line does not begin with them.
const ALWAYS: &str = "lapin::returned_messages=off,pillarbox::trace=off";

/// Whether lines are JSON. The configuration decides, and it is read after the first lines.
static JSON: AtomicBool = AtomicBool::new(false);

/// Starts logging: `PILLARBOX_LOG` decides (`debug`, `pillarbox_engine=trace`, …), else the command's default. Spans go to
/// the layer, if there is one.
pub(crate) fn start(default: &str, spans: Option<SpanLayer>) {
    let asked = std::env::var("PILLARBOX_LOG").ok();
    let filter = asked.and_then(|text| EnvFilter::try_new(directives(&text)).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new(directives(default)));
    let _ = subscriber(filter, spans).try_init();
}

/// Whoever listens: lines by their filter, spans by that of their layer.
fn subscriber(filter: EnvFilter, spans: Option<SpanLayer>) -> impl tracing::Subscriber + Send + Sync {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| Stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // A closed stderr must not end the relay.
        .log_internal_errors(false)
        .event_format(Either(Format::default().with_target(false)))
        .with_filter(filter);
    tracing_subscriber::registry().with(spans).with(lines)
}

/// Sets how lines look from now on.
pub(crate) fn use_format(format: LogFormat) {
    JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Whether lines are JSON.
pub(crate) fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// For people, or JSON.
struct Either(Format<Full>);

impl<S, N> FormatEvent<S, N> for Either
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> std::fmt::Result {
        if is_json() {
            return writeln!(writer, "{}", json::of_event(event));
        }
        self.0.format_event(context, writer, event)
    }
}

/// A level alone is about Pillarbox: lines of others below `warn` are shown to who names them, as in
/// `debug,lapin=debug`.
fn directives(text: &str) -> String {
    let mut all = vec!["warn".to_owned()];
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.to_ascii_lowercase().as_str() {
            level @ ("trace" | "debug" | "info") => all.push(format!("pillarbox={level}")),
            level @ ("warn" | "error" | "off") => all[0] = level.to_owned(),
            _ => all.push(part.to_owned()),
        }
    }
    all.push(ALWAYS.to_owned());
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Subscriber as _;
    use tracing::level_filters::LevelFilter;

    #[test]
    fn without_traces_nothing_below_the_level_of_the_lines_is_looked_at() {
        let quiet = subscriber(EnvFilter::new(directives("")), None);
        assert_eq!(quiet.max_level_hint(), Some(LevelFilter::WARN));
    }

    #[test]
    fn lines_of_clients_below_warn_are_shown_only_to_who_names_them() {
        for (asked, wanted) in [
            ("", "warn,lapin::returned_messages=off,pillarbox::trace=off"),
            (
                "pillarbox_engine=info",
                "warn,pillarbox_engine=info,lapin::returned_messages=off,pillarbox::trace=off",
            ),
            ("DEBUG", "warn,pillarbox=debug,lapin::returned_messages=off,pillarbox::trace=off"),
            ("error", "error,lapin::returned_messages=off,pillarbox::trace=off"),
            (
                "info, async_nats=debug",
                "warn,pillarbox=info,async_nats=debug,lapin::returned_messages=off,pillarbox::trace=off",
            ),
        ] {
            assert_eq!(directives(asked), wanted, "{asked}");
            assert!(EnvFilter::try_new(directives(asked)).is_ok());
        }
    }
}
