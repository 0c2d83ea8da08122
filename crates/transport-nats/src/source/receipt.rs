//! The answer to a message.

use std::sync::Arc;

use async_nats::client::Request;
use async_nats::jetstream::{AckKind, Message};
use async_nats::{HeaderMap, RequestErrorKind};
use async_trait::async_trait;
use futures_util::FutureExt;
use pillarbox_core::port::Receipt;
use pillarbox_core::{Error, ErrorKind, Result};

use crate::connection::{Connection, Live};
use crate::error;

/// Answers one message, and waits until the server has heard it. Dropped without an answer it gives the message back.
pub(super) struct NatsReceipt {
    connection: Arc<Connection>,
    live: Live,
    message: Message,
    answered: bool,
}

impl NatsReceipt {
    pub(super) fn new(connection: &Arc<Connection>, live: &Live, message: Message) -> Self {
        Self { connection: Arc::clone(connection), live: live.clone(), message, answered: false }
    }

    fn given_back(&self) -> AckKind {
        let delay = self.connection.options().nack_delay;
        AckKind::Nak(Some(delay).filter(|delay| !delay.is_zero()))
    }

    async fn answer(&mut self, kind: AckKind) -> Result<()> {
        self.answered = true;
        let Some(reply) = self.message.reply.clone() else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the message does not come from JetStream, so it cannot be acknowledged",
            ));
        };
        let request = Request::new().payload(kind.into());
        let answered = self.live.client().send_request(reply, request).await;
        answered.map(drop).map_err(|cause| match cause.kind() {
            RequestErrorKind::NoResponders => {
                Error::new(ErrorKind::NotFound, "the consumer no longer exists, so the answer was lost")
            }
            _ => error::unanswered(&cause).context("the server did not answer the acknowledgement"),
        })
    }

    /// The consumer and the message's place in the stream: they stay when it comes again.
    fn place(&self) -> String {
        let info = self.message.info().ok();
        info.map_or_else(String::new, |info| {
            format!("{} {} {}", info.stream, info.consumer, info.stream_sequence)
        })
    }

    /// Stores a copy where it is not delivered to this consumer again.
    async fn keep(&self, subject: &str) -> Result<()> {
        let mut headers = HeaderMap::new();
        for (name, values) in self.message.headers.iter().flat_map(HeaderMap::iter) {
            let name: &str = name.as_ref();
            if !name.to_ascii_lowercase().starts_with("nats-") {
                values.iter().for_each(|value| headers.append(name, value.clone()));
            }
        }
        headers.insert("pillarbox-parked-subject", self.message.subject.as_str());
        // The event's own id would make the copy a repetition of the original, and it would be dropped.
        headers.insert(async_nats::header::NATS_MESSAGE_ID, self.place().as_str());
        let payload = self.message.payload.clone();
        let stored = async {
            let confirm =
                self.live.context.publish_with_headers(subject.to_owned(), headers, payload).await?;
            confirm.await
        };
        stored.await.map(drop).map_err(|cause| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the message cannot be parked in {subject:?}: {cause}"),
            )
        })
    }
}

#[async_trait]
impl Receipt for NatsReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.answer(AckKind::Ack).await
    }

    async fn nack(mut self: Box<Self>) -> Result<()> {
        let given_back = self.given_back();
        self.answer(given_back).await
    }

    async fn park(mut self: Box<Self>) -> Result<()> {
        if let Some(subject) = &self.connection.options().parked {
            self.keep(subject).await?;
        }
        self.answer(AckKind::Term).await
    }
}

impl Drop for NatsReceipt {
    fn drop(&mut self) {
        if !self.answered
            && let Some(reply) = self.message.reply.clone()
        {
            // Only handed to the connection, which is all that can be done without waiting.
            let _ = self.live.client().publish(reply, self.given_back().into()).now_or_never();
        }
    }
}
