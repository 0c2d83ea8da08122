//! The test kit under test: the store, the sink and the broker in memory. The suites that the store passes are tests of
//! `pillarbox-conformance`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the report")]

mod broker;
mod memory;
