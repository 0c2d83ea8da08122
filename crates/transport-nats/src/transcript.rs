//! Reading all that a stream holds, through a consumer that nobody else sees and that acknowledges nothing.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::{ConsumerErrorKind, RetentionPolicy, Stream};
use async_trait::async_trait;
use futures_util::StreamExt;
use pillarbox_core::port::{Pages, Transcript};
use pillarbox_core::{Attributes, Error, ErrorKind, Result, RouteName};

use crate::binding;
use crate::connection::{Connection, Live};
use crate::error;
use crate::options::Options;
use crate::source::{lost, stream};

/// Messages of one question. They come without their payloads.
const PAGE: u64 = 500;
/// How long the server keeps our consumer when nobody asks it: we may have died.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// A server that is silent for this long is taken to be gone.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// All messages that a stream holds of some subjects, in their order. Reading does not affect the stream's
/// consumers.
pub struct NatsTranscript {
    options: Options,
    subject: String,
}

impl NatsTranscript {
    /// The transcript of this URL, such as `nats://127.0.0.1:4222/orders.>?stream=ORDERS`.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the part of the URL that is wrong.
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(Options::of_transcript(url)?)
    }

    /// The transcript of the subjects to which a sink of this URL delivers the entries of a route. If the
    /// subject contains placeholders such as `{type}`, these are all subjects that begin in the same way.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) when that could be any subject, and the URL names no stream.
    pub fn of_sink(url: &str, route: &RouteName) -> Result<Self> {
        Self::with_options(Options::of_sink(url)?.published(route)?)
    }

    /// A transcript with these settings.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the setting that cannot work.
    pub fn with_options(options: Options) -> Result<Self> {
        let subject = options.check_transcript()?.to_owned();
        Ok(Self { options, subject })
    }

    async fn prepare(&self, live: &Live) -> Result<(Stream, PullConsumer)> {
        let stream = stream(live, &self.options, &self.subject).await?;
        let config = &stream.cached_info().config;
        if config.retention != RetentionPolicy::Limits {
            let text = format!(
                "stream {:?} deletes consumed messages, so it does not record what arrived. Its retention \
                 must be by limits",
                config.name
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let wanted = pull::Config {
            filter_subject: self.subject.clone(),
            ack_policy: AckPolicy::None,
            deliver_policy: DeliverPolicy::All,
            headers_only: true,
            memory_storage: true,
            num_replicas: 1,
            inactive_threshold: FORGOTTEN_AFTER,
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(wanted).await.map_err(|cause| {
            let failed = match cause.kind() {
                ConsumerErrorKind::JetStream(refusal) => error::asking(&refusal),
                _ => error::unanswered(&cause),
            };
            failed.context(format!("stream {:?}", config.name))
        })?;
        Ok((stream, consumer))
    }
}

#[async_trait]
impl Transcript for NatsTranscript {
    async fn open(&self) -> Result<Box<dyn Pages>> {
        let connection = Connection::new(self.options.clone());
        let live = connection.live().await?;
        let mut denials = live.denials();
        let (stream, consumer) = tokio::select! {
            biased;
            prepared = self.prepare(&live) => prepared?,
            () = live.lost() => return Err(lost()),
            // The server does not answer what it refuses.
            denied = denials.next() => return Err(Error::new(ErrorKind::Denied, error::no_right(&denied))),
        };
        let total = consumer.cached_info().num_pending;
        let deleted = stream.cached_info().state.first_sequence.saturating_sub(1);
        Ok(Box::new(Messages { live, stream, consumer, total, left: total, deleted }))
    }
}

/// A stream that is being read.
struct Messages {
    live: Live,
    stream: Stream,
    consumer: PullConsumer,
    total: u64,
    /// Messages that were there when it was opened and are to be read.
    left: u64,
    deleted: u64,
}

impl Messages {
    async fn page(&mut self) -> Result<Vec<Attributes>> {
        let wanted = self.left.min(PAGE);
        let many = usize::try_from(wanted).unwrap_or(usize::MAX);
        let asked = self.consumer.batch().max_messages(many).expires(SILENCE_MAX).messages().await;
        let mut messages = asked.map_err(|cause| error::unanswered(&cause))?;
        let mut page = Vec::with_capacity(many);
        while let Some(message) = messages.next().await {
            let message = message.map_err(|cause| error::unanswered(&cause))?;
            self.left -= 1;
            if let Ok(info) = message.info() {
                // Some may have been deleted since.
                self.left = self.left.min(info.pending);
            }
            page.push(message.headers.as_ref().map(binding::read).unwrap_or_default().0);
            if self.left == 0 {
                break;
            }
        }
        Ok(page)
    }
}

#[async_trait]
impl Pages for Messages {
    fn total(&self) -> Option<u64> {
        Some(self.total)
    }

    fn deleted(&self) -> u64 {
        self.deleted
    }

    async fn next(&mut self) -> Result<Vec<Attributes>> {
        if self.left == 0 {
            // It would be forgotten by itself, a little later.
            let _ = self.stream.delete_consumer(&self.consumer.cached_info().name).await;
            return Ok(Vec::new());
        }
        let (live, left) = (self.live.clone(), self.left);
        let page = tokio::select! {
            biased;
            page = self.page() => page?,
            () = live.lost() => return Err(lost()),
        };
        if page.is_empty() {
            let text =
                format!("the server sent nothing for {SILENCE_MAX:?}, but {left} messages are still to come");
            return Err(Error::new(ErrorKind::Timeout, text).with_code("no_answer"));
        }
        Ok(page)
    }
}
