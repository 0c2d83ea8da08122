//! Everything that this crate promises, over real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

mod addresses;
mod connections;
mod errors;
mod faults;
mod harness;
mod order;
mod python;
mod readback;
mod receiver;
mod relay;
mod sink;
mod tls;
