//! Publishing: a whole batch is handed to the producer, then its confirmations are reported as they come. Entries of one
//! key go together, so that one that fails stops those behind it.

mod delivery;
mod runs;

use async_trait::async_trait;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Result};
use tokio::sync::Mutex;

use crate::connection::Connection;
use crate::error;
use crate::options::Options;

use delivery::Delivery;

/// A sink that publishes to Kafka topics.
///
/// A confirmation means that every replica that is in sync has the record. The topic's settings decide how many these
/// are at least, and whether they write it to the disk at once. The producer is idempotent: what it repeats after a lost
/// connection is written once. A later delivery of the same entry is a second record, which the consumer's inbox
/// recognizes as a duplicate.
pub struct KafkaSink {
    connection: Connection,
    /// Whose turn it is to write. First come, first served, also while all wait for the connection.
    turn: Mutex<()>,
}

impl KafkaSink {
    /// A sink of this URL, such as `kafka://127.0.0.1:9092/orders.{type}`. It connects at the first delivery.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part of the URL that is wrong.
    ///
    /// ```
    /// use pillarbox_transport_kafka::KafkaSink;
    ///
    /// let sink = KafkaSink::new("kafka://127.0.0.1:9092/orders.{type}")?;
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
}

#[async_trait]
impl Sink for KafkaSink {
    fn capabilities(&self) -> SinkCapabilities {
        let mut capabilities = SinkCapabilities::default();
        // The server adds the records of a batch all or none, and the next batch of a key waits for the answer.
        capabilities.ordered_prefix = true;
        // In the memory of all replicas in sync first, and on the disk when the system writes it.
        capabilities.durable = false;
        capabilities.system = "kafka";
        capabilities
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        if batch.is_empty() {
            return;
        }
        // Deliveries wait for the connection together, and for their turn in their order.
        let (live, turn) = tokio::join!(self.connection.live(), self.turn.lock());
        match live {
            Ok(live) => Delivery::new(&self.connection, live, batch, report).run(&self.turn, turn).await,
            Err(error) => {
                let outcome = error::down(&error);
                (0..batch.len()).for_each(|index| report.outcome(index, outcome.clone()));
            }
        }
    }
}
