//! Sources around the source under test, for what a broker cannot be made to do on demand.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use pillarbox_core::port::{Message, Receipt, Source, SourceCapabilities, Subscription};
use pillarbox_core::{Error, ErrorKind, Result};

/// The ids of the messages that arrived, in that order.
pub(super) type Arrivals = Arc<Mutex<Vec<String>>>;

/// How a source is changed.
#[derive(Clone)]
pub(super) enum Change {
    /// No answer reaches the broker: what a consumer that dies before its answer leaves behind.
    AnswersAreLost,
    /// No delivery count is reported.
    CountsAreHidden,
    /// What arrives is recorded.
    ArrivalsAreSeen(Arrivals),
}

/// The same source, changed.
pub(super) fn changed(source: Arc<dyn Source>, change: Change) -> Arc<dyn Source> {
    Arc::new(Changed { source, change })
}

struct Changed {
    source: Arc<dyn Source>,
    change: Change,
}

#[async_trait]
impl Source for Changed {
    fn capabilities(&self) -> SourceCapabilities {
        let capabilities = self.source.capabilities();
        match self.change {
            Change::CountsAreHidden => capabilities.delivery_count(false),
            _ => capabilities,
        }
    }

    async fn subscribe(&self) -> Result<Box<dyn Subscription>> {
        let stream = self.source.subscribe().await?;
        Ok(Box::new(ChangedStream { stream, change: self.change.clone(), held: Arc::default() }))
    }
}

/// The receipts are kept for as long as the stream: a broker must see neither an answer nor its absence before
/// that.
type HeldReceipts = Arc<Mutex<Vec<Box<dyn Receipt>>>>;

struct ChangedStream {
    stream: Box<dyn Subscription>,
    change: Change,
    held: HeldReceipts,
}

#[async_trait]
impl Subscription for ChangedStream {
    async fn next(&mut self) -> Result<Option<Message>> {
        let Some(mut message) = self.stream.next().await? else { return Ok(None) };
        match &self.change {
            Change::AnswersAreLost => {
                let held = Arc::clone(&self.held);
                message.receipt = Box::new(Lost { receipt: message.receipt, held });
            }
            Change::CountsAreHidden => {
                message.position = message.position.filter(|_| message.delivery_count == Some(1));
                message.delivery_count = None;
            }
            Change::ArrivalsAreSeen(arrivals) => {
                let id = message.attributes.get("id").cloned().unwrap_or_default();
                arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(id);
            }
        }
        Ok(Some(message))
    }

    async fn close(&mut self) {
        self.stream.close().await;
    }
}

struct Lost {
    receipt: Box<dyn Receipt>,
    held: HeldReceipts,
}

impl Lost {
    fn lose(self) -> Result<()> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(self.receipt);
        Err(Error::new(ErrorKind::Unavailable, "the answer was lost"))
    }
}

#[async_trait]
impl Receipt for Lost {
    async fn ack(self: Box<Self>) -> Result<()> {
        self.lose()
    }

    async fn nack(self: Box<Self>) -> Result<()> {
        self.lose()
    }

    async fn park(self: Box<Self>) -> Result<()> {
        self.lose()
    }
}
