//! Consuming by long polling, and holding what was received until it is answered.

mod held;
mod pump;
mod receipt;
mod subscription;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use pillarbox_core::Result;
use pillarbox_core::port::{Source, SourceCapabilities, Subscription};

use crate::connection::Connection;
use crate::options::Options;

use subscription::SqsSubscription;

/// A source that consumes a queue of SQS.
///
/// Sources of one queue share its messages. A received message is hidden from the others for `visibility`, which is
/// extended while the message is held, so a handler may take longer. Messages that a dead source left unanswered come
/// again after `visibility`. On a FIFO queue, at most one message of a group is handed out at a time: the next one
/// follows when that one was acknowledged, and comes again behind it when that one was given back.
pub struct SqsSource {
    shared: Arc<Shared>,
}

/// What a source shares with its subscriptions and their messages.
struct Shared {
    connection: Connection,
    queue: String,
    /// Whether there is a queue for messages that cannot be handled.
    keeps_parked: AtomicBool,
}

impl SqsSource {
    /// A source of this URL, such as `sqs://eu-west-1/orders?parked=orders-parked`. It connects when a consumer
    /// subscribes.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part of the URL that is wrong.
    ///
    /// ```
    /// use pillarbox_transport_sqs::SqsSource;
    ///
    /// let source = SqsSource::new("sqs://eu-west-1/orders?visibility=60s")?;
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
        let queue = options.check_source()?.to_owned();
        let keeps_parked = AtomicBool::new(options.parked.is_some());
        Ok(Self { shared: Arc::new(Shared { connection: Connection::new(options), queue, keeps_parked }) })
    }
}

#[async_trait]
impl Source for SqsSource {
    fn capabilities(&self) -> SourceCapabilities {
        let keeps_parked = self.shared.keeps_parked.load(Ordering::Relaxed);
        let capabilities = SourceCapabilities::default().delivery_count(true).keeps_parked(keeps_parked);
        let is_fifo = self.shared.connection.options().is_fifo();
        capabilities.returns_in_order(is_fifo).system("aws_sqs")
    }

    fn name(&self) -> Option<&str> {
        Some(&self.shared.queue)
    }

    async fn subscribe(&self) -> Result<Box<dyn Subscription>> {
        Ok(Box::new(SqsSubscription::open(&self.shared).await?))
    }
}
