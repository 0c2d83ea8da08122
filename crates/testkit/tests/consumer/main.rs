//! The engine's consumer: under the public suite with the broker and the inbox in memory, in paused time where time
//! matters, behind a relay, and with planted defects that the suite must find.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the report")]

mod broker;
mod mutants;
mod relay;
mod running;
mod spawning;
mod time;
mod world;

mod in_memory {
    use pillarbox_testkit::{MemoryBrokerHarness, MemoryInboxHarness};

    pillarbox_testkit::consumer_conformance!(MemoryBrokerHarness, MemoryInboxHarness);
}

mod without_delivery_counts {
    pillarbox_testkit::consumer_conformance!(crate::world::Countless);
}
