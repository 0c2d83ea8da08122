//! Accepting in memory.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::Result;
use pillarbox_core::port::{AcceptRequest, Accepted, Inbox, Transactions};

use super::state::Key;
use super::store::{MemoryStore, Shared};
use super::tx::{MemoryTx, Write};

/// Marks events as seen in transactions of a [`MemoryStore`].
pub struct MemoryInbox {
    shared: Arc<Shared>,
}

impl MemoryInbox {
    /// The inbox of this store.
    #[must_use]
    pub fn new(store: &MemoryStore) -> Self {
        Self { shared: Arc::clone(&store.shared) }
    }
}

#[async_trait]
impl Inbox<MemoryTx> for MemoryInbox {
    async fn accept(&self, tx: &mut MemoryTx, request: AcceptRequest) -> Result<Accepted> {
        request.check()?;
        tx.check_store(&self.shared)?;
        let key = Key::Accepted(request.consumer, request.event_id);
        tx.write(std::slice::from_ref(&key), |state, exists| {
            if exists(state, &key) {
                return (vec![], Accepted::Duplicate);
            }
            (vec![Write { key: key.clone(), row: None }], Accepted::Fresh)
        })
        .await
    }
}

#[async_trait]
impl Transactions for MemoryInbox {
    type Tx = MemoryTx;

    async fn begin(&self) -> Result<MemoryTx> {
        Ok(MemoryTx::begin(&self.shared))
    }

    async fn commit(&self, tx: MemoryTx) -> Result<()> {
        tx.check_store(&self.shared)?;
        tx.commit();
        Ok(())
    }

    async fn rollback(&self, tx: MemoryTx) -> Result<()> {
        tx.rollback();
        Ok(())
    }
}
