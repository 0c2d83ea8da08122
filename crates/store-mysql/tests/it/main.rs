//! Everything that this crate promises, on a real server: MariaDB or MySQL, whichever `PILLARBOX_TEST_MYSQL` names.

// A panic in a test is its report, also where it is in a step that several tests share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cancelling;
mod clusters;
mod committing;
mod connecting;
mod consuming;
mod harness;
mod lanes;
mod plain_sql;
mod plans;
mod sagas;
mod schema;
mod staging;
mod steps;

pillarbox_conformance::store_conformance!(crate::harness::MySqlHarness);
