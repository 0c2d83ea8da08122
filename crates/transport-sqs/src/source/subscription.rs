//! Waiting for messages that the subscription's task has received.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::types::{Message as Pulled, MessageSystemAttributeName, QueueAttributeName};
use pillarbox_core::port::{Message, Subscription};
use pillarbox_core::{Error, ErrorKind, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::binding::{self, Content};
use crate::connection::{Live, within};

use super::Shared;
use super::held::Number;
use super::pump::{Answer, Arrived, Command, Pump};
use super::receipt::{Parking, SqsReceipt};

/// How long closing waits for the request that is under way. If it takes longer, the messages that it still brings are
/// given back after that, or come again after `visibility` if the process has ended.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// A stream of messages.
pub(super) struct SqsSubscription {
    shared: Arc<Shared>,
    parking: Option<Arc<Parking>>,
    commands: mpsc::UnboundedSender<Command>,
    /// No more than `prefetch`.
    arrived: mpsc::UnboundedReceiver<Arrived>,
}

impl SqsSubscription {
    pub(super) async fn open(shared: &Arc<Shared>) -> Result<Self> {
        let live = shared.connection.queue(&shared.queue).await?;
        let parking = parking(shared, &live).await?;
        shared.keeps_parked.store(parking.is_some(), Ordering::Relaxed);
        let (commands, wanted) = mpsc::unbounded_channel();
        let (out, arrived) = mpsc::unbounded_channel();
        #[expect(
            clippy::disallowed_methods,
            reason = "messages must be extended while handlers run, and given back after a drop: nobody polls us then"
        )]
        tokio::spawn(Pump::new(shared, live, wanted, out).run());
        Ok(Self { shared: Arc::clone(shared), parking: parking.map(Arc::new), commands, arrived })
    }

    fn message(&self, number: Number, mut message: Pulled) -> Message {
        let receipt = SqsReceipt::new(&self.shared, self.parking.as_ref(), &self.commands, number, &message);
        let count = attribute(&message, &MessageSystemAttributeName::ApproximateReceiveCount);
        let delivery_count = count.and_then(|count| count.parse().ok());
        let Content { attributes, headers, body } = binding::read(&mut message);
        // A standard queue has no order. In a FIFO queue a message that is held holds back its group, so that nothing would
        // be put before it by refusing what comes from a former owner of the lane.
        Message { attributes, headers, body, delivery_count, position: None, receipt: Box::new(receipt) }
    }

    /// Gives back what arrived and nobody has seen, to be delivered again at once.
    fn give_back(&mut self) {
        self.arrived.close();
        while let Ok(arrived) = self.arrived.try_recv() {
            if let Ok((number, _)) = arrived {
                let answer = Answer::Return(Duration::ZERO);
                let _ = self.commands.send(Command::Answer { number, answer, told: None });
            }
        }
    }
}

/// Where messages that cannot be handled go: the queue of the settings, or the dead-letter queue of the redrive policy.
/// What cannot be found out is an error: without such a queue these messages are deleted.
async fn parking(shared: &Shared, live: &Live) -> Result<Option<Parking>> {
    let options = shared.connection.options();
    if let Some(name) = &options.parked {
        let live = shared.connection.queue(name).await.map_err(|error| error.context("parked="))?;
        return Ok(Some(Parking { name: name.clone(), live }));
    }
    let asking = live.client.get_queue_attributes().queue_url(&live.url);
    let asking = asking.attribute_names(QueueAttributeName::RedrivePolicy).send();
    let answer = within(options.connect_timeout, asking).await.map_err(|trouble| {
        let doing = "the redrive policy cannot be read; allow sqs:GetQueueAttributes or set parked=";
        trouble.into_error(options, &shared.queue).context(doing)
    })?;
    let policy = answer.attributes.as_ref().and_then(|all| all.get(&QueueAttributeName::RedrivePolicy));
    let Some(name) = policy.and_then(|policy| dead_letters(policy)) else { return Ok(None) };
    let found = shared.connection.queue(&name).await;
    let live = found.map_err(|error| {
        error.context(
            "the queue of the redrive policy cannot take parked messages; set parked= to use another",
        )
    })?;
    Ok(Some(Parking { name, live }))
}

/// The name of the queue in a redrive policy.
fn dead_letters(policy: &str) -> Option<String> {
    let policy: serde_json::Value = serde_json::from_str(policy).ok()?;
    let name = policy.get("deadLetterTargetArn")?.as_str()?.rsplit(':').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

fn attribute<'a>(message: &'a Pulled, name: &MessageSystemAttributeName) -> Option<&'a String> {
    message.attributes.as_ref()?.get(name)
}

#[async_trait]
impl Subscription for SqsSubscription {
    async fn next(&mut self) -> Result<Option<Message>> {
        match self.arrived.recv().await {
            Some(Ok((number, message))) => Ok(Some(self.message(number, message))),
            Some(Err(error)) => Err(error),
            None => {
                Err(Error::new(ErrorKind::Unavailable, "the subscription has ended")
                    .with_code("connection_lost"))
            }
        }
    }

    async fn close(&mut self) {
        self.give_back();
        let (closed, is_closed) = oneshot::channel();
        if self.commands.send(Command::Close(closed)).is_ok() {
            let _ = timeout(CLOSE_MAX, is_closed).await;
        }
    }
}

impl Drop for SqsSubscription {
    fn drop(&mut self) {
        self.give_back();
        let _ = self.commands.send(Command::Close(oneshot::channel().0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_letter_queue_of_a_policy_is_found() {
        let policy = r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:123456789012:orders-dead.fifo","maxReceiveCount":"5"}"#;
        assert_eq!(dead_letters(policy).as_deref(), Some("orders-dead.fifo"));
        for policy in ["", "{}", "{\"deadLetterTargetArn\":7}", "{\"deadLetterTargetArn\":\"\"}"] {
            assert_eq!(dead_letters(policy), None, "{policy}");
        }
    }
}
