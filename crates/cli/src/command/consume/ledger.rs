//! The mark of an event, written after its answer: no transaction is open while another process works.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use pillarbox_core::port::{AcceptRequest, Accepted, Inbox, Transactions};
use pillarbox_core::{EventId, Result};
use tokio::sync::Notify;

use crate::database::{AnyInbox, Staging};

/// Marks events in the inbox of a database, in two steps: whether the event is known, and after the answer the mark.
///
/// The child or the service may take its time, and may write to the same database. An open transaction would stand in
/// its way, on SQLite for ever.
pub(super) struct Ledger {
    staging: Staging,
    inbox: AnyInbox,
    at_work: Arc<AtWork>,
}

/// The events that this process has handed over and that are not answered yet.
#[derive(Default)]
struct AtWork {
    events: Mutex<BTreeSet<EventId>>,
    answered: Notify,
}

/// An event on its way. Dropped, a duplicate of it may be handed over.
#[derive(Default)]
pub(super) struct Pending {
    request: Option<AcceptRequest>,
    turn: Option<Turn>,
}

struct Turn {
    at_work: Arc<AtWork>,
    event_id: EventId,
}

impl Ledger {
    pub(super) fn new(staging: Staging) -> Self {
        Self { inbox: staging.inbox(), staging, at_work: Arc::default() }
    }

    /// Marks the event and commits, or looks whether it could be marked.
    async fn mark(&self, request: AcceptRequest, keep: Keep) -> Result<Accepted> {
        let mut tx = self.staging.begin().await?;
        let accepted = tx.accept(&self.inbox, request).await?;
        match (keep, accepted) {
            (Keep::Mark, Accepted::Fresh) | (_, Accepted::Duplicate) => tx.commit().await?,
            _ => tx.rollback().await?,
        }
        Ok(accepted)
    }
}

#[derive(Clone, Copy)]
enum Keep {
    Mark,
    Nothing,
}

#[async_trait]
impl Inbox<Pending> for Ledger {
    async fn accept(&self, pending: &mut Pending, request: AcceptRequest) -> Result<Accepted> {
        // A duplicate that this process has at work waits for the answer.
        pending.turn = Some(self.at_work.turn(request.event_id).await);
        let accepted = self.mark(request.clone(), Keep::Nothing).await?;
        pending.request = (accepted == Accepted::Fresh).then_some(request);
        Ok(accepted)
    }
}

#[async_trait]
impl Transactions for Ledger {
    type Tx = Pending;

    async fn begin(&self) -> Result<Pending> {
        Ok(Pending::default())
    }

    async fn commit(&self, pending: Pending) -> Result<()> {
        let Some(request) = pending.request.clone() else { return Ok(()) };
        // The event was applied: whoever owned its lane, it is marked.
        let _ = self.mark(request.origin(None), Keep::Mark).await?;
        Ok(())
    }

    async fn rollback(&self, _: Pending) -> Result<()> {
        Ok(())
    }
}

impl AtWork {
    async fn turn(self: &Arc<Self>, event_id: EventId) -> Turn {
        loop {
            let answered = self.answered.notified();
            tokio::pin!(answered);
            // Before the look: what is answered in between is not missed.
            answered.as_mut().enable();
            if self.lock().insert(event_id) {
                return Turn { at_work: Arc::clone(self), event_id };
            }
            answered.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<EventId>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.at_work.lock().remove(&self.event_id);
        self.at_work.answered.notify_waiters();
    }
}
