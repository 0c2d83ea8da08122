//! The relay and the consumer against the in-memory store, in paused time: minutes pass in no time, and nothing guesses.
#![allow(unreachable_pub, reason = "the modules of a test binary")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

mod circuit;
mod consumer;
mod errors;
mod fairness;
mod handlers;
mod lanes;
mod leases;
mod lines;
mod log;
mod outcomes;
mod presence;
mod retention;
mod rig;
mod running;
mod stopping;
mod telling;
