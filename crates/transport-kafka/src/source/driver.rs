//! The task of a subscription: it stays in the group, receives, and commits what was answered.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use krafka::consumer::{
    AutoOffsetReset, Consumer, ConsumerRebalanceListener, IsolationLevel, OffsetAndMetadata,
    PartitionAssignmentStrategy, TopicPartition,
};
use krafka::{CloseOptions, ConsumerRecord, KrafkaError};
use pillarbox_core::{Error, Result};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;

use crate::connection::connect;
use crate::error;

use super::Shared;
use super::held::{Partition, Partitions, Unanswered};

/// How long the server holds a question for messages. Answers are committed in between.
const POLL: Duration = Duration::from_millis(200);
/// How long to wait for a place while none is free. The task stays in the group meanwhile.
const PAUSE: Duration = Duration::from_millis(50);
/// How often answers are committed while messages flow.
const COMMIT_EVERY: Duration = Duration::from_millis(100);
/// How often the server hears of a member. It learns of a change in the group by the answer.
const HEARTBEAT_MAX: Duration = Duration::from_secs(1);

/// What the task and its subscription have in common.
pub(super) struct Driver {
    shared: Arc<Shared>,
    consumer: Arc<Consumer>,
    partitions: Arc<Partitions>,
    /// Places for unanswered messages.
    places: Arc<Semaphore>,
}

/// Commits what was answered before a partition goes, and closes it for answers.
struct Handover {
    topic: String,
    partitions: Arc<Partitions>,
    consumer: OnceLock<Weak<Consumer>>,
}

impl ConsumerRebalanceListener for Handover {
    async fn on_partitions_assigned(&self, _partitions: &[TopicPartition]) {}

    async fn on_partitions_revoked(&self, partitions: &[TopicPartition]) {
        if let Some(consumer) = self.consumer.get().and_then(Weak::upgrade) {
            let _ = commit(&consumer, &self.topic, &self.partitions).await;
        }
        self.partitions.lose(partitions.iter().map(|partition| partition.partition));
    }

    async fn on_partitions_lost(&self, partitions: &[TopicPartition]) {
        self.partitions.lose(partitions.iter().map(|partition| partition.partition));
    }
}

impl Driver {
    /// Connects, finds the topic, and says that it is to be consumed. The group is joined by the first poll.
    pub(super) async fn open(shared: &Arc<Shared>) -> Result<Self> {
        let options = &shared.options;
        let address = options.address();
        let failed = |cause: KrafkaError| error::connecting(&cause, &address);
        let kafka = connect(options).await?;
        let partitions = Arc::new(Partitions::default());
        let (topic, consumer) = (shared.topic.clone(), OnceLock::new());
        let handover = Arc::new(Handover { topic, partitions: Arc::clone(&partitions), consumer });
        let start = if options.starts_late()? { AutoOffsetReset::Latest } else { AutoOffsetReset::Earliest };
        let consumer = kafka
            .consumer(&shared.group)
            .enable_auto_commit(false)
            .auto_offset_reset(start)
            .isolation_level(IsolationLevel::ReadCommitted)
            .partition_assignment_strategy(PartitionAssignmentStrategy::CooperativeSticky)
            .session_timeout(options.session_timeout)
            .heartbeat_interval(HEARTBEAT_MAX.min(options.session_timeout / 3))
            .max_poll_records(i32::from(i16::MAX).min(i32::from(options.prefetch)))
            .fetch_max_wait(POLL)
            .metrics_push(false)
            .rebalance_listener(Arc::clone(&handover))
            .build();
        let opening = async {
            let consumer = Arc::new(consumer.await.map_err(failed)?);
            let _ = handover.consumer.set(Arc::downgrade(&consumer));
            let found = consumer.fetch_metadata(Some(&shared.topic)).await.map_err(failed)?;
            if found.topics.is_empty() {
                return Err(failed(KrafkaError::unknown_topic(shared.topic.clone())));
            }
            consumer.subscribe([&shared.topic]).await.map_err(failed)?;
            Ok(consumer)
        };
        let consumer = tokio::time::timeout(options.connect_timeout, opening).await;
        let consumer = consumer.map_err(|_| error::unanswered("subscribing at", &address))??;
        let places = Arc::new(Semaphore::new(usize::from(options.prefetch)));
        Ok(Self { shared: Arc::clone(shared), consumer, partitions, places })
    }

    /// Receives until told to stop, and leaves the group then.
    pub(super) async fn run(
        self,
        messages: mpsc::UnboundedSender<Result<Unanswered>>,
        mut stop: watch::Receiver<bool>,
    ) {
        let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
        tokio::select! {
            biased;
            () = stopped => {}
            failure = self.receive(&messages) => drop(messages.send(Err(failure))),
        }
        let _ = self.commit().await;
        let bound = self.shared.options.connect_timeout;
        if let Err(error) = self.consumer.close_with(CloseOptions::new().timeout(bound)).await {
            tracing::debug!(%error, "the consumer left its group without an answer");
        }
        self.partitions.lose_all();
    }

    async fn receive(&self, messages: &mpsc::UnboundedSender<Result<Unanswered>>) -> Error {
        // Messages that wait for a place.
        let mut arrived: VecDeque<(ConsumerRecord, Arc<Partition>)> = VecDeque::new();
        let mut last_commit = Instant::now();
        let mut is_away = false;
        loop {
            while let Some((record, partition)) = arrived.pop_front() {
                if partition.is_lost() {
                    continue;
                }
                match Arc::clone(&self.places).try_acquire_owned() {
                    // Nobody listens: the subscription is gone, and nothing is committed for it.
                    Ok(place) => drop(messages.send(Ok(Unanswered { record, partition, _place: place }))),
                    Err(_) => {
                        arrived.push_front((record, partition));
                        break;
                    }
                }
            }
            let has_room = arrived.is_empty() && self.places.available_permits() > 0;
            let polled = self.poll(has_room).await;
            if last_commit.elapsed() >= COMMIT_EVERY || polled.as_ref().is_ok_and(Vec::is_empty) {
                if let Err(refused) = self.commit().await {
                    self.partitions.lose_all();
                    return error::left_behind(&refused, &self.shared.topic);
                }
                last_commit = Instant::now();
            }
            match polled {
                Ok(records) => {
                    if mem::take(&mut is_away) {
                        tracing::info!(topic = %self.shared.topic, "the server answers again");
                    }
                    arrived.extend(records.into_iter().map(|record| {
                        let partition = self.partitions.receive(&record, &self.shared.counts);
                        (record, partition)
                    }));
                }
                Err(error) if error.is_retriable() => {
                    // Once for all attempts of an outage.
                    if !mem::replace(&mut is_away, true) {
                        tracing::warn!(
                            topic = %self.shared.topic, %error,
                            "the server does not answer; the consumer tries again until it does"
                        );
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return error::consuming(&error, &self.shared.options.address()),
            }
        }
    }

    /// Stays in the group, and receives if there is room.
    async fn poll(&self, has_room: bool) -> Result<Vec<ConsumerRecord>, KrafkaError> {
        let topic = &self.shared.topic;
        if has_room {
            return self.consumer.poll(POLL).await;
        }
        let assigned = self.consumer.assignment().await;
        let numbers = assigned.get(topic).map(Vec::as_slice).unwrap_or_default();
        self.consumer.pause(topic, numbers).await;
        let polled = tokio::select! {
            biased;
            _ = self.places.acquire(), if self.places.available_permits() == 0 => Ok(Vec::new()),
            polled = self.consumer.poll(PAUSE) => polled,
        };
        self.consumer.resume(topic, numbers).await;
        polled
    }

    async fn commit(&self) -> Result<(), KrafkaError> {
        commit(&self.consumer, &self.shared.topic, &self.partitions).await
    }
}

/// Commits each partition up to its first unanswered message. What is not committed comes again, and the inbox knows it.
///
/// It fails if the group went on without this member. The client joins again then and tells nobody that its partitions
/// were another member's in between, so only a new subscription knows again where they stand.
async fn commit(consumer: &Consumer, topic: &str, partitions: &Partitions) -> Result<(), KrafkaError> {
    let to_commit = partitions.to_commit();
    if to_commit.is_empty() {
        return Ok(());
    }
    let offsets = to_commit.iter().map(|(partition, offset)| {
        (TopicPartition::new(topic, partition.number), OffsetAndMetadata::new(*offset))
    });
    let offsets = offsets.collect::<Vec<_>>();
    let generation = async || consumer.group_metadata().await.map(|member| member.generation_id());
    let before = generation().await;
    match consumer.commit_offsets(offsets).await {
        Ok(()) => to_commit.iter().for_each(|(partition, offset)| partition.committed(*offset)),
        Err(error) if error::is_left_behind(&error) && before == generation().await => return Err(error),
        Err(error) => tracing::debug!(%error, "offsets were not committed; they are tried again"),
    }
    Ok(())
}
