//! Reading all that a stream of RabbitMQ holds.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer};
use pillarbox_core::port::{Pages, Transcript};
use pillarbox_core::{Attributes, Error, ErrorKind, Result, RouteName};

use crate::binding;
use crate::connection::{Link, within};
use crate::error::Fault;
use crate::options::Options;

/// A broker that sends nothing for this long, and answers a question after that, has no more to send.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// All messages that a stream of RabbitMQ holds, in their order. Whoever consumes the stream does not notice. A queue
/// of another kind forgets what was consumed, so that it is no record of what arrived.
pub struct AmqpTranscript {
    options: Options,
    queue: ShortString,
}

impl AmqpTranscript {
    /// The transcript of this URL, such as `amqp://127.0.0.1/%2f?queue=orders`.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the part of the URL that is wrong.
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(Options::of_transcript(url)?)
    }

    /// Where a sink of this URL puts the entries of a route, if it publishes to the default exchange: that one routes
    /// to the queue of the routing key's name.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) when the URL does not say which queue gets them.
    pub fn of_sink(url: &str, route: &RouteName) -> Result<Self> {
        let mut options = Options::of_sink(url)?;
        let routing_key = options.routing_key.of_route(route);
        options.queue = match (options.exchange.constant(), routing_key.constant()) {
            (Some(""), Some(queue)) => Some(queue.to_owned()),
            _ => {
                return Err(Error::invalid(
                    "which queue gets what is published to this exchange is not in the URL",
                ));
            }
        };
        Self::with_options(options)
    }

    fn with_options(options: Options) -> Result<Self> {
        options.check()?;
        let queue = options.queue.clone().unwrap_or_default();
        let queue =
            ShortString::try_new(queue).map_err(|error| Error::invalid(format!("queue=: {error}")))?;
        Ok(Self { options, queue })
    }

    /// How many messages there are, and a consumer that begins with the first of them. None of what is no stream.
    async fn consume(&self, link: &Link) -> Result<Option<(Channel, Consumer, u64)>, Fault> {
        let limit = self.options.connect_timeout;
        let consuming = async {
            let channel = link.connection.create_channel().await?;
            // First, so that nothing is declared that is not there.
            let messages = count(&channel, &self.queue).await?;
            if is_no_stream(link, &self.queue).await? {
                return Ok(None);
            }
            channel.basic_qos(self.options.prefetch, BasicQosOptions::default()).await?;
            let (queue, tag) = (self.queue.clone(), ShortString::default());
            let manner = BasicConsumeOptions::default();
            let consumer = channel.basic_consume(queue, tag, manner, binding::from_the_first()).await?;
            Ok(Some((channel, consumer, messages)))
        };
        within(limit, "consume", consuming).await
    }
}

/// Whether a queue that is there is known not to be a stream. The broker does not tell, but it refuses to declare a
/// queue as what it is not, and says why.
async fn is_no_stream(link: &Link, queue: &ShortString) -> lapin::Result<bool> {
    let channel = link.connection.create_channel().await?;
    let stream = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    match channel.queue_declare(queue.clone(), stream, binding::of_a_stream()).await {
        // Streams may differ in other arguments, but never in these.
        Err(error) => Ok(["'x-queue-type'", "'durable'", "'exclusive'", "'auto_delete'"]
            .iter()
            .any(|argument| error.to_string().contains(argument))),
        Ok(_) => Ok(false),
    }
}

/// The messages of a queue that is there.
async fn count(channel: &Channel, queue: &ShortString) -> lapin::Result<u64> {
    let look = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let told = channel.queue_declare(queue.clone(), look, FieldTable::default()).await?;
    Ok(told.message_count().into())
}

#[async_trait]
impl Transcript for AmqpTranscript {
    async fn open(&self) -> Result<Box<dyn Pages>> {
        let doing = format!("read stream {:?}", self.queue.as_str());
        let link = Link::open(&self.options).await.map_err(|fault| fault.into_error(&doing))?;
        let consuming = self.consume(&link).await;
        let Some((channel, consumer, total)) = consuming.map_err(|fault| fault.into_error(&doing))? else {
            return Err(no_stream(&self.queue));
        };
        let (queue, page) = (self.queue.clone(), usize::from(self.options.prefetch.div_ceil(2)));
        let limit = self.options.connect_timeout;
        Ok(Box::new(Stream {
            channel,
            consumer,
            queue,
            limit,
            page,
            total,
            first: None,
            ended: total == 0,
            _link: link,
        }))
    }
}

/// A stream that is being read.
struct Stream {
    channel: Channel,
    consumer: Consumer,
    queue: ShortString,
    /// How long a question to the broker may take.
    limit: Duration,
    /// Messages that are answered together: half of what may be unanswered, so that others are under way meanwhile.
    page: usize,
    total: u64,
    /// The offset of the oldest message.
    first: Option<u64>,
    ended: bool,
    _link: Link,
}

impl Stream {
    /// The next message; none when the stream is at its end.
    async fn message(&mut self) -> Result<Option<Delivery>> {
        match tokio::time::timeout(SILENCE_MAX, self.consumer.next()).await {
            Ok(Some(Ok(delivery))) => Ok(Some(delivery)),
            Ok(Some(Err(error))) => Err(Fault::from(error).into_error("receive")),
            Ok(None) => Err(Error::new(ErrorKind::Unavailable, "the broker ended the stream")),
            // The last offsets of a stream may be the broker's own notes, which it sends to nobody.
            Err(_) => {
                let asking = count(&self.channel, &self.queue);
                let answer = within(self.limit, "count", asking).await;
                answer.map(|_| None).map_err(|fault| fault.into_error("receive"))
            }
        }
    }

    /// Whether this is the last message that was there when the stream was opened.
    fn is_last(&mut self, offset: u64) -> bool {
        let first = *self.first.get_or_insert(offset);
        offset.saturating_add(1) >= first.saturating_add(self.total)
    }
}

#[async_trait]
impl Pages for Stream {
    fn total(&self) -> Option<u64> {
        Some(self.total)
    }

    fn deleted(&self) -> u64 {
        self.first.unwrap_or(0)
    }

    async fn next(&mut self) -> Result<Vec<Attributes>> {
        let mut page = Vec::with_capacity(self.page);
        let mut last = None;
        while !self.ended && page.len() < self.page {
            let Some(delivery) = self.message().await? else {
                self.ended = true;
                break;
            };
            let Some(offset) = binding::stream_offset(&delivery.properties) else {
                return Err(no_stream(&self.queue));
            };
            self.ended = self.is_last(offset);
            page.push(binding::read(&delivery.properties).0);
            last = Some(delivery.acker);
        }
        if let Some(acker) = last {
            // A stream forgets nothing by it: the broker sends the next ones.
            let acknowledged = acker.ack(BasicAckOptions { multiple: true }).await;
            acknowledged.map_err(|error| Fault::from(error).into_error("acknowledge"))?;
        }
        Ok(page)
    }
}

fn no_stream(queue: &ShortString) -> Error {
    let text = format!(
        "queue {:?} is no stream: it forgets what was consumed, so that it is no record of what arrived",
        queue.as_str()
    );
    Error::new(ErrorKind::Unsupported, text)
}
