//! Consuming with a session that the server keeps, and acknowledging by hand.

mod held;
mod receipt;
mod subscription;

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::Result;
use pillarbox_core::port::{Source, SourceCapabilities, Subscription};

use crate::connection::Connection;
use crate::options::Options;

use held::Counts;
use subscription::MqttSubscription;

/// A source that consumes topics of an MQTT server, alone or as a member of a group.
///
/// The server keeps the session of `client_id`: the subscription, the messages that came while the source was away,
/// and those that it has not answered. The server sends an unanswered message again when that session connects again,
/// and to no other one. MQTT knows no negative answer, so a message that is given back waits in this process and is
/// handed out again. Newer messages of its key wait behind it, those of other keys do not. If a second source connects with the same `client_id`, it takes over the session.
///
/// MQTT has no count of deliveries, only a flag. The count of a message is exact while this source lives, and after
/// that it is at least 2 for a message that was sent before. A source takes part with quality of service 1.
pub struct MqttSource {
    shared: Arc<Shared>,
}

/// What a source shares with its subscriptions.
struct Shared {
    options: Options,
    client_id: String,
    filter: String,
    /// Where messages that cannot be handled are published. A connection of its own, so that the session of the source
    /// has nothing open but what it received.
    parking: Option<(Connection, String)>,
    counts: Counts,
}

impl MqttSource {
    /// A source of this URL, such as `mqtt://127.0.0.1:1883/orders/%23?group=billing&client_id=billing-1`. It
    /// connects when a consumer subscribes.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part of the URL that is wrong.
    ///
    /// ```
    /// use pillarbox_transport_mqtt::MqttSource;
    ///
    /// let source = MqttSource::new("mqtt://127.0.0.1/orders/%23?group=billing&client_id=billing-1")?;
    /// # Ok::<_, pillarbox_core::Error>(())
    /// ```
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(Options::of_source(url)?)
    }

    /// A source with these settings. It connects when a consumer subscribes.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the setting that cannot work.
    pub fn with_options(options: Options) -> Result<Self> {
        let (filter, client_id) = options.check_source()?;
        let client_id = client_id.to_owned();
        let parked = options.parked.clone();
        let parking = parked.map(|topic| (Connection::new(options.clone()), topic));
        let counts = Counts::default();
        Ok(Self { shared: Arc::new(Shared { options, client_id, filter, parking, counts }) })
    }
}

#[async_trait]
impl Source for MqttSource {
    fn capabilities(&self) -> SourceCapabilities {
        let keeps_parked = self.shared.parking.is_some();
        let capabilities = SourceCapabilities::default().delivery_count(true).keeps_parked(keeps_parked);
        capabilities.returns_in_order(true).system("mqtt")
    }

    fn name(&self) -> Option<&str> {
        Some(&self.shared.filter)
    }

    async fn subscribe(&self) -> Result<Box<dyn Subscription>> {
        Ok(Box::new(MqttSubscription::open(&self.shared).await?))
    }
}
