//! The suites under test: on what is in memory, on a store that a user wrote, on the sinks of the engine, and on
//! planted defects that they must find.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the report")]

mod bad_inboxes;
mod boastful;
mod countless;
mod custom_handlers;
mod custom_sinks;
mod custom_store;
mod mutants;

mod memory_store {
    use pillarbox_conformance::MemoryHarness;

    pillarbox_conformance::store_conformance!(MemoryHarness);
}

mod memory_lanes {
    use pillarbox_conformance::MemoryHarness;

    pillarbox_conformance::lanes_conformance!(MemoryHarness);
}

mod memory_lanes_open {
    use pillarbox_conformance::MemoryHarness;

    pillarbox_conformance::lanes_conformance!(MemoryHarness<true>);
}

mod memory_sagas {
    use pillarbox_conformance::MemoryHarness;

    pillarbox_conformance::saga_conformance!(MemoryHarness);
}

mod memory_consumer {
    use pillarbox_conformance::{MemoryBrokerHarness, MemoryInboxHarness};

    pillarbox_conformance::consumer_conformance!(MemoryBrokerHarness, MemoryInboxHarness);
}
