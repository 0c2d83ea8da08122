//! Everything that this crate promises, on a real RabbitMQ.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "in a test a panic is the report")]

mod errors;
mod harness;
mod node;
mod outage;
mod readback;
mod sink;
mod source;
mod suites;
mod tls;
mod transcript;
