//! Pillarbox on MQTT 5. The sink publishes with acknowledgements. The source consumes with a session that the
//! server keeps, alone or as a member of a group. There is nothing to read back: an MQTT server keeps no record.
//!
//! A destination is a URL: `mqtt://host:1883/orders/{type}`. The topic may contain the entry's `{type}`, `{key}`
//! and `{route}`. A value that contains `/`, `+` or `#` is percent-encoded, so it never chooses another topic.
//! The message follows the CloudEvents binding for MQTT 5 in binary mode: attributes are user properties, and the
//! payload is the message, byte for byte.
//!
//! ```no_run
//! use pillarbox_transport_mqtt::{MqttSink, MqttSource};
//!
//! # fn main() -> pillarbox_core::Result<()> {
//! // Hand the sink to a relay, and the source to a consumer. Neither connects before it is used.
//! let sink = MqttSink::new("mqtt://127.0.0.1:1883/orders/{type}")?;
//! let source = MqttSource::new("mqtt://127.0.0.1:1883/orders/%23?group=billing&client_id=billing-1")?;
//! # Ok(()) }
//! ```
//!
//! An MQTT server passes a message on to the sessions that have subscribed by then, and to nobody else. So a
//! consumer must subscribe once before the first event is published. The guide has a page on it.

mod binding;
mod connection;
mod error;
mod options;
mod sink;
mod source;
mod transcript;

pub use options::Options;
pub use sink::MqttSink;
pub use source::MqttSource;
pub use transcript::MqttTranscript;
