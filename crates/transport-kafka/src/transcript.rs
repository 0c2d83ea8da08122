//! Reading all that a topic holds, without a group.

use std::collections::VecDeque;
use std::future::Future;

use async_trait::async_trait;
use krafka::KrafkaError;
use krafka::consumer::{AutoOffsetReset, Consumer, IsolationLevel};
use pillarbox_core::port::{Pages, Transcript};
use pillarbox_core::{Attributes, Result, RouteName};

use crate::connection::connect;
use crate::options::Options;
use crate::{binding, error};

/// Most records of a page.
const PAGE: i32 = 500;

/// All records that a topic holds, partition by partition, each in the order of its offsets. The records of one key are in
/// one partition. Reading does not affect the topic's consumers.
pub struct KafkaTranscript {
    options: Options,
    topic: String,
}

impl KafkaTranscript {
    /// The transcript of this URL, such as `kafka://127.0.0.1:9092/orders`.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part of the URL that is wrong.
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(Options::of_transcript(url)?)
    }

    /// The transcript of the topic to which a sink of this URL delivers the entries of a route.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid) when the entries do not all go to one topic.
    pub fn of_sink(url: &str, route: &RouteName) -> Result<Self> {
        let mut options = Options::of_sink(url)?;
        options.topic = options.topic.of_route(route);
        Self::with_options(options)
    }

    /// A transcript with these settings.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the setting that cannot work.
    pub fn with_options(options: Options) -> Result<Self> {
        options.check()?;
        let topic = options.constant_topic("a transcript reads one topic, so it")?.to_owned();
        Ok(Self { options, topic })
    }
}

#[async_trait]
impl Transcript for KafkaTranscript {
    async fn open(&self) -> Result<Box<dyn Pages>> {
        let kafka = connect(&self.options).await?;
        let building = kafka
            .consumer_without_group()
            .auto_offset_reset(AutoOffsetReset::Earliest)
            .isolation_level(IsolationLevel::ReadCommitted)
            .max_poll_records(PAGE)
            .metrics_push(false)
            .build();
        let options = self.options.clone();
        let consumer = bounded(&options, building).await?;
        let found = bounded(&options, consumer.fetch_metadata(Some(&self.topic))).await?;
        let Some(topic) = found.topics.into_iter().next() else {
            return Err(error::connecting(
                &KrafkaError::unknown_topic(self.topic.clone()),
                &options.address(),
            ));
        };
        let mut parts = Vec::new();
        for number in topic.partitions.into_values().map(|partition| partition.partition) {
            let (start, end) = bounded(&options, consumer.fetch_watermarks(&self.topic, number)).await?;
            parts.push(Part { number, start, end });
        }
        parts.sort_unstable_by_key(|part| part.number);
        let count = |offsets: i64| u64::try_from(offsets).unwrap_or(0);
        let total = parts.iter().map(|part| count(part.end - part.start)).sum();
        let deleted = parts.iter().map(|part| count(part.start)).sum();
        let parts = parts.into_iter().filter(|part| part.start < part.end).collect();
        let topic = self.topic.clone();
        Ok(Box::new(Records { options, consumer, topic, parts, is_assigned: false, total, deleted }))
    }
}

/// Waits for an answer as long as a question may take.
async fn bounded<T>(options: &Options, asking: impl Future<Output = Result<T, KrafkaError>>) -> Result<T> {
    let address = options.address();
    let answer = tokio::time::timeout(options.connect_timeout, asking).await;
    let answer = answer.map_err(|_| error::unanswered("reading from", &address))?;
    answer.map_err(|cause| error::connecting(&cause, &address))
}

/// What a partition held when the transcript was opened: offsets from `start`, without `end`.
struct Part {
    number: i32,
    start: i64,
    end: i64,
}

/// A topic that is being read.
struct Records {
    options: Options,
    consumer: Consumer,
    topic: String,
    /// What is left to read. The first one is being read.
    parts: VecDeque<Part>,
    /// Whether the consumer reads the first one.
    is_assigned: bool,
    total: u64,
    deleted: u64,
}

#[async_trait]
impl Pages for Records {
    fn total(&self) -> Option<u64> {
        Some(self.total)
    }

    fn deleted(&self) -> u64 {
        self.deleted
    }

    async fn next(&mut self) -> Result<Vec<Attributes>> {
        while let Some(&Part { number, start, end }) = self.parts.front() {
            if !self.is_assigned {
                bounded(&self.options, self.consumer.assign(&self.topic, vec![number])).await?;
                bounded(&self.options, self.consumer.seek(&self.topic, number, start)).await?;
                self.is_assigned = true;
            }
            let polled = self.consumer.poll(self.options.connect_timeout / 2);
            let records = bounded(&self.options, polled).await?;
            let position = self.consumer.position(&self.topic, number).await;
            if position.is_some_and(|position| position >= end) {
                self.parts.pop_front();
                self.is_assigned = false;
            } else if records.is_empty() {
                // To stop here would look as if the rest had never been delivered.
                let doing = format!("partition {number} of topic {:?} is read only up to", self.topic);
                return Err(error::unanswered(&doing, &format!("offset {position:?} of {end}")));
            }
            let held = records.into_iter().filter(|record| record.offset < end);
            let page: Vec<_> = held.map(|record| binding::read(&record.headers).0).collect();
            if !page.is_empty() {
                return Ok(page);
            }
        }
        Ok(Vec::new())
    }
}
