//! Pillarbox on NATS JetStream. The sink publishes with confirmations. The source consumes with
//! acknowledgements. The transcript reads all messages of a stream.
//!
//! A destination is a URL: `nats://host:4222/orders.{type}`. The subject may contain the entry's `{type}`,
//! `{key}` and `{route}`. A stream must take that subject, because only JetStream confirms, not core NATS.
//! Every event is sent as a CloudEvent in binary mode, by the NATS binding of CloudEvents. Its id is the
//! `Nats-Msg-Id`, so that the server drops a duplicate inside the stream's duplicate window.
//!
//! ```no_run
//! use pillarbox_transport_nats::{NatsSink, NatsSource};
//!
//! # fn main() -> pillarbox_core::Result<()> {
//! // Hand the sink to a relay, and the source to a consumer. Neither connects before it is used.
//! let sink = NatsSink::new("nats://127.0.0.1:4222/orders.{type}")?;
//! let source = NatsSource::new("nats://127.0.0.1:4222/orders.>?stream=ORDERS&durable=billing")?;
//! # Ok(()) }
//! ```
//!
//! How durable a confirmed message is depends on the server's settings. JetStream writes a message to its
//! file before it confirms. It syncs that file every two minutes unless `sync_interval: always` is set. The
//! guide has a page on it.

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
