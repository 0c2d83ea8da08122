//! The command line as clap sees it, and the way from it to an exit code.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};
use pillarbox_core::redact_refused_url;

use crate::command::{self, Command};
use crate::context::Globals;
use crate::fault::Fault;
use crate::output::{self, Output};

const EXAMPLES: &str = "\
Examples:
  pillarbox demo                                          see it all work, nothing to install
  pillarbox migrate                                       create the tables
  pillarbox stage --route orders --type order.placed --key o-1 --payload '{\"id\":1}'
  pillarbox relay --drain --route orders --to file:out.ndjson
  pillarbox status --json

Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 unhealthy, 4 schema mismatch.
stdout is data, stderr is talk.";

/// Transactional messaging: what your transaction commits is delivered, what it rolls back never happened.
#[derive(Debug, Parser)]
#[command(name = "pillarbox", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Parses, runs, and turns what came of it into an exit code.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(mut error) => {
            hide_password(&mut error);
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(cli) {
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

fn run(cli: Cli) -> Result<(), Fault> {
    let out = Output { json: cli.globals.json, quiet: cli.globals.quiet };
    crate::logging::start(match cli.command {
        _ if out.quiet => "error",
        Command::Relay(_) => "pillarbox_engine=info",
        // Faults are what these are about: the report tells of them.
        Command::Demo(_) | Command::Bench(_) => "error",
        _ => "warn",
    });
    let workers = std::thread::available_parallelism().map_or(2, |count| count.get().min(4));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .map_err(|error| Fault::failed(format!("cannot start: {error}")))?;
    let result = runtime.block_on(command::run(cli.command, &cli.globals, Cli::command(), out));
    // Not a plain drop: that would wait for a thread that is blocked on a terminal.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
