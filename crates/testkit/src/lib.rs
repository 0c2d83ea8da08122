//! The test kit of Pillarbox, for its users and for itself.
//!
//! * [`MemoryStore`], [`MemoryOutbox`], [`MemoryInbox`], [`MemorySink`] and [`MemoryBroker`]: an outbox, an inbox,
//!   a destination and a broker in memory, deterministic, and good enough to be the model that real ones are
//!   compared with.
//! * [`assert_staged!`], [`drain`], [`eventually`], [`assert_idempotent`]: for an application's own tests.
//! * [`FaultProxy`]: a TCP proxy that fails as it is told, for tests against real servers.
//! * [`conformance`]: the suites that every store, sink, source and inbox passes; whoever writes one runs them on it.
//! * [`sim`]: the deterministic simulator: one seed is one world of producers, relays and faults.

pub mod conformance;
mod drain;
mod eventually;
mod faultproxy;
mod memory;
pub mod sim;
mod staged;

pub use conformance::{
    FaultHarness, HandlerHarness, InboxHarness, LanesHarness, OutageHarness, Received, Ruin, SagaHarness,
    ServerHarness, SinkHarness, SourceHarness, StoreHarness, Tamper, Timeouts, Told, TranscriptHarness,
    Wanted,
};
pub use drain::{assert_idempotent, drain, drain_to};
pub use eventually::eventually;
pub use faultproxy::{Direction, Fault, FaultProxy};
#[doc(hidden)]
pub use memory::Mutant;
pub use memory::{
    Attempt, ManualClock, MemoryBroker, MemoryBrokerHarness, MemoryHarness, MemoryInbox, MemoryInboxHarness,
    MemoryOutbox, MemorySagas, MemorySink, MemorySource, MemoryStore, MemoryTx, Published, Reply, TokioClock,
    Which, sample_entry,
};

/// What the macros expand to; not part of the contract.
#[doc(hidden)]
pub mod __private {
    pub use pillarbox_core::port::Admin;

    pub use crate::staged::{Expected, check, everything};
}
