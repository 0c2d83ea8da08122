//! The simulator at work: the system as it is passes every seed, and every planted defect is caught.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the report")]
#![allow(clippy::print_stdout, reason = "what was found and how often is the point of these tests")]

mod mutants;
mod reports;
mod worlds;
