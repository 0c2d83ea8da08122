//! The other side: each event's effect, once, through the inbox.

use pillarbox_core::EventId;
use pillarbox_core::port::{AcceptRequest, Accepted};
use tokio::sync::mpsc::UnboundedReceiver;

use super::state::{Demo, Figures};
use crate::database::{AnyInbox, Notes};
use crate::fault::Fault;

/// Most messages of one transaction.
const MESSAGES_MAX: usize = 50;

/// Applies what arrives until nothing more can.
pub(crate) async fn run(demo: &Demo, mut messages: UnboundedReceiver<EventId>) -> Result<(), Fault> {
    let consumer = format!("demo-{}", demo.run);
    let inbox = demo.database.staging.inbox();
    let mut batch = Vec::with_capacity(MESSAGES_MAX);
    while messages.recv_many(&mut batch, MESSAGES_MAX).await > 0 {
        apply(demo, &inbox, &consumer, &batch).await?;
        batch.clear();
    }
    Ok(())
}

// The mark in the inbox and the effect commit together, or not at all.
async fn apply(demo: &Demo, inbox: &AnyInbox, consumer: &str, batch: &[EventId]) -> Result<(), Fault> {
    let (mut effects, mut absorbed) = (0, 0);
    let mut tx = demo.database.staging.begin().await?;
    for id in batch {
        let request = AcceptRequest::new(consumer, *id);
        match tx.accept(inbox, request).await? {
            Accepted::Fresh => {
                tx.note(Notes::Effects, &demo.run, &id.to_string()).await?;
                effects += 1;
            }
            Accepted::Duplicate => absorbed += 1,
            // Without an origin nothing is.
            Accepted::Stale => {}
        }
    }
    tx.commit().await?;
    Figures::add(&demo.figures.effects, effects);
    Figures::add(&demo.figures.absorbed, absorbed);
    Ok(())
}
