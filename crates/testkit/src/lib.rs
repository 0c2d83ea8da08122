//! The test kit of Pillarbox, for tests of applications.
//!
//! * [`MemoryStore`], [`MemoryOutbox`], [`MemoryInbox`], [`MemorySink`] and [`MemoryBroker`]: an outbox, an
//!   inbox, a destination and a broker in memory. They are deterministic. They are also the model with which
//!   real adapters are compared.
//! * [`assert_staged!`], [`drain`], [`eventually`], [`assert_idempotent`]: for an application's own tests.
//! * [`FaultProxy`]: a TCP proxy that causes faults on request, for tests against real servers.
//!
//! The crate `pillarbox-conformance` has the suites for authors of stores, sinks, sources and inboxes.

mod drain;
mod eventually;
mod faultproxy;
mod memory;
mod staged;

pub use drain::{assert_idempotent, drain, drain_to};
pub use eventually::eventually;
pub use faultproxy::{Direction, Fault, FaultProxy};
#[doc(hidden)]
pub use memory::Mutant;
pub use memory::{
    Attempt, JumpingClock, ManualClock, MemoryBroker, MemoryInbox, MemoryOutbox, MemorySagas, MemorySink,
    MemorySource, MemoryStore, MemoryTx, Published, Reply, TokioClock, Which, sample_entry,
};

/// Items that the macros expand to. They are not part of the contract.
#[doc(hidden)]
pub mod __private {
    pub use pillarbox_core::port::Admin;

    pub use crate::staged::{Expected, check, everything};
}
