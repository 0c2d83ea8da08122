//! Consuming from JetStream through a durable pull consumer.

mod receipt;
mod subscription;

use std::sync::Arc;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::context::{GetStreamByNameErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream::{ConsumerErrorKind, Stream};
use async_trait::async_trait;
use pillarbox_core::port::{Source, SourceCapabilities, Subscription};
use pillarbox_core::{Error, ErrorKind, Result};

use crate::connection::{Connection, Live};
use crate::error;
use crate::options::Options;

use subscription::NatsSubscription;
pub(crate) use subscription::lost;

/// A source that consumes a stream through a durable pull consumer. If that consumer does not exist, the
/// source creates it.
///
/// Sources with the same durable name share the messages, and the durable consumer remembers which were
/// answered. Messages that a dead source left unanswered are redelivered after `ack_wait`. If a handler takes
/// longer than `ack_wait`, its message is redelivered while the handler still runs.
pub struct NatsSource {
    connection: Arc<Connection>,
    subject: String,
    durable: String,
}

impl NatsSource {
    /// A source of this URL, such as `nats://127.0.0.1:4222/orders.>?stream=ORDERS&durable=billing`. It
    /// connects when a consumer subscribes.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the part of the URL that is wrong.
    ///
    /// ```
    /// use pillarbox_transport_nats::NatsSource;
    ///
    /// let source = NatsSource::new("nats://127.0.0.1/orders.>?stream=ORDERS&durable=billing")?;
    /// # Ok::<_, pillarbox_core::Error>(())
    /// ```
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(Options::of_source(url)?)
    }

    /// A source with these settings. It connects when a consumer subscribes.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the setting that cannot work.
    pub fn with_options(options: Options) -> Result<Self> {
        let (subject, durable) = options.check_source()?;
        let (subject, durable) = (subject.to_owned(), durable.to_owned());
        Ok(Self { connection: Arc::new(Connection::new(options)), subject, durable })
    }

    /// Finds the stream and makes the durable consumer, and gives the name of the stream.
    async fn prepare(&self, live: &Live) -> Result<String> {
        let stream = stream(live, self.connection.options(), &self.subject).await?;
        let wanted = pull::Config {
            durable_name: Some(self.durable.clone()),
            filter_subject: self.subject.clone(),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.connection.options().ack_wait,
            deliver_policy: DeliverPolicy::All,
            ..pull::Config::default()
        };
        let consumer = stream.get_or_create_consumer(&self.durable, wanted).await.map_err(|cause| {
            let failed = match cause.kind() {
                ConsumerErrorKind::JetStream(refusal) => error::asking(&refusal),
                ConsumerErrorKind::InvalidConsumerType | ConsumerErrorKind::InvalidName => {
                    Error::invalid(cause.to_string())
                }
                _ => error::unanswered(&cause),
            };
            failed.context(format!("consumer {:?}", self.durable))
        })?;
        let info = consumer.cached_info();
        if info.config.ack_policy != AckPolicy::Explicit {
            return Err(Error::invalid(format!(
                "consumer {:?} exists, but its ack policy is not explicit, so the server would ignore our \
                 answers. Choose another durable=, or recreate the consumer with explicit acks",
                self.durable
            )));
        }
        Ok(info.stream_name.clone())
    }
}

/// The stream that the settings name, or the one that takes the subject.
pub(crate) async fn stream(live: &Live, options: &Options, subject: &str) -> Result<Stream> {
    let name = match &options.stream {
        Some(name) => name.clone(),
        None => live.context.stream_by_subject(subject).await.map_err(|cause| {
            let failed = match cause.kind() {
                GetStreamByNameErrorKind::NotFound => Error::new(
                    ErrorKind::NotFound,
                    "no stream has this subject. Create one, or name one with stream=",
                ),
                GetStreamByNameErrorKind::JetStream(refusal) => error::asking(&refusal),
                _ => error::unanswered(&cause),
            };
            failed.context(format!("subject {subject:?}"))
        })?,
    };
    live.context.get_stream(&name).await.map_err(|cause| {
        let failed = match cause.kind() {
            GetStreamErrorKind::JetStream(refusal) => error::asking(&refusal),
            _ => error::unanswered(&cause),
        };
        failed.context(format!("stream {name:?}"))
    })
}

#[async_trait]
impl Source for NatsSource {
    fn capabilities(&self) -> SourceCapabilities {
        let keeps_parked = self.connection.options().parked.is_some();
        SourceCapabilities::default().delivery_count(true).keeps_parked(keeps_parked).system("nats")
    }

    fn name(&self) -> Option<&str> {
        Some(&self.subject)
    }

    async fn subscribe(&self) -> Result<Box<dyn Subscription>> {
        let live = self.connection.live().await?;
        let mut denials = live.denials();
        let stream = tokio::select! {
            biased;
            prepared = self.prepare(&live) => prepared?,
            () = live.lost() => return Err(subscription::lost()),
            // The server does not answer what it refuses.
            denied = denials.next() => return Err(Error::new(ErrorKind::Denied, error::no_right(&denied))),
        };
        let subscription = NatsSubscription::open(&self.connection, live, &stream, &self.durable).await?;
        Ok(Box::new(subscription))
    }
}
