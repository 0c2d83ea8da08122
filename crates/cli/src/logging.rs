//! Logs of the engine and the stores, on stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging: `PILLARBOX_LOG` decides (`debug`, `pillarbox_engine=trace`, …), else the command's default.
pub(crate) fn start(default: &str) {
    let filter = std::env::var("PILLARBOX_LOG")
        .ok()
        .and_then(|text| EnvFilter::try_new(text).ok())
        .unwrap_or_else(|| EnvFilter::new(default));
    // This one logs whole messages, payload included, whatever level is asked for.
    let filter = match "lapin::returned_messages=off".parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    };
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        // A closed stderr must not end the relay.
        .log_internal_errors(false)
        .try_init();
}
