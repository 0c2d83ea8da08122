//! Pillarbox on NATS JetStream: a sink that publishes with confirmations, a source that consumes with
//! acknowledgements, and a transcript that reads all that a stream holds.
//!
//! A destination is a URL: `nats://host:4222/orders.{type}`. The subject may name the entry's `{type}`, `{key}` and
//! `{route}`, and a stream must take it: JetStream, not core NATS, is what confirms. Every event crosses as a
//! CloudEvent in binary mode, by the NATS binding of CloudEvents, and its id is the `Nats-Msg-Id`, so that the server
//! drops a repetition inside the stream's duplicate window.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use pillarbox_core::port::{Sink, Source};
//! use pillarbox_transport_nats::{NatsSink, NatsSource};
//!
//! # fn main() -> pillarbox_core::Result<()> {
//! let sink: Arc<dyn Sink> = Arc::new(NatsSink::new("nats://127.0.0.1:4222/orders.{type}")?);
//! let source: Arc<dyn Source> =
//!     Arc::new(NatsSource::new("nats://127.0.0.1:4222/orders.>?stream=ORDERS&durable=billing")?);
//! # let _ = (sink, source);
//! # Ok(())
//! # }
//! ```
//!
//! What a confirmation is worth is the server's setting: JetStream writes a message to its file before it confirms,
//! and syncs that file every two minutes unless `sync_interval: always` is set. The guide has a page on it.

mod binding;
mod connection;
mod error;
mod options;
mod sink;
mod source;
mod transcript;

pub use options::Options;
pub use sink::NatsSink;
pub use source::NatsSource;
pub use transcript::NatsTranscript;
