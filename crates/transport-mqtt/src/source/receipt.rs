//! The answer to a message.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::Receipt;
use pillarbox_core::{Error, ErrorKind, Outcome, Result};
use rumqttc::{ManualAck, PubAckReason, Publish, PublishNoticeError, PublishOptions, PublishResult};

use crate::connection::{Connection, Live};
use crate::error;

use super::Shared;
use super::held::{Message, Returned};

/// The property of a parked copy that tells where the message came from.
const PARKED_TOPIC: &str = "pillarbox-parked-topic";

/// Answers one message. Dropped without an answer it gives the message back.
pub(super) struct MqttReceipt {
    shared: Arc<Shared>,
    live: Live,
    returned: Arc<Returned>,
    /// `None` once it is answered.
    message: Option<Message>,
}

impl MqttReceipt {
    pub(super) fn new(shared: &Arc<Shared>, live: &Live, returned: &Arc<Returned>, message: Message) -> Self {
        let (shared, returned) = (Arc::clone(shared), Arc::clone(returned));
        Self { shared, live: live.clone(), returned, message: Some(message) }
    }

    /// Hands the answer to the connection. MQTT does not confirm it; if it is lost, the message comes again.
    fn answer(&mut self, reason: PubAckReason) -> Result<()> {
        let Some(Message { publish, .. }) = self.message.take() else { return Ok(()) };
        if self.live.is_lost() {
            return Err(error::consumer_lost(self.live.why()));
        }
        self.shared.counts.forget(publish.pkid);
        // A message that was published with quality of service 0 has no answer.
        let Some(mut ack) = self.live.client.prepare_ack(&publish) else { return Ok(()) };
        if let ManualAck::PubAck(ack) = &mut ack {
            ack.reason = reason;
        }
        self.live.client.try_manual_ack(ack).map_err(|_| error::consumer_lost(self.live.why()))
    }

    fn give_back(&mut self, delay: Duration) {
        if let Some(message) = self.message.take()
            && !self.live.is_lost()
        {
            self.returned.push(message, delay);
        }
    }
}

#[async_trait]
impl Receipt for MqttReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.answer(PubAckReason::Success)
    }

    async fn nack(mut self: Box<Self>) -> Result<()> {
        let delay = self.shared.options.nack_delay;
        self.give_back(delay);
        Ok(())
    }

    async fn park(mut self: Box<Self>) -> Result<()> {
        if let (Some((connection, topic)), Some(message)) = (&self.shared.parking, &self.message) {
            keep(connection, topic, &message.publish).await?;
        }
        self.answer(PubAckReason::ImplementationSpecificError)
    }
}

impl Drop for MqttReceipt {
    fn drop(&mut self) {
        let delay = self.shared.options.nack_delay;
        self.give_back(delay);
    }
}

/// Publishes a copy to the topic of what was parked, and waits until a session has it.
async fn keep(connection: &Connection, topic: &str, publish: &Publish) -> Result<()> {
    let live = connection.live().await?;
    let mut properties = publish.properties.clone().unwrap_or_default();
    (properties.topic_alias, properties.subscription_identifiers) = (None, Vec::new());
    let from = String::from_utf8_lossy(&publish.topic).into_owned();
    properties.user_properties.push((PARKED_TOPIC.to_owned(), from));
    let options = PublishOptions::at_least_once().properties(properties);
    let notice = live.client.try_publish_tracked(topic, publish.payload.clone(), options);
    let notice = notice.map_err(|_| error::consumer_lost(live.why()))?;
    let answer = tokio::select! {
        biased;
        answer = tokio::time::timeout(connection.options().connect_timeout, notice.wait_async()) => answer,
        () = live.lost() => return Err(error::consumer_lost(live.why())),
    };
    let reason = match answer {
        Ok(Ok(PublishResult::Qos1(answer))) => answer.reason,
        Ok(Err(PublishNoticeError::V5PubAck(reason))) => reason,
        Ok(_) => return Err(error::consumer_lost(live.why())),
        Err(_) => {
            live.distrust();
            return Err(error::consumer_unanswered("parking a message"));
        }
    };
    let refused = |why: &str| {
        let text = format!("the message cannot be parked in {topic:?}: {why}");
        Error::new(ErrorKind::Unavailable, text).with_code("parked")
    };
    if reason == PubAckReason::NoMatchingSubscribers {
        return Err(refused(
            "nobody has subscribed to that topic, so it would be lost. Subscribe, or check parked=",
        ));
    }
    match error::answered(reason, topic) {
        Outcome::Confirmed => Ok(()),
        other => Err(refused(&other.failure().map(ToString::to_string).unwrap_or_default())),
    }
}
