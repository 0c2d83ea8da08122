//! The two kinds of handlers behind one face: called for each event, or once for all events of a transaction.

use pillarbox_core::{Received, Result};

use crate::sink::HandlerError;

/// What runs for the fresh events of one transaction.
pub(super) trait Handler<Tx> {
    /// Applies these events, in their order. There is at least one.
    async fn handle(&self, tx: &mut Tx, events: Vec<Received>) -> Result<(), HandlerError>;
}

/// A handler that is called for each event.
pub(super) struct Each<F>(pub(super) F);

/// A handler that is called once for all events.
pub(super) struct Together<F>(pub(super) F);

impl<Tx, F> Handler<Tx> for Each<F>
where
    F: AsyncFn(&mut Tx, Received) -> Result<(), HandlerError>,
{
    async fn handle(&self, tx: &mut Tx, events: Vec<Received>) -> Result<(), HandlerError> {
        for event in events {
            (self.0)(&mut *tx, event).await?;
        }
        Ok(())
    }
}

impl<Tx, F> Handler<Tx> for Together<F>
where
    F: AsyncFn(&mut Tx, Vec<Received>) -> Result<(), HandlerError>,
{
    async fn handle(&self, tx: &mut Tx, events: Vec<Received>) -> Result<(), HandlerError> {
        (self.0)(tx, events).await
    }
}
