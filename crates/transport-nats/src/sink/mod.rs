//! Publishing to JetStream: a whole batch is written, then its confirmations are reported as they come. Entries of one
//! key follow each other, so that one that fails stops those behind it.

mod batches;
mod delivery;
mod runs;

use async_trait::async_trait;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Result};
use tokio::sync::Mutex;

use crate::connection::Connection;
use crate::error;
use crate::options::{Medium, Options};

pub(crate) use batches::Batches;
use delivery::Delivery;

/// What the server's limit of a message leaves for headers: it counts them and the payload together.
const HEADERS_BYTES: usize = 16 * 1024;

/// A sink that publishes to JetStream.
///
/// A confirmation means that a stream has stored the message, or had stored it before. The event id is the
/// `Nats-Msg-Id`, so the server drops a duplicate within the stream's duplicate window. That window belongs
/// to the stream, not to the subject. If two routes publish the same event id into one stream, the stream
/// holds one message.
///
/// Many entries of one key go together as one atomic batch, if the stream has `allow_atomic` set. That needs NATS 2.12
/// or newer. Otherwise each of them goes when the one before it is stored.
pub struct NatsSink {
    connection: Connection,
    /// Whose turn it is to write. First come, first served, also while all wait for the connection.
    turn: Mutex<()>,
}

impl NatsSink {
    /// A sink of this URL, such as `nats://127.0.0.1:4222/orders.{type}`. It connects at the first delivery.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part of the URL that is wrong.
    ///
    /// ```
    /// use pillarbox_transport_nats::NatsSink;
    ///
    /// let sink = NatsSink::new("nats://127.0.0.1/orders.{type}")?;
    /// # Ok::<_, pillarbox_core::Error>(())
    /// ```
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(Options::of_sink(url)?)
    }

    /// A sink with these settings. It connects at the first delivery.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the setting that cannot work.
    pub fn with_options(options: Options) -> Result<Self> {
        options.check_sink()?;
        Ok(Self { connection: Connection::new(options), turn: Mutex::new(()) })
    }

    fn payload_bytes_max(&self) -> usize {
        self.connection.max_payload().saturating_sub(HEADERS_BYTES)
    }
}

#[async_trait]
impl Sink for NatsSink {
    fn capabilities(&self) -> SinkCapabilities {
        let mut capabilities = SinkCapabilities::default();
        capabilities.system = "nats";
        capabilities.payload_bytes_max = Some(self.payload_bytes_max());
        let is_stored = self.connection.options().medium == Medium::Stream;
        capabilities.deduplicates = is_stored;
        // Entries of one key go one after the other, or as one batch that a stream stores as a whole or not at all.
        capabilities.ordered_prefix = is_stored;
        // Written to a file, but synced to the disk only now and then, unless the server is configured
        // otherwise.
        capabilities.durable = false;
        capabilities
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        if batch.is_empty() {
            return;
        }
        // Deliveries wait for the connection together, and for their turn in their order.
        let (live, turn) = tokio::join!(self.connection.live(), self.turn.lock());
        let live = match live {
            Ok(live) => live,
            Err(error) => {
                let outcome = error::down(&error);
                return (0..batch.len()).for_each(|index| report.outcome(index, outcome.clone()));
            }
        };
        Delivery::new(&self.connection, live, batch, report).run(self.payload_bytes_max(), turn).await;
    }
}
