//! Pillarbox on Kafka. The sink publishes with an idempotent producer and waits for all replicas. The source consumes in
//! a group and commits offsets after the effects. The transcript reads topics back by their offsets.
//!
//! A destination is a URL: `kafka://host:9092/orders.{type}`. The topic may contain the entry's `{type}`, `{key}` and
//! `{route}`. A byte that a topic cannot have is escaped, so a value never chooses another topic. The message follows
//! the CloudEvents binding for Kafka in binary mode: attributes are `ce_` headers, the ordering key or else the event id
//! is the record's key, and the payload is the record's value, byte for byte.
//!
//! ```no_run
//! use pillarbox_transport_kafka::{KafkaSink, KafkaSource};
//!
//! # fn main() -> pillarbox_core::Result<()> {
//! // Hand the sink to a relay, and the source to a consumer. Neither connects before it is used.
//! let sink = KafkaSink::new("kafka://127.0.0.1:9092/orders")?;
//! let source = KafkaSource::new("kafka://127.0.0.1:9092/orders?group=billing")?;
//! # Ok(()) }
//! ```
//!
//! The producer's idempotence covers repetitions inside one connection of a sink. A delivery that is tried again later
//! may be a second record, which the consumer's inbox recognizes as a duplicate. The guide has a page on it.

mod binding;
mod connection;
mod error;
mod options;
mod sink;
mod source;
mod transcript;

pub use options::Options;
pub use sink::KafkaSink;
pub use source::KafkaSource;
pub use transcript::KafkaTranscript;
