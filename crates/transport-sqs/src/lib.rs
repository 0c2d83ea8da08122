//! Pillarbox on Amazon SQS. The sink sends in batches of ten, to standard and to FIFO queues. The source consumes by
//! long polling, and extends the visibility timeout of a message while its handler runs. There is nothing to read
//! back: a queue forgets what was deleted.
//!
//! A destination is a URL: `sqs://eu-west-1/orders`, or `sqs://eu-west-1/orders.fifo`. The queue's name may contain
//! the entry's `{type}`, `{key}` and `{route}`. The message's body is one CloudEvents JSON object.
//!
//! ```no_run
//! use pillarbox_transport_sqs::{SqsSink, SqsSource};
//!
//! # fn main() -> pillarbox_core::Result<()> {
//! // Hand the sink to a relay, and the source to a consumer. Neither connects before it is used.
//! let sink = SqsSink::new("sqs://eu-west-1/orders.fifo")?;
//! let source = SqsSource::new("sqs://eu-west-1/orders.fifo?parked=orders-parked.fifo")?;
//! # Ok(()) }
//! ```
//!
//! Credentials never stand in the URL. They are found as every AWS tool finds them: environment, profile, web identity,
//! container, instance. The guide has a page on it.

mod binding;
mod connection;
mod error;
mod options;
mod sink;
mod source;
mod transcript;

pub use options::Options;
pub use sink::SqsSink;
pub use source::SqsSource;
pub use transcript::SqsTranscript;
