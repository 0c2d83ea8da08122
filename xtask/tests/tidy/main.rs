//! What the repository promises about itself: the direction of its dependencies, what it is not built from, the
//! names in PROOFS.md, and habits that a compiler does not check.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "in a test a panic is the report")]

mod crates;
mod face;
mod graph;
mod modules;
mod options;
mod proofs;
mod repeats;
mod repository;
mod store_twins;
mod text;
mod transport_twins;
mod words;
