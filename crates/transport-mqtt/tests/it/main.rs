//! Everything that this crate promises, on a real server: Debian's Mosquitto.
//!
//! `cargo xtask services mosquitto -- cargo test -p pillarbox-transport-mqtt` starts it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

mod errors;
mod harness;
mod qos0;
mod readback;
mod relay;
mod sink;
mod source;
mod suites;
mod tls;
mod transcript;
