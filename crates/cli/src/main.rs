//! The binary `pillarbox`: the composition root, the only place that names adapters.

mod cli;
mod command;
mod config;
mod context;
mod database;
mod destination;
mod fault;
mod logging;
mod output;
mod signal;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
