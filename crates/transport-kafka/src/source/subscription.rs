//! Waiting for messages: those that the task receives, and those that were given back here.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::Result;
use pillarbox_core::port::{Message, Position, Subscription};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::binding;

use super::Shared;
use super::driver::Driver;
use super::held::{Returned, Unanswered};
use super::receipt::KafkaReceipt;

/// A stream of messages.
pub(super) struct KafkaSubscription {
    shared: Arc<Shared>,
    /// No more than there are places for unanswered messages.
    arrived: mpsc::UnboundedReceiver<Result<Unanswered>>,
    returned: Arc<Returned>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl KafkaSubscription {
    pub(super) async fn open(shared: &Arc<Shared>) -> Result<Self> {
        let driver = Driver::open(shared).await?;
        let (messages, arrived) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(false);
        #[expect(
            clippy::disallowed_methods,
            reason = "the clients of other brokers start this task themselves: a member stays in its group while nobody \
                      waits"
        )]
        let task = Some(tokio::spawn(driver.run(messages, stopped)));
        Ok(Self { shared: Arc::clone(shared), arrived, returned: Arc::default(), stop, task })
    }

    fn message(&self, held: Unanswered) -> Message {
        let record = &held.record;
        let count = self.shared.counts.next(record);
        let stream = format!("{}/{}", record.topic, record.partition);
        let position = Some(Position { stream, offset: record.offset });
        let (mut attributes, headers) = binding::read(&record.headers);
        if record.value.is_none() {
            tracing::warn!(
                topic = %record.topic, partition = record.partition, offset = record.offset,
                "a record without a value (a tombstone) is no event; it is parked or passed over"
            );
            attributes.clear();
        }
        Message {
            attributes,
            headers,
            body: record.value.clone().map(Vec::from).unwrap_or_default(),
            delivery_count: Some(count),
            position,
            receipt: Box::new(KafkaReceipt::new(&self.shared, &self.returned, held)),
        }
    }
}

#[async_trait]
impl Subscription for KafkaSubscription {
    async fn next(&mut self) -> Result<Option<Message>> {
        loop {
            // First what was given back: it came before all that arrives now.
            let held = match self.returned.pop() {
                Some(held) => Some(held),
                None => tokio::select! {
                    biased;
                    arrived = self.arrived.recv() => match arrived {
                        Some(arrived) => self.returned.arrive(arrived?),
                        None => return Ok(None),
                    },
                    () = self.returned.changed() => None,
                },
            };
            // What was lost meanwhile goes to the partition's new owner.
            if let Some(held) = held.filter(|held| !held.partition.is_lost()) {
                return Ok(Some(self.message(held)));
            }
        }
    }

    async fn close(&mut self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task.take() {
            // The task bounds each of its steps itself: the last commit, and leaving the group.
            let bound = self.shared.options.connect_timeout * 2;
            let _ = tokio::time::timeout(bound, task).await;
        }
    }
}

impl Drop for KafkaSubscription {
    fn drop(&mut self) {
        // The task commits what was answered and leaves the group.
        self.stop.send_replace(true);
    }
}
