//! Everything that this crate promises, on a server that speaks the protocol of SQS: fauxqs.
//!
//! `cargo xtask services sqs -- cargo test -p pillarbox-transport-sqs` starts it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

mod errors;
mod harness;
mod readback;
mod relay;
mod sink;
mod source;
mod suites;
mod tls;
mod transcript;
