//! Sending: ten messages in one request, several requests at once, and on FIFO queues one message of a key at a time.

mod delivery;
mod parcel;

use async_trait::async_trait;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Result};
use tokio::sync::{Mutex, Semaphore};

use crate::connection::Connection;
use crate::error;
use crate::options::Options;

use delivery::Delivery;

/// A sink that sends to queues of SQS.
///
/// A confirmation means that SQS has stored the message. A standard queue keeps no order and may deliver a message twice.
/// A FIFO queue keeps the order of a key, because the key is the id of the message's group. It drops an event that it took
/// within the last five minutes, by the event's id. In both cases the consumer's inbox recognizes duplicates.
pub struct SqsSink {
    connection: Connection,
    /// Whose turn it is to send. First come, first served.
    turn: Mutex<()>,
    /// How many more requests may be under way.
    requests: Semaphore,
}

impl SqsSink {
    /// A sink of this URL, such as `sqs://eu-west-1/orders`. It connects at the first delivery.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part of the URL that is wrong.
    ///
    /// ```
    /// use pillarbox_transport_sqs::SqsSink;
    ///
    /// let sink = SqsSink::new("sqs://eu-west-1/orders.fifo")?;
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
        let requests = Semaphore::new(options.in_flight);
        Ok(Self { connection: Connection::new(options), turn: Mutex::new(()), requests })
    }
}

#[async_trait]
impl Sink for SqsSink {
    fn capabilities(&self) -> SinkCapabilities {
        let is_fifo = self.connection.options().is_fifo();
        let mut capabilities = SinkCapabilities::default();
        // A message of a key is sent when the one before it was confirmed. A standard queue would not keep that order.
        capabilities.ordered_prefix = is_fifo;
        capabilities.deduplicates = is_fifo;
        capabilities.system = "aws_sqs";
        capabilities
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        if batch.is_empty() {
            return;
        }
        // Deliveries ask for the queue together, and wait for their turn in their order.
        let options = self.connection.options();
        let asking = async {
            match options.queue.constant() {
                Some(queue) => self.connection.queue(queue).await.map(drop),
                None => Ok(()),
            }
        };
        let (found, turn) = tokio::join!(asking, self.turn.lock());
        if let Err(error) = found {
            let outcome = error::down(&error, options);
            return (0..batch.len()).for_each(|index| report.outcome(index, outcome.clone()));
        }
        Delivery::new(&self.connection, &self.requests, batch, report).run(turn).await;
    }
}
