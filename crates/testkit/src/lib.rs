//! The test kit of Pillarbox, for its users and for itself: an in-memory store and sink that are good enough
//! to be the model, and the conformance suites that every store and sink passes.

pub mod conformance;

pub use conformance::{StoreHarness, Tamper};
