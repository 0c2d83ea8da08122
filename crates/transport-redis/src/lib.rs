//! Pillarbox on Redis Streams, and on Valkey. The sink publishes with confirmations. The source consumes as a
//! member of a group. The transcript reads all entries of a stream.
//!
//! A destination is a URL: `redis://host:6379/0?stream=orders:{type}`. The stream may contain the entry's
//! `{type}`, `{key}` and `{route}`. CloudEvents has no official binding to Redis, so this crate defines its
//! own. An entry of the stream has a field `ce-NAME` for each attribute and a field `h-NAME` for each header
//! of the application. The payload is in the field `data`, byte for byte. Nothing is encoded: fields of Redis
//! are bytes.
//!
//! ```no_run
//! use pillarbox_transport_redis::{RedisSink, RedisSource};
//!
//! # fn main() -> pillarbox_core::Result<()> {
//! // Hand the sink to a relay, and the source to a consumer. Neither connects before it is used.
//! let sink = RedisSink::new("redis://127.0.0.1:6379/0?stream=orders&maxlen=1000000")?;
//! let source = RedisSource::new("redis://127.0.0.1:6379/0?stream=orders&group=billing&consumer=billing-1")?;
//! # Ok(()) }
//! ```
//!
//! How durable a confirmed entry is depends on the server's settings. Without `appendonly yes`, a restart
//! loses it. With `appendonly yes`, the file is synced once a second unless `appendfsync always` is set. The
//! guide has a page on it.

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
