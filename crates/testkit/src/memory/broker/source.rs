//! The consumer's end of a queue in memory.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{Message, Position, Receipt, Source, SourceCapabilities, Subscription};
use pillarbox_core::{Error, ErrorKind, Result};

use super::queue::{Answer, Stored};
use super::{Shared, State};

/// A source that consumes a queue of a [`MemoryBroker`](super::MemoryBroker).
pub struct MemorySource {
    shared: Arc<Shared>,
    queue: String,
}

impl MemorySource {
    pub(super) fn new(shared: Arc<Shared>, queue: &str) -> Self {
        Self { shared, queue: queue.to_owned() }
    }
}

#[async_trait]
impl Source for MemorySource {
    fn capabilities(&self) -> SourceCapabilities {
        let counts = !self.shared.lock().counts_hidden;
        SourceCapabilities::default().delivery_count(counts).keeps_parked(true).returns_in_order(true)
    }

    fn name(&self) -> Option<&str> {
        Some(&self.queue)
    }

    async fn subscribe(&self) -> Result<Box<dyn Subscription>> {
        let mut state = self.shared.lock();
        if state.down {
            return Err(unavailable("the broker is down"));
        }
        state.last_stream += 1;
        let stream = state.last_stream;
        let cuts = state.queue(&self.queue).cuts;
        drop(state);
        Ok(Box::new(Stream { shared: Arc::clone(&self.shared), queue: self.queue.clone(), stream, cuts }))
    }
}

struct Stream {
    shared: Arc<Shared>,
    queue: String,
    stream: u64,
    cuts: u64,
}

impl Stream {
    fn take(&self) -> Result<Option<Message>> {
        let mut state = self.shared.lock();
        let counts_hidden = state.counts_hidden;
        let queue = state.queue(&self.queue);
        if queue.cuts != self.cuts {
            return Err(unavailable("the stream was cut"));
        }
        let Some((delivery, place, Stored { message, deliveries })) = queue.deliver(self.stream) else {
            return Ok(None);
        };
        let position = i64::try_from(place).ok().filter(|_| deliveries == 1 || !counts_hidden);
        let receipt = Ticket { shared: Arc::clone(&self.shared), queue: self.queue.clone(), delivery };
        Ok(Some(Message {
            attributes: message.attributes,
            headers: message.headers,
            body: message.body,
            delivery_count: (!counts_hidden).then_some(deliveries),
            position: position.map(|offset| Position { stream: self.queue.clone(), offset }),
            receipt: Box::new(receipt),
        }))
    }
}

#[async_trait]
impl Subscription for Stream {
    async fn next(&mut self) -> Result<Option<Message>> {
        let shared = Arc::clone(&self.shared);
        loop {
            let changed = shared.changed.notified();
            tokio::pin!(changed);
            // Listening begins before the look at the queue, so that nothing is missed in between.
            changed.as_mut().enable();
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            changed.await;
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.lock().queue(&self.queue).give_back(self.stream);
        self.shared.changed.notify_waiters();
    }
}

/// The right to answer one delivery. Dropped without an answer, the message comes again.
struct Ticket {
    shared: Arc<Shared>,
    queue: String,
    delivery: u64,
}

impl Ticket {
    fn answer(&self, answer: Answer) -> Result<()> {
        let mut state = self.shared.lock();
        let lost = state.answers_to_lose > 0;
        let taken = if lost {
            state.answers_to_lose -= 1;
            Err(unavailable("the answer was lost"))
        } else {
            self.take(&mut state, answer)
        };
        drop(state);
        self.shared.changed.notify_waiters();
        taken
    }

    fn take(&self, state: &mut State, answer: Answer) -> Result<()> {
        if state.queue(&self.queue).answer(self.delivery, answer) {
            return Ok(());
        }
        Err(unavailable("this delivery was already answered"))
    }
}

#[async_trait]
impl Receipt for Ticket {
    async fn ack(self: Box<Self>) -> Result<()> {
        self.answer(Answer::Ack)
    }

    async fn nack(self: Box<Self>) -> Result<()> {
        self.answer(Answer::Nack)
    }

    async fn park(self: Box<Self>) -> Result<()> {
        self.answer(Answer::Park)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // After an answer this delivery was already answered, and nothing happens.
        if self.shared.lock().queue(&self.queue).answer(self.delivery, Answer::Nack) {
            self.shared.changed.notify_waiters();
        }
    }
}

fn unavailable(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, why)
}
