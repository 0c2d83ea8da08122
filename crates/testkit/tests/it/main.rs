//! The test kit under its own suites: the in-memory store and sink, a store that a user wrote, the sinks of the
//! engine, and planted defects that the suite must find.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the report")]

mod custom_handlers;
mod custom_sinks;
mod custom_store;
mod memory;
mod mutants;

mod memory_store {
    use pillarbox_testkit::MemoryHarness;

    pillarbox_testkit::store_conformance!(MemoryHarness);
}

mod memory_lanes {
    use pillarbox_testkit::MemoryHarness;

    pillarbox_testkit::lanes_conformance!(MemoryHarness);
}

mod memory_sagas {
    use pillarbox_testkit::MemoryHarness;

    pillarbox_testkit::saga_conformance!(MemoryHarness);
}
