//! Pulling messages, some ahead of their use.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::message::Message as Pulled;
use async_nats::{StatusCode, Subscriber};
use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt};
use pillarbox_core::port::{Message, Position, Subscription};
use pillarbox_core::{Error, ErrorKind, Result};
use tokio::time::{Instant, sleep_until};

use crate::binding;
use crate::connection::{Connection, Live};
use crate::error;

use super::receipt::NatsReceipt;

/// How long the server keeps a request for messages open.
const EXPIRES: Duration = Duration::from_secs(30);
/// How often the server shows that a request is still open.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// A server that is silent for this long is taken to be gone.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// A stream of messages.
///
/// The client's own stream of pulled messages is not used: it asks for more while it is being emptied, so that
/// dropping it would leave messages unanswered that nobody has seen.
pub(super) struct NatsSubscription {
    connection: Arc<Connection>,
    live: Live,
    /// Where messages are asked for.
    next: String,
    /// Where the server tells about the consumer.
    info: String,
    inbox: String,
    pulled: Subscriber,
    /// Messages that were asked for and did not arrive yet.
    awaited: usize,
    /// When the server was last heard.
    heard: Instant,
}

impl NatsSubscription {
    pub(super) async fn open(
        connection: &Arc<Connection>,
        live: Live,
        stream: &str,
        durable: &str,
    ) -> Result<Self> {
        let client = live.client();
        let inbox = client.new_inbox();
        let pulled = client.subscribe(inbox.clone()).await.map_err(|cause| error::unanswered(&cause))?;
        Ok(Self {
            connection: Arc::clone(connection),
            live,
            next: format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}"),
            info: format!("$JS.API.CONSUMER.INFO.{stream}.{durable}"),
            inbox,
            pulled,
            awaited: 0,
            heard: Instant::now(),
        })
    }

    /// Gives back what arrived and nobody has seen, so that it need not wait for `ack_wait`. Only handed to the
    /// connection, which is all that can be done without waiting.
    fn give_back(&mut self) {
        let client = self.live.client();
        // First, so that what is given back is not delivered to us again.
        let _ = self.pulled.unsubscribe().now_or_never();
        while let Some(Some(message)) = self.pulled.next().now_or_never() {
            if message.status.is_none()
                && let Some(reply) = message.reply
            {
                let _ = client.publish(reply, "-NAK".into()).now_or_never();
            }
        }
    }

    /// Asks for as many messages as may wait here.
    async fn ask(&mut self) -> Result<()> {
        let batch = self.connection.options().prefetch;
        let (expires, heartbeat) = (EXPIRES.as_nanos(), HEARTBEAT.as_nanos());
        let request = format!(r#"{{"batch":{batch},"expires":{expires},"idle_heartbeat":{heartbeat}}}"#);
        let client = self.live.client();
        let asked = client.publish_with_reply(self.next.clone(), self.inbox.clone(), request.into()).await;
        asked.map_err(|_| lost())?;
        // Nothing is awaited in between: a request that was sent is remembered even if we are dropped.
        self.awaited = batch;
        self.heard = Instant::now();
        Ok(())
    }

    /// A message, or `None` when it was only a word about the request.
    fn take(&mut self, message: async_nats::Message) -> Result<Option<Message>> {
        self.heard = Instant::now();
        let said = message.description.as_deref().unwrap_or_default();
        match message.status {
            None | Some(StatusCode::OK) => {
                self.awaited = self.awaited.saturating_sub(1);
                Ok(Some(self.open_message(message)))
            }
            Some(StatusCode::IDLE_HEARTBEAT) => Ok(None),
            // The request is over; the next one may find more.
            Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => {
                self.awaited = 0;
                Ok(None)
            }
            Some(StatusCode::REQUEST_TERMINATED) if said == "Message Size Exceeds MaxBytes" => {
                self.awaited = 0;
                Ok(None)
            }
            Some(StatusCode::REQUEST_TERMINATED) if said.starts_with("Exceeded MaxRequest") => {
                Err(Error::invalid(format!("the consumer does not allow prefetch={}: {said}", self.awaited)))
            }
            Some(status) => Err(Error::new(
                ErrorKind::Unavailable,
                format!("the server ended the request: {status} {said}"),
            )),
        }
    }

    fn open_message(&self, message: async_nats::Message) -> Message {
        let pulled = Pulled { message, context: self.live.context.clone() };
        let info = pulled.info().ok();
        let delivered = info.as_ref().and_then(|info| u32::try_from(info.delivered).ok());
        let position = info.and_then(|info| {
            let offset = i64::try_from(info.stream_sequence).ok()?;
            Some(Position { stream: info.stream.to_owned(), offset })
        });
        // Without headers there are no attributes, and so it is no event.
        let (attributes, headers) = pulled.headers.as_ref().map(binding::read).unwrap_or_default();
        Message {
            attributes,
            headers,
            body: pulled.payload.to_vec(),
            delivery_count: delivered,
            position,
            receipt: Box::new(NatsReceipt::new(&self.connection, &self.live, pulled)),
        }
    }
}

#[async_trait]
impl Subscription for NatsSubscription {
    async fn next(&mut self) -> Result<Option<Message>> {
        loop {
            if self.awaited == 0 {
                self.ask().await?;
            }
            let message = tokio::select! {
                biased;
                message = self.pulled.next() => message.ok_or_else(lost)?,
                () = self.live.lost() => return Err(lost()),
                () = sleep_until(self.heard + SILENCE_MAX) => {
                    self.live.distrust();
                    let text = format!("the server sent nothing for {SILENCE_MAX:?}");
                    return Err(Error::new(ErrorKind::Unavailable, text).with_code("no_answer"));
                }
            };
            if let Some(message) = self.take(message)? {
                return Ok(Some(message));
            }
        }
    }

    async fn close(&mut self) {
        self.give_back();
        // The server works through a connection in order: once it answers, it has also read that our request for
        // messages is over, and gives the next message to a consumer that is there.
        let bound = self.connection.options().connect_timeout;
        let client = self.live.client();
        let answer = client.request(self.info.clone(), "".into());
        if tokio::time::timeout(bound, answer).await.is_err() {
            self.live.distrust();
        }
    }
}

impl Drop for NatsSubscription {
    fn drop(&mut self) {
        self.give_back();
    }
}

pub(crate) fn lost() -> Error {
    Error::new(ErrorKind::Unavailable, "the connection to NATS was lost").with_code("connection_lost")
}
