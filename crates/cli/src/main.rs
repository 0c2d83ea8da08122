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

/// An entry is allocated by one thread and freed by another: SQLite's, the relay's, the broker client's. glibc's
/// allocator makes them wait for each other, which costs half of the rate. Without transparent huge pages (`no_thp`), which
/// doubled the memory of a relay and made it no faster.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
