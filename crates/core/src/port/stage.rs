//! The application's side of the outbox: staging inside its own transaction.

use async_trait::async_trait;

use crate::entry::Staged;
use crate::error::{Error, Result};
use crate::event::Event;

/// Writes events inside the application's own transaction. `Tx` is the type that the driver has for it.
///
/// Staging commits nothing. The events become durable exactly when the caller's transaction does. A rollback
/// removes them too.
#[async_trait]
pub trait Stage<Tx: Send + ?Sized>: Send + Sync {
    /// Stages events in one statement. The outcomes are in the order of the events. Without events, nothing is
    /// done.
    async fn stage_all(&self, tx: &mut Tx, events: Vec<Event>) -> Result<Vec<Staged>>;
}

/// Events that are collected during an operation and staged at its end, in one statement.
///
/// A buffer is a value of one operation, so two tasks cannot share one by accident.
///
/// ```
/// # use pillarbox_core::{Event, port::Buffer};
/// let mut buffer = Buffer::new();
/// buffer.stage(Event::new("order.placed", b"{}".to_vec()))?;
/// assert_eq!(buffer.len(), 1);
/// # Ok::<(), pillarbox_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Buffer {
    events: Vec<Event>,
    flushed: bool,
}

impl Buffer {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events wait for the flush.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether no event waits for the flush.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Adds an event to the buffer.
    ///
    /// # Errors
    /// After the flush: the event would be lost.
    pub fn stage(&mut self, event: Event) -> Result<()> {
        if self.flushed {
            return Err(Error::invalid(
                "this buffer was already flushed, so the event would be lost. Stage it before the flush, or \
                 in a new buffer",
            ));
        }
        self.events.push(event);
        Ok(())
    }

    /// Runs an operation with a fresh buffer in a transaction that was begun for it. Then it stages the events that
    /// the operation has put into the buffer. It returns the transaction: the caller commits it if the result is
    /// `Ok`, and rolls it back if not.
    pub async fn around<Tx, S, T, E>(
        outbox: &S,
        mut tx: Tx,
        work: impl AsyncFnOnce(&mut Tx, &mut Self) -> Result<T, E>,
    ) -> (Tx, Result<T, E>)
    where
        Tx: Send,
        S: Stage<Tx> + ?Sized,
        E: From<Error>,
    {
        let mut buffer = Self::new();
        let outcome = match work(&mut tx, &mut buffer).await {
            Ok(done) => buffer.flush_rest(outbox, &mut tx).await.map(|()| done).map_err(E::from),
            Err(error) => Err(error),
        };
        (tx, outcome)
    }

    /// Stages all events of the buffer. Call it once, just before the commit.
    ///
    /// # Errors
    /// When it was flushed before, or staging fails; the transaction should then be rolled back.
    pub async fn flush<Tx, S>(&mut self, outbox: &S, tx: &mut Tx) -> Result<Vec<Staged>>
    where
        Tx: Send,
        S: Stage<Tx> + ?Sized,
    {
        if std::mem::replace(&mut self.flushed, true) {
            return Err(Error::invalid(
                "this buffer was already flushed; flush a buffer once, just before the commit",
            ));
        }
        outbox.stage_all(tx, std::mem::take(&mut self.events)).await
    }

    /// Calls [`flush`](Self::flush) unless that was done before. This ends an operation that may have flushed the
    /// buffer itself to see the outcomes.
    ///
    /// # Errors
    /// When staging fails; the transaction should then be rolled back.
    pub async fn flush_rest<Tx, S>(&mut self, outbox: &S, tx: &mut Tx) -> Result<()>
    where
        Tx: Send,
        S: Stage<Tx> + ?Sized,
    {
        if !self.flushed {
            self.flush(outbox, tx).await?;
        }
        Ok(())
    }
}
