//! Everything that this crate promises, over real sockets: on the client's fake cluster, and on nisshi where it was built.
//!
//! `cargo xtask services kafka -- cargo test -p pillarbox-transport-kafka` starts nisshi.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

mod errors;
mod harness;
mod on_nisshi;
mod order;
mod readback;
mod rebalance;
mod sink;
mod source;
mod suites;
mod tls;
mod transcript;
