//! Reading all that a stream of RabbitMQ holds.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt};
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Acker, Channel, Consumer};
use pillarbox_core::port::{Pages, Transcript};
use pillarbox_core::{Attributes, Error, ErrorKind, Result, RouteName};

use crate::binding;
use crate::connection::{Link, within};
use crate::error::Fault;
use crate::options::Options;

/// AMQP 0-9-1: closed because the work is done.
const REPLY_SUCCESS: u16 = 200;
/// A broker that sends nothing for this long, and answers a question after that, has no more to send.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The same for a stream of which nothing has come yet, and so perhaps never will.
const EMPTY_AFTER: Duration = Duration::from_secs(5);
/// The same near the end, where there may well be no more.
const QUIET: Duration = Duration::from_millis(500);
/// Most messages of one chunk, by the format of streams. A broker tells only where the last chunk begins.
const CHUNK_MAX: u64 = 65_536;

/// All messages that a stream of RabbitMQ holds, in their order. Reading does not affect the stream's
/// consumers. A queue of another type drops consumed messages, so it is no record of what arrived.
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

    /// The transcript of the queue to which a sink of this URL delivers the entries of a route. The sink must
    /// publish to the default exchange: that exchange routes to the queue with the name of the routing key.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) when the URL does not say which queue gets the entries.
    pub fn of_sink(url: &str, route: &RouteName) -> Result<Self> {
        let mut options = Options::of_sink(url)?;
        let routing_key = options.routing_key.of_route(route);
        options.queue = match (options.exchange.constant(), routing_key.constant()) {
            (Some(""), Some(queue)) => Some(queue.to_owned()),
            _ => {
                return Err(Error::invalid(
                    "the URL names an exchange, not the queue that its messages reach",
                ));
            }
        };
        Self::with_options(options)
    }

    /// A transcript with these settings.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the setting that cannot work.
    pub fn with_options(options: Options) -> Result<Self> {
        options.check()?;
        let queue = options.queue.clone().unwrap_or_default();
        let queue =
            ShortString::try_new(queue).map_err(|error| Error::invalid(format!("queue=: {error}")))?;
        Ok(Self { options, queue })
    }

    /// A consumer that begins at the first message, or at the first of the last chunk.
    async fn consume(&self, link: &Link, from: &str) -> Result<(Channel, Consumer), Fault> {
        let consuming = async {
            let channel = link.connection.create_channel().await?;
            channel.basic_qos(self.options.prefetch, BasicQosOptions::default()).await?;
            let (queue, tag) = (self.queue.clone(), ShortString::default());
            let (manner, arguments) = (BasicConsumeOptions::default(), binding::from(from));
            let consumer = channel.basic_consume(queue, tag, manner, arguments).await?;
            Ok((channel, consumer))
        };
        within(self.options.connect_timeout, "consume", consuming).await
    }

    /// Refuses what is not there, and what is no stream as far as the broker says so.
    async fn check(&self, link: &Link) -> Result<()> {
        let looking = async {
            let channel = link.connection.create_channel().await?;
            // First, so that nothing is declared that is not there.
            look(&channel, &self.queue).await?;
            is_no_stream(link, &self.queue).await
        };
        let looked = within(self.options.connect_timeout, "look", looking).await;
        match looked.map_err(|fault| fault.into_error(&self.doing()))? {
            true => Err(no_stream(&self.queue)),
            false => Ok(()),
        }
    }

    /// Where the last chunk begins; none where nothing is.
    async fn last_chunk(&self, link: &Link) -> Result<Option<u64>> {
        let consuming = self.consume(link, "last").await;
        let (channel, mut consumer) = consuming.map_err(|fault| fault.into_error(&self.doing()))?;
        let Ok(message) = tokio::time::timeout(EMPTY_AFTER, consumer.next()).await else {
            let answer = within(self.options.connect_timeout, "look", look(&channel, &self.queue)).await;
            return answer.map(|()| None).map_err(|fault| fault.into_error(&self.doing()));
        };
        let offset = binding::stream_offset(&received(message)?.properties);
        // Its end takes along what else it was sent.
        let _ =
            within(self.options.connect_timeout, "close", channel.close(REPLY_SUCCESS, "seen".into())).await;
        offset.map(Some).ok_or_else(|| no_stream(&self.queue))
    }

    fn doing(&self) -> String {
        format!("read stream {:?}", self.queue.as_str())
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

/// Whether a queue is there, and the broker too. How many messages it tells is of no use: of a stream that is old news.
async fn look(channel: &Channel, queue: &ShortString) -> lapin::Result<()> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.clone(), passive, FieldTable::default()).await.map(drop)
}

#[async_trait]
impl Transcript for AmqpTranscript {
    async fn open(&self) -> Result<Box<dyn Pages>> {
        let link = Link::open(&self.options).await.map_err(|fault| fault.into_error(&self.doing()))?;
        self.check(&link).await?;
        let last_chunk = self.last_chunk(&link).await?;
        let consuming = self.consume(&link, "first").await;
        let (channel, consumer) = consuming.map_err(|fault| fault.into_error(&self.doing()))?;
        Ok(Box::new(Stream {
            channel,
            consumer,
            queue: self.queue.clone(),
            limit: self.options.connect_timeout,
            page: usize::from(self.options.prefetch.div_ceil(2)),
            last_chunk: last_chunk.unwrap_or(0),
            first: None,
            newest: None,
            unanswered: None,
            ended: last_chunk.is_none(),
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
    /// Where the last chunk of those that were there at the beginning begins.
    last_chunk: u64,
    /// The offset of the oldest message, and of the newest that was read.
    first: Option<u64>,
    newest: Option<u64>,
    /// The answer to all that was read and not answered yet.
    unanswered: Option<Acker>,
    ended: bool,
    _link: Link,
}

impl Stream {
    /// The next message; none when the stream is at its end.
    async fn message(&mut self) -> Result<Option<Delivery>> {
        if let Some(message) = self.consumer.next().now_or_never() {
            return received(message).map(Some);
        }
        self.answer().await?;
        let near_the_end = self.newest >= Some(self.last_chunk);
        if near_the_end {
            // What the answer lets through is sent before the next question is answered.
            self.ask().await?;
        }
        let patience = if near_the_end { QUIET } else { SILENCE_MAX };
        match tokio::time::timeout(patience, self.consumer.next()).await {
            Ok(message) => received(message).map(Some),
            // The last offsets of a stream may be the broker's own notes, which it sends to no consumer.
            Err(_) => self.ask().await.map(|()| None),
        }
    }

    /// Whether the broker is there.
    async fn ask(&self) -> Result<()> {
        let answer = within(self.limit, "look", look(&self.channel, &self.queue)).await;
        answer.map_err(|fault| fault.into_error("receive"))
    }

    /// Lets the broker send more. A stream forgets nothing by it.
    async fn answer(&mut self) -> Result<()> {
        if let Some(acker) = self.unanswered.take() {
            let answered = acker.ack(BasicAckOptions { multiple: true }).await;
            answered.map_err(|error| Fault::from(error).into_error("acknowledge"))?;
        }
        Ok(())
    }
}

fn received(message: Option<lapin::Result<Delivery>>) -> Result<Delivery> {
    match message {
        Some(Ok(delivery)) => Ok(delivery),
        Some(Err(error)) => Err(Fault::from(error).into_error("receive")),
        None => Err(Error::new(ErrorKind::Unavailable, "the broker ended the stream")),
    }
}

#[async_trait]
impl Pages for Stream {
    fn total(&self) -> Option<u64> {
        Some(self.last_chunk.saturating_add(1)).filter(|_| !self.ended)
    }

    fn deleted(&self) -> u64 {
        self.first.unwrap_or(0)
    }

    async fn next(&mut self) -> Result<Vec<Attributes>> {
        let mut page = Vec::with_capacity(self.page);
        while !self.ended && page.len() < self.page {
            let Some(delivery) = self.message().await? else {
                self.ended = true;
                break;
            };
            let offset = binding::stream_offset(&delivery.properties);
            let offset = offset.ok_or_else(|| no_stream(&self.queue))?;
            self.first.get_or_insert(offset);
            self.newest = Some(offset);
            page.push(binding::read(&delivery.properties, None).0);
            self.unanswered = Some(delivery.acker);
            // Whatever comes by now was not there at the beginning.
            self.ended = offset >= self.last_chunk.saturating_add(CHUNK_MAX);
        }
        self.answer().await?;
        Ok(page)
    }
}

fn no_stream(queue: &ShortString) -> Error {
    let text = format!(
        "queue {:?} is not a stream: it deletes consumed messages, so it does not record what arrived",
        queue.as_str()
    );
    Error::new(ErrorKind::Unsupported, text)
}
