//! Consuming a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions, BasicRejectOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{Acker, Channel, Consumer};
use pillarbox_core::port::{Message, Position, Receipt, Source, SourceCapabilities, Subscription};
use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::Lazy;

use crate::binding;
use crate::connection::{Link, within};
use crate::error::Fault;
use crate::options::{HeaderPrefix, Options, QueueType};

/// AMQP 0-9-1: closed because the work is done.
const REPLY_SUCCESS: u16 = 200;

/// Consumes one queue of RabbitMQ, classic or quorum. Several consumers share a queue's messages.
///
/// A failed message goes back to the queue, near its head. A parked message is rejected, and the queue's
/// dead-letter exchange gets it. If the queue has no dead-letter exchange, the parked message is lost.
pub struct AmqpSource {
    options: Arc<Options>,
    queue: ShortString,
    link: Lazy<Arc<Link>, Fault>,
    /// Whether the queue counts deliveries, as far as is known.
    counts: Arc<AtomicBool>,
}

impl AmqpSource {
    /// A source from `amqp://host/vhost?queue=…`. This only checks the URL. The source connects when a
    /// consumer subscribes.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the part of the URL and what is allowed.
    ///
    /// ```
    /// use pillarbox_transport_amqp::AmqpSource;
    ///
    /// let source = AmqpSource::new("amqp://127.0.0.1/%2f?queue=billing")?;
    /// # Ok::<_, pillarbox_core::Error>(())
    /// ```
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(Options::of_source(url)?)
    }

    /// A source with these settings.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the setting.
    pub fn with_options(options: Options) -> Result<Self> {
        options.check()?;
        let queue = options.queue.clone().unwrap_or_default();
        let queue =
            ShortString::try_new(queue).map_err(|error| Error::invalid(format!("queue=: {error}")))?;
        let counts = Arc::new(AtomicBool::new(options.queue_type == Some(QueueType::Quorum)));
        Ok(Self { options: Arc::new(options), queue, link: Lazy::new(), counts })
    }

    async fn consume(&self) -> Result<(Arc<Link>, Channel, Consumer), Fault> {
        let open = || {
            let options = Arc::clone(&self.options);
            async move { Link::open(&options).await.map(Arc::new) }
        };
        let link = self.link.get(|link| link.is_up(), open).await?;
        let consuming = async {
            let channel = link.connection.create_channel().await?;
            channel.basic_qos(self.options.prefetch, BasicQosOptions::default()).await?;
            let (queue, tag) = (self.queue.clone(), ShortString::default());
            let (manner, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
            let consumer = channel.basic_consume(queue, tag, manner, arguments).await?;
            Ok((channel, consumer))
        };
        match within(self.options.connect_timeout, "consume", consuming).await {
            Ok((channel, consumer)) => Ok((link, channel, consumer)),
            Err(fault) => {
                if fault.is_silence() {
                    link.give_up();
                }
                Err(fault)
            }
        }
    }
}

#[async_trait]
impl Source for AmqpSource {
    /// A delivery count where the queue was said or seen to be a quorum queue. Whether a parked message is kept
    /// depends on the queue's dead-letter exchange, which the broker does not tell.
    fn capabilities(&self) -> SourceCapabilities {
        let counts = self.counts.load(Ordering::Relaxed);
        SourceCapabilities::default().delivery_count(counts).system("rabbitmq")
    }

    fn name(&self) -> Option<&str> {
        Some(self.queue.as_str())
    }

    async fn subscribe(&self) -> Result<Box<dyn Subscription>> {
        let consuming = self.consume().await;
        let (link, channel, consumer) = consuming
            .map_err(|fault| fault.into_error(&format!("consume queue {:?}", self.queue.as_str())))?;
        let counts = Arc::clone(&self.counts);
        let limit = self.options.connect_timeout;
        let prefix = self.options.header_prefix;
        Ok(Box::new(Stream { consumer, counts, channel, prefix, limit, _link: link }))
    }
}

/// An open stream. Dropping it closes the channel, and the broker takes back what was not answered.
struct Stream {
    consumer: Consumer,
    counts: Arc<AtomicBool>,
    channel: Channel,
    /// The prefix of attributes, if only one counts.
    prefix: Option<HeaderPrefix>,
    /// How long its end waits for the broker.
    limit: Duration,
    _link: Arc<Link>,
}

impl Stream {
    fn message(&self, delivery: Delivery) -> Message {
        let (attributes, headers) = binding::read(&delivery.properties, self.prefix);
        let counted = binding::delivery_count(&delivery.properties);
        if counted.is_some() {
            self.counts.store(true, Ordering::Relaxed);
        }
        // A quorum queue of RabbitMQ 3 says nothing the first time. A classic one only ever says that there was an
        // earlier time, which is no count.
        let first = || (self.counts.load(Ordering::Relaxed) && !delivery.redelivered).then_some(1);
        // What was not delivered before comes in the order of the queue, and so do the numbers of a channel's deliveries.
        let position = i64::try_from(delivery.delivery_tag).ok().filter(|_| !delivery.redelivered);
        Message {
            attributes,
            headers,
            delivery_count: counted.or_else(first),
            position: position.map(|offset| Position { stream: self.consumer.tag().to_string(), offset }),
            body: delivery.data,
            receipt: Box::new(Slip(delivery.acker)),
        }
    }
}

#[async_trait]
impl Subscription for Stream {
    async fn next(&mut self) -> Result<Option<Message>> {
        match self.consumer.next().await {
            Some(Ok(delivery)) => Ok(Some(self.message(delivery))),
            Some(Err(error)) => Err(Fault::from(error).into_error("receive")),
            None => Ok(None),
        }
    }

    /// The broker says that the channel is closed after it has taken the answers before it, so that none of them is
    /// lost with the connection.
    async fn close(&mut self) {
        let closing = self.channel.close(REPLY_SUCCESS, "done".into());
        let _ = within(self.limit, "close", closing).await;
    }
}

/// The answer to one delivery.
struct Slip(Acker);

/// An answer on a channel that is gone is lost.
fn taken(answered: lapin::Result<bool>) -> Result<()> {
    match answered {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::new(
            ErrorKind::Unavailable,
            "the channel is closed; the broker delivers the message again",
        )),
        Err(error) => Err(Fault::from(error).into_error("answer")),
    }
}

#[async_trait]
impl Receipt for Slip {
    async fn ack(self: Box<Self>) -> Result<()> {
        taken(self.0.ack(BasicAckOptions::default()).await)
    }

    async fn nack(self: Box<Self>) -> Result<()> {
        taken(self.0.nack(BasicNackOptions { multiple: false, requeue: true }).await)
    }

    async fn park(self: Box<Self>) -> Result<()> {
        taken(self.0.reject(BasicRejectOptions { requeue: false }).await)
    }
}
