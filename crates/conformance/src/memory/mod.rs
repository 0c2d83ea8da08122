//! The store, the broker and the inbox in memory under the suites: what an adapter is paired with, and an example of
//! each harness.

mod broker;
mod harness;

pub use broker::{MemoryBrokerHarness, MemoryInboxHarness};
pub use harness::MemoryHarness;
