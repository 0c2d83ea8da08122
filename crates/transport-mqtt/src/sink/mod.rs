//! Publishing: as much of a batch is written as the server takes unconfirmed, and the rest as confirmations come.

mod delivery;

use std::future::poll_fn;
use std::pin::pin;

use async_trait::async_trait;
use futures_util::future::maybe_done;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Result};
use tokio::sync::{Mutex, MutexGuard};

use crate::connection::{Connection, Live};
use crate::error;
use crate::options::Options;

use delivery::Delivery;

/// What the server's limit of a packet leaves for topic and properties: it counts them and the payload together.
const HEADERS_BYTES: usize = 16 * 1024;

/// A sink that publishes to MQTT topics.
///
/// A confirmation means that the server is responsible for the message. It passes the message on to the sessions
/// that have subscribed by then; if there is none, the message is confirmed too, and gone. The server's settings
/// decide whether a message that waits in a session survives a crash. A repeated delivery is a second message,
/// which the consumer's inbox recognizes as a duplicate.
pub struct MqttSink {
    connection: Connection,
    /// Whose turn it is to write. First come, first served, also while all wait for the connection.
    turn: Mutex<()>,
}

impl MqttSink {
    /// A sink of this URL, such as `mqtt://127.0.0.1:1883/orders/{type}`. It connects at the first delivery.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part of the URL that is wrong.
    ///
    /// ```
    /// use pillarbox_transport_mqtt::MqttSink;
    ///
    /// let sink = MqttSink::new("mqtt://127.0.0.1/orders/{type}")?;
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

    /// The connection and the turn to write. Deliveries wait for the connection together, and for their turn in their order.
    async fn begin(&self) -> Result<(Live, MutexGuard<'_, ()>)> {
        let mut turn = pin!(maybe_done(self.turn.lock()));
        loop {
            let mut connecting = pin!(self.connection.live());
            let live = poll_fn(|context| {
                // Its place in the queue is taken at the first look.
                let _ = turn.as_mut().poll(context);
                connecting.as_mut().poll(context)
            });
            let live = live.await?;
            tokio::select! {
                biased;
                // Whoever had the turn waited in vain. Nothing of this batch was written.
                () = live.lost() => {}
                () = turn.as_mut() => if let Some(turn) = turn.as_mut().take_output() {
                    return Ok((live, turn));
                },
            }
        }
    }
}

#[async_trait]
impl Sink for MqttSink {
    fn capabilities(&self) -> SinkCapabilities {
        let mut capabilities = SinkCapabilities::default();
        let limit = self.connection.packet_bytes_max();
        capabilities.payload_bytes_max = (limit < usize::MAX).then(|| limit.saturating_sub(HEADERS_BYTES));
        // In memory first, and on the disk if and when the server's settings say so.
        capabilities.durable = false;
        capabilities.system = "mqtt";
        capabilities
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        if batch.is_empty() {
            return;
        }
        match self.begin().await {
            Ok((live, turn)) => Delivery::new(&self.connection, live, batch, report).run(turn).await,
            Err(error) => {
                let outcome = error::down(&error);
                (0..batch.len()).for_each(|index| report.outcome(index, outcome.clone()));
            }
        }
    }
}
