//! Everything that this crate promises, on a real server: MariaDB or MySQL, whichever `PILLARBOX_TEST_MYSQL` names.

// A panic in a test is its report, also where it is in a step that several tests share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cancelling;
mod clusters;
mod committing;
mod connecting;
mod consuming;
mod contention;
mod drivers;
mod faults;
mod harness;
mod lanes;
mod on_two_nodes;
mod own_server;
mod plain_sql;
mod plans;
mod roles;
mod sagas;
mod schema;
mod staging;
mod steps;

pillarbox_conformance::store_conformance!(crate::harness::MySqlHarness);
