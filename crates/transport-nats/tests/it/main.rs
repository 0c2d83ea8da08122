//! Everything that this crate promises, on real servers: Debian's version and the latest one.
//!
//! `cargo xtask services nats nats-latest -- cargo test -p pillarbox-transport-nats` starts both.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

mod core;
mod errors;
mod harness;
mod order;
mod outage;
mod readback;
mod relay;
mod sink;
mod source;
mod suites;
mod tls;
mod transcript;
