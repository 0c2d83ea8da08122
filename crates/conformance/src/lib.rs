//! Conformance suites for adapters: the behaviour that every store, sink, source, inbox and handler must
//! show, as named cases. The author of an adapter runs them on that adapter.
//!
//! The name of a case is a sentence. The case takes a harness, uses only the ports, and pins the time at
//! which it acts. If the adapter does not behave as the sentence says, the case panics.
//!
// Shows beside each item which feature has it, on docs.rs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("checklist.md")]
// A case is a test: a panic is its report.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

pub(crate) mod case;
pub mod consumer;
pub mod delivery;
pub mod driver;
pub mod fault;
pub mod handler;
mod harness;
pub mod lanes;
#[cfg(unix)]
pub mod mariadb;
mod memory;
pub mod order;
pub mod outage;
pub mod process;
pub mod readback;
pub mod saga;
pub mod sink;
pub mod source;
pub mod store;
mod suite;
#[cfg(feature = "tls")]
pub mod tls;
pub mod transcript;

pub use case::{Case, CaseFuture};
pub use consumer::{InboxHarness, SourceHarness};
pub use driver::DriverHarness;
pub use fault::{FaultHarness, ServerHarness, Timeouts, Told};
pub use handler::HandlerHarness;
pub use harness::{Ruin, StoreHarness, Tamper};
pub use lanes::LanesHarness;
pub use memory::{MemoryBrokerHarness, MemoryHarness, MemoryInboxHarness};
pub use outage::OutageHarness;
pub use saga::SagaHarness;
pub use sink::{Received, Refusal, SinkHarness};
pub use source::Wanted;
pub use transcript::TranscriptHarness;
