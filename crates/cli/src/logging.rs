//! Logs of the engine, the stores and the brokers' clients, on stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Whatever is asked for: the clients of brokers and databases say how they do, and only their troubles matter here.
/// One of them logs whole messages, payload included.
const ALWAYS: &str = "lapin::returned_messages=off";

/// Starts logging: `PILLARBOX_LOG` decides (`debug`, `pillarbox_engine=trace`, …), else the command's default.
pub(crate) fn start(default: &str) {
    let asked = std::env::var("PILLARBOX_LOG").ok();
    let filter = asked.and_then(|text| EnvFilter::try_new(directives(&text)).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new(directives(default)));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        // A closed stderr must not end the relay.
        .log_internal_errors(false)
        .try_init();
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
