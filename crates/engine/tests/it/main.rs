//! The relay against the in-memory store, in paused time: minutes pass in no time, and nothing guesses.

mod circuit;
mod handlers;
mod leases;
mod lines;
mod outcomes;
mod retention;
mod running;
mod stopping;
mod world;
