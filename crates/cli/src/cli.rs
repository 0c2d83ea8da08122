//! The command line as clap sees it, and the way from it to an exit code.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand};
use pillarbox_core::redact_refused_url;

use crate::command;
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

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// The configuration file [default: pillarbox.toml if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The database, sqlite://FILE or postgres://…; first of: this option, database.url of the configuration,
    /// the variable DATABASE_URL (keep passwords there: options are visible to others) [default:
    /// sqlite://pillarbox.db]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// Print data as JSON: one object, or one object a line for lists
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No talk on stderr but errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the whole flow on SQLite: rollbacks, faults, duplicates, and the check that nothing was lost
    Demo(command::demo::DemoArgs),
    /// Create or upgrade the tables
    Migrate(command::migrate::MigrateArgs),
    /// Stage one event, or many from NDJSON
    Stage(Box<command::stage::StageArgs>),
    /// Deliver what is staged: the configured routes, or one named here
    Relay(command::relay::RelayArgs),
    /// Count entries per route and status, and show the running relays and their circuits
    Status(command::status::StatusArgs),
    /// List entries, oldest first
    List(command::list::ListArgs),
    /// Show everything known of one event, with its audit records
    Show(command::show::ShowArgs),
    /// Try dead entries again, with a fresh budget and the same event id
    Requeue(command::requeue::RequeueArgs),
    /// Give dead entries up for good; audited
    Discard(command::discard::DiscardArgs),
    /// Try entries now that wait for their time: between two attempts, or staged with a delay
    Retry(command::retry::RetryArgs),
    /// Give up entries that wait, before anybody delivers them: they are discarded; audited
    Cancel(command::cancel::CancelArgs),
    /// Pause a route: no relay takes anything of it; audited
    Pause(command::pause::PauseArgs),
    /// Let a paused route go on
    Resume(command::pause::PauseArgs),
    /// Return expired leases to the queue
    Reap(command::reap::ReapArgs),
    /// Delete delivered and discarded entries by age; never dead ones
    Purge(command::purge::PurgeArgs),
    /// Compare what was staged with what a destination received: lost, duplicated, invented, out of order
    Verify(command::verify::VerifyArgs),
    /// List and show sagas, let those go on or end that wait for an operator, read the audit trail of a subject
    #[command(subcommand)]
    Saga(command::saga::SagaCommand),
    /// Check or show the configuration
    #[command(subcommand)]
    Config(command::config::ConfigCommand),
    /// Measure this database, or the relay to a destination, with ratios to plain loops in the same run
    Bench(command::bench::BenchArgs),
    /// Print the completions of a shell
    Completions(command::completions::CompletionsArgs),
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
    let result = runtime.block_on(command::run(cli.command, &cli.globals, out));
    // Not a plain drop: that would wait for a thread that is blocked on a terminal.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
