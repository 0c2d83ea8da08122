//! Pillarbox on Redis Streams, and on Valkey: a sink that publishes with confirmations, a source that consumes in a
//! group, and a transcript that reads all that a stream holds.
//!
//! A destination is a URL: `redis://host:6379/0?stream=orders:{type}`. The stream may name the entry's `{type}`,
//! `{key}` and `{route}`. There is no official binding of CloudEvents to Redis, so this is ours: an entry of the stream
//! has a field `ce-NAME` for each attribute, a field `h-NAME` for each header of the application, and the payload in
//! the field `data`, byte for byte. Nothing is encoded: fields of Redis are bytes.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use pillarbox_core::port::{Sink, Source};
//! use pillarbox_transport_redis::{RedisSink, RedisSource};
//!
//! # fn main() -> pillarbox_core::Result<()> {
//! let sink: Arc<dyn Sink> = Arc::new(RedisSink::new("redis://127.0.0.1:6379/0?stream=orders&maxlen=1000000")?);
//! let source: Arc<dyn Source> =
//!     Arc::new(RedisSource::new("redis://127.0.0.1:6379/0?stream=orders&group=billing&consumer=billing-1")?);
//! # let _ = (sink, source);
//! # Ok(())
//! # }
//! ```
//!
//! What a confirmation is worth is the server's setting: without `appendonly yes` a restart forgets, and with it the
//! file is synced once a second unless `appendfsync always` is set. The guide has a page on it.

mod binding;
mod connection;
mod error;
mod options;
mod sink;
mod source;
mod transcript;

pub use options::Options;
pub use sink::RedisSink;
pub use source::RedisSource;
pub use transcript::RedisTranscript;
