//! The answer to a message.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use krafka::producer::Record;
use pillarbox_core::port::Receipt;
use pillarbox_core::{Error, ErrorKind, Result};

use crate::connection::Connection;
use crate::error;

use super::Shared;
use super::held::{Returned, Unanswered};

/// The headers of a parked copy that tell where the message came from.
const PARKED_TOPIC: &str = "pillarbox-parked-topic";
const PARKED_PARTITION: &str = "pillarbox-parked-partition";
const PARKED_OFFSET: &str = "pillarbox-parked-offset";

/// Answers one message. Dropped without an answer it gives the message back.
pub(super) struct KafkaReceipt {
    shared: Arc<Shared>,
    returned: Arc<Returned>,
    /// `None` once it is answered.
    held: Option<Unanswered>,
}

impl KafkaReceipt {
    pub(super) fn new(shared: &Arc<Shared>, returned: &Arc<Returned>, held: Unanswered) -> Self {
        Self { shared: Arc::clone(shared), returned: Arc::clone(returned), held: Some(held) }
    }

    /// Lets the offset of the message be committed. If the commit is lost, the message comes again.
    fn answer(&mut self) -> Result<()> {
        let Some(Unanswered { record, partition, .. }) = self.held.take() else { return Ok(()) };
        if !partition.answer(record.offset) {
            return Err(error::partition_lost(&record.topic, record.partition));
        }
        self.shared.counts.forget(record.partition, record.offset);
        Ok(())
    }

    fn give_back(&mut self, delay: Duration) {
        if let Some(held) = self.held.take()
            && !held.partition.is_lost()
        {
            self.returned.push(held, delay);
        }
    }
}

#[async_trait]
impl Receipt for KafkaReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.answer()
    }

    async fn nack(mut self: Box<Self>) -> Result<()> {
        let delay = self.shared.options.nack_delay;
        self.give_back(delay);
        Ok(())
    }

    async fn park(mut self: Box<Self>) -> Result<()> {
        if let (Some((connection, topic)), Some(held)) = (&self.shared.parking, &self.held) {
            keep(connection, topic, held).await?;
        }
        self.answer()
    }
}

impl Drop for KafkaReceipt {
    fn drop(&mut self) {
        let delay = self.shared.options.nack_delay;
        self.give_back(delay);
    }
}

/// Publishes a copy to the topic of what was parked, and waits until it is there.
async fn keep(connection: &Connection, topic: &str, held: &Unanswered) -> Result<()> {
    let live = connection.live().await?;
    let record = &held.record;
    let mut copy = Record::new(topic, "");
    (copy.key, copy.value, copy.headers) = (record.key.clone(), record.value.clone(), record.headers.clone());
    let copy = copy
        .header(PARKED_TOPIC, record.topic.to_string())
        .header(PARKED_PARTITION, record.partition.to_string())
        .header(PARKED_OFFSET, record.offset.to_string());
    let kept = tokio::time::timeout(connection.options().connect_timeout, live.send(copy)).await;
    let refused = |why: &str| {
        let text = format!("the message cannot be parked in {topic:?}: {why}. Check parked=");
        Error::new(ErrorKind::Unavailable, text).with_code("parked")
    };
    match kept {
        Ok(Ok(())) => Ok(()),
        Ok(Err(cause)) => {
            let outcome = error::unconfirmed(&cause, topic, true);
            Err(refused(
                &outcome.and_then(|outcome| Some(outcome.failure()?.to_string())).unwrap_or_default(),
            ))
        }
        Err(_) => {
            live.give_up();
            Err(refused("no answer in time"))
        }
    }
}
