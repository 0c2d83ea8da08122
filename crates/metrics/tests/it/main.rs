//! The metrics of real relays and consumers, and the dashboard and rules that are shipped for them.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "in a test a panic is the report")]

mod bounds;
mod consuming;
mod relaying;
mod rig;
mod shipped;
mod store;
