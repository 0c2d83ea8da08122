//! Everything that this crate promises, on real files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

mod cancelling;
mod committing;
mod connecting;
mod consuming;
mod contention;
mod drivers;
mod full;
mod harness;
mod lanes;
mod line;
mod plain_sql;
mod plans;
mod processes;
mod sagas;
mod schema;
mod staging;
mod steps;
mod transaction;

pillarbox_conformance::store_conformance!(harness::SqliteHarness);
