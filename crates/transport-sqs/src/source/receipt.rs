//! The answer to a message.

use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_sqs::types::{Message, MessageAttributeValue};
use pillarbox_core::port::Receipt;
use pillarbox_core::{Error, ErrorKind, Result};
use tokio::sync::{mpsc, oneshot};

use crate::connection::{Live, within};
use crate::options::is_fifo;

use super::Shared;
use super::held::Number;
use super::pump::{Answer, Command};

/// The attribute of a parked copy that tells where the message came from.
const PARKED_QUEUE: &str = "pillarbox-parked-queue";
/// Most attributes of a message: the limit of SQS.
const ATTRIBUTES_MAX: usize = 10;

/// Where a source puts messages that cannot be handled.
pub(super) struct Parking {
    pub(super) name: String,
    pub(super) live: Live,
}

/// Answers one message, and waits until the server has heard it. Dropped without an answer it gives the message back.
pub(super) struct SqsReceipt {
    shared: Arc<Shared>,
    parking: Option<Arc<Parking>>,
    commands: mpsc::UnboundedSender<Command>,
    number: Number,
    /// The message, kept if it can be parked.
    message: Option<Box<Message>>,
    answered: bool,
}

impl SqsReceipt {
    pub(super) fn new(
        shared: &Arc<Shared>,
        parking: Option<&Arc<Parking>>,
        commands: &mpsc::UnboundedSender<Command>,
        number: Number,
        message: &Message,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            parking: parking.map(Arc::clone),
            commands: commands.clone(),
            number,
            message: parking.map(|_| Box::new(message.clone())),
            answered: false,
        }
    }

    async fn answer(&mut self, answer: Answer) -> Result<()> {
        self.answered = true;
        let (told, heard) = oneshot::channel();
        let gone =
            || Error::new(ErrorKind::Unavailable, "the subscription has ended").with_code("connection_lost");
        let command = Command::Answer { number: self.number, answer, told: Some(told) };
        self.commands.send(command).map_err(|_| gone())?;
        heard.await.map_err(|_| gone())?
    }

    /// Given back to be delivered again after the usual delay.
    fn given_back(&self) -> Answer {
        Answer::Return(self.shared.connection.options().nack_delay)
    }

    /// Sends a copy to the queue of what was parked.
    async fn keep(&self, parking: &Parking, message: &Message) -> Result<()> {
        let options = self.shared.connection.options();
        let mut attributes = message.message_attributes.clone().unwrap_or_default();
        let from =
            MessageAttributeValue::builder().data_type("String").string_value(&self.shared.queue).build();
        if let Ok(from) = from
            && attributes.len() < ATTRIBUTES_MAX
        {
            attributes.insert(PARKED_QUEUE.to_owned(), from);
        }
        let id = message.message_id.clone().unwrap_or_else(|| self.number.to_string());
        let group = super::pump::group(message).unwrap_or_else(|| id.clone());
        let is_fifo = is_fifo(&parking.name);
        let asking = parking.live.client.send_message();
        let asking = asking
            .queue_url(&parking.live.url)
            .message_body(message.body.as_deref().unwrap_or_default())
            .set_message_attributes(Some(attributes).filter(|attributes| !attributes.is_empty()))
            .set_message_group_id(is_fifo.then_some(group))
            .set_message_deduplication_id(is_fifo.then_some(id))
            .send();
        within(options.connect_timeout, asking).await.map(drop).map_err(|trouble| {
            let cause = trouble.into_error(options, &parking.name);
            let text = format!("the message cannot be parked in {:?}: {}", parking.name, cause.message());
            Error::new(ErrorKind::Unavailable, text).with_code("parked")
        })
    }
}

#[async_trait]
impl Receipt for SqsReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.answer(Answer::Delete).await
    }

    async fn nack(mut self: Box<Self>) -> Result<()> {
        let given_back = self.given_back();
        self.answer(given_back).await
    }

    async fn park(mut self: Box<Self>) -> Result<()> {
        if let (Some(parking), Some(message)) = (&self.parking, &self.message) {
            self.keep(parking, message).await?;
        } else {
            tracing::error!(
                queue = self.shared.queue,
                "a message that cannot be handled is deleted, because neither parked= nor a redrive policy names a queue \
                 for it"
            );
        }
        self.answer(Answer::Delete).await
    }
}

impl Drop for SqsReceipt {
    fn drop(&mut self) {
        if !self.answered {
            let command = Command::Answer { number: self.number, answer: self.given_back(), told: None };
            let _ = self.commands.send(command);
        }
    }
}
