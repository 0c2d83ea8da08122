//! Waiting for messages: those that the server sends, and those that were given back here.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{Message, Position, Subscription};
use pillarbox_core::{Error, Result};
use rumqttc::mqttbytes::v5::SubscribeReasonCode;
use rumqttc::{Publish, QoS, RetainForwardRule, SubscribeFilterInput};
use tokio::sync::mpsc;

use crate::binding;
use crate::connection::{Live, resume};
use crate::error;

use super::Shared;
use super::held::{self, Returned};
use super::receipt::MqttReceipt;

/// A stream of messages.
pub(super) struct MqttSubscription {
    shared: Arc<Shared>,
    live: Live,
    /// No more than the receive maximum: the server waits for answers.
    arrived: mpsc::UnboundedReceiver<Publish>,
    returned: Arc<Returned>,
    /// The name of this connection among all that the session ever had, and how many messages it brought so far.
    stream: String,
    count: i64,
}

impl MqttSubscription {
    pub(super) async fn open(shared: &Arc<Shared>) -> Result<Self> {
        let (live, arrived, is_known) = resume(&shared.options, &shared.client_id).await?;
        if !is_known {
            tracing::info!(
                client_id = shared.client_id,
                "the server had no session of this name; messages that were published before now do not arrive"
            );
        }
        subscribe(&live, shared).await?;
        let stream = format!("{} {:016x}", shared.client_id, pillarbox_host::random_u64());
        Ok(Self { shared: Arc::clone(shared), live, arrived, returned: Arc::default(), stream, count: 0 })
    }

    fn message(&self, mut message: held::Message) -> Message {
        let count = self.shared.counts.next(&message);
        let kept = message.clone();
        let position = message.place.map(|offset| Position { stream: self.stream.clone(), offset });
        let (attributes, headers) = binding::read(message.publish.properties.take());
        Message {
            attributes,
            headers,
            body: message.publish.payload.into(),
            delivery_count: Some(count),
            position,
            receipt: Box::new(MqttReceipt::new(&self.shared, &self.live, &self.returned, kept)),
        }
    }

    fn lost(&self) -> Error {
        error::consumer_lost(self.live.why())
    }
}

/// Subscribes, also in a session that was there: the filter may have changed since.
async fn subscribe(live: &Live, shared: &Shared) -> Result<()> {
    // Retained messages are the last state of a topic and no events that are due to us.
    let filter = SubscribeFilterInput::new(&shared.filter, QoS::AtLeastOnce)
        .retain_forward_rule(RetainForwardRule::Never);
    let asking = async {
        let asked = live.client.subscribe_many_tracked([filter]).await;
        let asked = asked.map_err(|_| error::consumer_lost(live.why()))?;
        asked.wait_async().await.map_err(|cause| error::consumer_lost(&cause.to_string()))
    };
    let answer = tokio::select! {
        biased;
        () = live.lost() => return Err(error::consumer_lost(live.why())),
        answer = tokio::time::timeout(shared.options.connect_timeout, asking) => answer,
    };
    let answer = answer.map_err(|_| error::consumer_unanswered("subscribing"))??;
    match answer.return_codes.as_slice() {
        [SubscribeReasonCode::Success(QoS::AtLeastOnce | QoS::ExactlyOnce)] => Ok(()),
        [reason, ..] => Err(error::subscribing(*reason, &shared.filter)),
        [] => Err(error::subscribing(SubscribeReasonCode::Unspecified, &shared.filter)),
    }
}

#[async_trait]
impl Subscription for MqttSubscription {
    async fn next(&mut self) -> Result<Option<Message>> {
        loop {
            // First what was given back: it came before all that arrives now.
            if let Some(message) = self.returned.pop() {
                return Ok(Some(self.message(message)));
            }
            tokio::select! {
                biased;
                () = self.live.lost() => return Err(self.lost()),
                arrived = self.arrived.recv() => {
                    let publish = arrived.ok_or_else(|| self.lost())?;
                    self.count += 1;
                    let arrived = held::Message::arrived(publish, self.count);
                    if let Some(message) = self.returned.arrive(arrived) {
                        return Ok(Some(self.message(message)));
                    }
                }
                () = self.returned.changed() => {}
            }
        }
    }

    async fn close(&mut self) {
        let bound = self.shared.options.connect_timeout;
        // Once the server answers, it has our answers too, and sends again only what has none.
        self.live.echo(bound).await;
        self.live.leave(bound);
        let _ = tokio::time::timeout(bound, self.live.lost()).await;
    }
}

impl Drop for MqttSubscription {
    fn drop(&mut self) {
        // Writes the answers that wait, if the connection is still there.
        self.live.leave(self.shared.options.connect_timeout);
    }
}
