//! Pillarbox on RabbitMQ, over AMQP 0-9-1. The sink publishes in a pipeline, with confirmations. The source
//! consumes a queue. The transcript reads all messages of a stream.
//!
//! ```no_run
//! use pillarbox_transport_amqp::{AmqpSink, AmqpSource};
//!
//! # fn main() -> pillarbox_core::Result<()> {
//! // Hand the sink to a relay, and the source to a consumer. Neither connects before it is used.
//! let sink = AmqpSink::new("amqp://127.0.0.1/%2f?exchange=orders&routing_key={type}")?;
//! let source = AmqpSource::new("amqp://127.0.0.1/%2f?queue=billing&queue_type=quorum")?;
//! # Ok(()) }
//! ```

mod binding;
mod connection;
mod error;
mod options;
mod sink;
mod source;
mod transcript;

pub use options::{HeaderPrefix, Options, QueueType};
pub use sink::AmqpSink;
pub use source::AmqpSource;
pub use transcript::AmqpTranscript;
