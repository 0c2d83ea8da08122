//! Publishing: as much of a batch is written as the server takes unconfirmed, and the rest as confirmations come.

mod delivery;

use async_trait::async_trait;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Result};
use tokio::sync::Mutex;

use crate::connection::Connection;
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
        // Deliveries wait for the connection together, and for their turn in their order.
        let (live, turn) = tokio::join!(self.connection.live(), self.turn.lock());
        match live {
            Ok(live) => Delivery::new(&self.connection, live, batch, report).run(turn).await,
            Err(error) => {
                let outcome = error::down(&error);
                (0..batch.len()).for_each(|index| report.outcome(index, outcome.clone()));
            }
        }
    }
}
