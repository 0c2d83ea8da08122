//! The binary `pillarbox`, in parts: the composition root, the only place that names adapters.
//!
//! It is no interface: it serves the binary and our own measurements, and changes with them.

mod admin;
mod checkup;
mod cli;
mod command;
pub mod config;
pub mod context;
pub mod database;
pub mod destination;
pub mod fault;
pub mod launch;
mod logging;
pub mod measure;
pub mod output;
mod signal;
mod telemetry;

use std::process::ExitCode;

/// An entry is allocated by one thread and freed by another: SQLite's, the relay's, the broker client's. glibc's
/// allocator makes them wait for each other, which costs half of the rate. Without transparent huge pages (`no_thp`), which
/// doubled the memory of a relay and made it no faster.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs `pillarbox` with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    launch::launch::<cli::Cli>()
}
