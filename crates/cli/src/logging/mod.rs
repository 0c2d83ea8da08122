//! Logs of the engine, the stores and the brokers' clients, on stderr: for people, or as JSON lines.

mod json;
mod terminal;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::LogFormat;

pub(crate) use json::line as json_line;
pub(crate) use terminal::{Stderr, clear_line, show_line};

/// Whatever is asked for: the clients of brokers and databases say how they do, and only their troubles matter here.
/// One of them logs whole messages, payload included.
const ALWAYS: &str = "lapin::returned_messages=off";

/// Whether lines are JSON. The configuration decides, and it is read after the first lines.
static JSON: AtomicBool = AtomicBool::new(false);

/// Starts logging: `PILLARBOX_LOG` decides (`debug`, `pillarbox_engine=trace`, …), else the command's default.
pub(crate) fn start(default: &str) {
    let asked = std::env::var("PILLARBOX_LOG").ok();
    let filter = asked.and_then(|text| EnvFilter::try_new(directives(&text)).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new(directives(default)));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // A closed stderr must not end the relay.
        .log_internal_errors(false)
        .event_format(Either(Format::default().with_target(false)))
        .try_init();
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

    #[test]
    fn lines_of_clients_below_warn_are_shown_only_to_who_names_them() {
        for (asked, wanted) in [
            ("", "warn,lapin::returned_messages=off"),
            ("pillarbox_engine=info", "warn,pillarbox_engine=info,lapin::returned_messages=off"),
            ("DEBUG", "warn,pillarbox=debug,lapin::returned_messages=off"),
            ("error", "error,lapin::returned_messages=off"),
            ("info, async_nats=debug", "warn,pillarbox=info,async_nats=debug,lapin::returned_messages=off"),
        ] {
            assert_eq!(directives(asked), wanted, "{asked}");
            assert!(EnvFilter::try_new(directives(asked)).is_ok());
        }
    }
}
