//! One file per command.

pub(crate) mod bench;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod consume;
pub(crate) mod dashboard;
pub(crate) mod demo;
pub(crate) mod discard;
pub(crate) mod doctor;
pub(crate) mod list;
pub(crate) mod man;
mod meant;
pub(crate) mod migrate;
pub(crate) mod pause;
pub(crate) mod purge;
pub(crate) mod reap;
pub(crate) mod relay;
pub(crate) mod requeue;
pub(crate) mod retry;
pub(crate) mod saga;
mod selection;
pub(crate) mod show;
pub(crate) mod stage;
pub(crate) mod status;
pub(crate) mod verify;

use clap::Subcommand;
use pillarbox_core::port::PauseTo;

use crate::context::{Context, Globals};
use crate::fault::Fault;
use crate::output::Output;
use crate::{logging, telemetry};

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the whole flow on SQLite: rollbacks, faults, duplicates, and the check that nothing was lost
    Demo(demo::DemoArgs),
    /// Create or upgrade the tables
    Migrate(migrate::MigrateArgs),
    /// Stage one event, or many from NDJSON
    Stage(Box<stage::StageArgs>),
    /// Deliver staged events of the configured routes, or of one route named here
    Relay(relay::RelayArgs),
    /// Receive events from a broker and hand each one to a child process or a webhook
    Consume(Box<consume::ConsumeArgs>),
    /// Count entries per route and status, and show the running relays and their circuits
    Status(status::StatusArgs),
    /// Serve the live page, the API and health, without relaying anything
    Dashboard(dashboard::DashboardArgs),
    /// List entries, oldest first
    List(list::ListArgs),
    /// Show everything about one event, with its audit records
    Show(show::ShowArgs),
    /// Retry dead entries with all their attempts and the same event id
    Requeue(requeue::RequeueArgs),
    /// Give up on dead entries for good; recorded in the audit trail
    Discard(discard::DiscardArgs),
    /// Deliver waiting entries now: they wait for their next attempt, or were staged with a delay
    Retry(retry::RetryArgs),
    /// Discard waiting entries before they are delivered; recorded in the audit trail
    Cancel(cancel::CancelArgs),
    /// Pause a route: relays claim none of its entries; recorded in the audit trail
    Pause(pause::PauseArgs),
    /// Resume a paused route
    Resume(pause::PauseArgs),
    /// Make entries with an expired lease available again
    Reap(reap::ReapArgs),
    /// Delete delivered and discarded entries by age; never dead ones
    Purge(purge::PurgeArgs),
    /// Compare the staged events with the messages at a destination: lost, duplicated, invented, out of order
    Verify(verify::VerifyArgs),
    /// Examine the database, routes and destinations: what hurts or will hurt, why, and what to do
    Doctor(doctor::DoctorArgs),
    /// List and show sagas, resume or end sagas that wait for an operator, read the audit trail of a subject
    #[command(subcommand)]
    Saga(saga::SagaCommand),
    /// Check or show the configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Measure this database, or the relay to a destination, with ratios to plain loops in the same run
    Bench(bench::BenchArgs),
    /// Print the completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write the pages of all commands
    Man(man::ManArgs),
}

/// Runs a command of this program.
pub(crate) async fn run(
    command: Command,
    globals: &Globals,
    program: clap::Command,
    out: Output,
    log: &str,
) -> Result<(), Fault> {
    // Completions are asked for by installers, where a broken configuration must not matter.
    if let Command::Completions(args) = command {
        return completions::run(&args, program, out);
    }
    if let Command::Man(args) = command {
        return man::run(&args, program, out);
    }
    let context = Context::load(globals, out)?;
    let traced = matches!(command, Command::Stage(_) | Command::Relay(_) | Command::Consume(_));
    let spans = if traced { telemetry::start(&context.config.trace)? } else { None };
    logging::start(log, spans);
    match command {
        Command::Demo(args) => demo::run(&args, &context).await,
        Command::Migrate(args) => migrate::run(&args, &context).await,
        Command::Stage(args) => stage::run(*args, &context).await,
        Command::Relay(args) => relay::run(args, &context).await,
        Command::Consume(args) => consume::run(*args, &context).await,
        Command::Status(args) => status::run(&args, &context).await,
        Command::Dashboard(args) => dashboard::run(args, &context).await,
        Command::List(args) => list::run(args, &context).await,
        Command::Show(args) => show::run(&args, &context).await,
        Command::Requeue(args) => requeue::run(&args, &context).await,
        Command::Discard(args) => discard::run(&args, &context).await,
        Command::Retry(args) => retry::run(&args, &context).await,
        Command::Cancel(args) => cancel::run(&args, &context).await,
        Command::Pause(args) => pause::run(PauseTo::Paused, args, &context).await,
        Command::Resume(args) => pause::run(PauseTo::Running, args, &context).await,
        Command::Reap(args) => reap::run(args, &context).await,
        Command::Purge(args) => purge::run(&args, &context).await,
        Command::Saga(command) => saga::run(command, &context).await,
        Command::Config(command) => config::run(&command, &context),
        Command::Doctor(args) => doctor::run(&args, &context).await,
        Command::Verify(args) => verify::run(&args, &context).await,
        Command::Bench(args) => bench::run(&args, &context).await,
        Command::Completions(_) | Command::Man(_) => Ok(()),
    }
}

/// The name of a relay of this process, for people: the machine and the process.
fn worker() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if pillarbox_core::check_name("host", host).is_ok() { host } else { "relay" };
    let host: String = host.chars().take(200).collect();
    format!("{host}-{}", std::process::id())
}
