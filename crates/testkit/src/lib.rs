//! The test kit of Pillarbox, for its users and for itself: an in-memory store and sink that are good enough
//! to be the model, and the conformance suites that every store and sink passes.

pub mod conformance;
mod memory;

pub use conformance::{StoreHarness, Tamper};
#[doc(hidden)]
pub use memory::Mutant;
pub use memory::{
    Attempt, ManualClock, MemoryHarness, MemoryInbox, MemoryOutbox, MemorySink, MemoryStore, MemoryTx, Reply,
    TokioClock, Which,
};
