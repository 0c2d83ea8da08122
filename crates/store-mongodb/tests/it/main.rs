//! Everything that this crate promises, on the real server that `PILLARBOX_TEST_MONGODB` names.

// A panic in a test is its report, also where it is in a step that several tests share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod consuming;
mod drivers;
mod faults;
mod harness;
mod lanes;
mod plans;
mod roles;
mod sagas;
mod schema;
mod servers;
mod staging;
mod steps;

pillarbox_conformance::store_conformance!(crate::harness::MongoHarness);
