//! Consuming in a group, and committing what was answered.

mod driver;
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
use subscription::KafkaSubscription;

/// A source that consumes a topic of Kafka as a member of a group.
///
/// The members of a group share the partitions of the topic, and take them over from each other. The source commits the
/// offset of a partition up to its first unanswered message, never further. So a message comes again, to whichever member
/// has the partition then, until it was answered. A member that lost a partition can no longer answer its messages.
///
/// Kafka knows no negative answer, so a message that is given back waits in this process and is handed out again. Newer
/// messages of its key wait behind it, those of other keys do not. It also has no count of deliveries: the count of a message is exact while this source lives and keeps the partition, and
/// otherwise too low.
pub struct KafkaSource {
    shared: Arc<Shared>,
}

/// What a source shares with its subscriptions.
struct Shared {
    options: Options,
    topic: String,
    group: String,
    /// Where messages that cannot be handled are published.
    parking: Option<(Connection, String)>,
    counts: Counts,
}

impl KafkaSource {
    /// A source of this URL, such as `kafka://127.0.0.1:9092/orders?group=billing`. It connects when a consumer
    /// subscribes.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part of the URL that is wrong.
    ///
    /// ```
    /// use pillarbox_transport_kafka::KafkaSource;
    ///
    /// let source = KafkaSource::new("kafka://127.0.0.1:9092/orders?group=billing")?;
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
        let (topic, group) = options.check_source()?;
        let (topic, group) = (topic.to_owned(), group.to_owned());
        let parked = options.parked.clone();
        let parking = parked.map(|topic| (Connection::new(options.clone()), topic));
        let counts = Counts::default();
        Ok(Self { shared: Arc::new(Shared { options, topic, group, parking, counts }) })
    }
}

#[async_trait]
impl Source for KafkaSource {
    fn capabilities(&self) -> SourceCapabilities {
        let keeps_parked = self.shared.parking.is_some();
        let capabilities = SourceCapabilities::default().delivery_count(true).keeps_parked(keeps_parked);
        capabilities.returns_in_order(true).system("kafka")
    }

    fn name(&self) -> Option<&str> {
        Some(&self.shared.topic)
    }

    async fn subscribe(&self) -> Result<Box<dyn Subscription>> {
        Ok(Box::new(KafkaSubscription::open(&self.shared).await?))
    }
}
