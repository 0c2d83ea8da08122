//! Everything that this crate promises, on real servers: Redis and Valkey.
//!
//! `cargo xtask services redis valkey -- cargo test -p pillarbox-transport-redis` starts both.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

mod channels;
mod errors;
mod harness;
mod order;
mod outage;
mod readback;
mod sink;
mod source;
mod suites;
mod tls;
mod transcript;
