//! The way from a command line to an exit code.

use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue};
use pillarbox_core::redact_refused_url;

use crate::context::Globals;
use crate::fault::Fault;
use crate::output::{self, Output};

/// A program as clap sees it.
pub trait Program: Parser {
    /// Options of every command.
    fn globals(&self) -> &Globals;

    /// What is logged unless `PILLARBOX_LOG` or `--quiet` says otherwise. `None`: the program starts its log itself, when
    /// it knows where its spans go. Default: none.
    fn log(&self) -> Option<&'static str> {
        None
    }

    /// Does what it was asked.
    fn run(self, out: Output) -> impl Future<Output = Result<(), Fault>>;
}

/// Parses, runs, and turns what came of it into an exit code.
#[must_use]
pub fn launch<P: Program>() -> ExitCode {
    let program = match P::try_parse() {
        Ok(program) => program,
        Err(mut error) => {
            hide_password(&mut error);
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            output::report(&fault);
            ExitCode::from(fault.exit_code())
        }
    }
}

/// A value that is refused is quoted, and it may be a URL that nobody could read.
fn hide_password(error: &mut clap::Error) {
    if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) {
        let value = redact_refused_url(value);
        error.insert(ContextKind::InvalidValue, ContextValue::String(value));
    }
}

fn run(program: impl Program) -> Result<(), Fault> {
    let Globals { json, quiet, .. } = *program.globals();
    let out = Output { json, quiet };
    if let Some(log) = program.log() {
        crate::logging::start(if quiet { "error" } else { log }, None);
    }
    let workers = std::thread::available_parallelism().map_or(2, |count| count.get().min(4));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .map_err(|error| Fault::failed(format!("cannot start: {error}")))?;
    let result = runtime.block_on(program.run(out));
    crate::telemetry::finish();
    // Not a plain drop: that would wait for a thread that is blocked on a terminal.
    runtime.shutdown_background();
    result
}
