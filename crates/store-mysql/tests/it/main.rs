//! Everything that this crate promises, on a real server: MariaDB or MySQL, whichever `PILLARBOX_TEST_MYSQL` names.

// A panic in a test is its report, also where it is in a step that several tests share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod consuming;
mod harness;
mod steps;

pillarbox_conformance::store_conformance!(crate::harness::MySqlHarness);

mod lanes_suite {
    pillarbox_conformance::lanes_conformance!(crate::harness::MySqlHarness);
}

mod sagas_suite {
    pillarbox_conformance::saga_conformance!(crate::harness::MySqlHarness);
}
