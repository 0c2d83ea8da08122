//! Publishing to streams: a whole batch is written, then its confirmations are reported as they come. Entries of one key
//! go together, so that one that fails stops those behind it.

mod delivery;
mod runs;

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use pillarbox_core::limits::PAYLOAD_BYTES_MAX;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Result};
use tokio::sync::Mutex;

use crate::connection::Connection;
use crate::error;
use crate::options::Options;

use delivery::Delivery;

/// A sink that publishes to Redis streams.
///
/// A confirmation means that the server has added the entry to the stream. The server's settings decide
/// whether the entry survives a crash. A repeated delivery is a second entry, which the consumer's inbox
/// recognizes as a duplicate.
pub struct RedisSink {
    connection: Connection,
    /// Whose turn it is to write. First come, first served, also while all wait for the connection.
    turn: Mutex<()>,
    /// The server's limit of a payload, once it was heard.
    payload_bytes_max: AtomicUsize,
}

impl RedisSink {
    /// A sink of this URL, such as `redis://127.0.0.1:6379/0?stream=orders:{type}`. It connects at the first delivery.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part of the URL that is wrong.
    ///
    /// ```
    /// use pillarbox_transport_redis::RedisSink;
    ///
    /// let sink = RedisSink::new("redis://127.0.0.1/0?stream=orders:{type}")?;
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
        let (turn, payload_bytes_max) = (Mutex::new(()), AtomicUsize::new(usize::MAX));
        Ok(Self { connection: Connection::new(options), turn, payload_bytes_max })
    }
}

#[async_trait]
impl Sink for RedisSink {
    fn capabilities(&self) -> SinkCapabilities {
        let mut capabilities = SinkCapabilities::default();
        capabilities.system = "redis";
        // By default it is far beyond what an event may have.
        let limit = self.payload_bytes_max.load(Ordering::Relaxed);
        capabilities.payload_bytes_max = Some(limit).filter(|limit| *limit < PAYLOAD_BYTES_MAX);
        // In memory first, and on the disk when the server thinks it is time.
        capabilities.durable = false;
        // Entries of one key go in transactions of the server, one after the other.
        capabilities.ordered_prefix = true;
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
        let delivery = Delivery::new(&self.connection, live.clone(), batch, report);
        let limit =
            live.value_bytes_max(self.connection.options().connect_timeout).await.unwrap_or(usize::MAX);
        self.payload_bytes_max.store(limit, Ordering::Relaxed);
        delivery.run(limit, turn).await;
    }
}
