//! Sagas: settling their steps, and what operators see of them.

mod admin;
mod read;
mod settle;
mod stage;
mod write;

use std::fmt;
use std::sync::Arc;

use pillarbox_core::SagaRecord;
use pillarbox_core::port::{AuditSink, SagaEnd, SagaEnding, SagaHooks};

use crate::store::SqliteStore;
use crate::writer::Tx;

/// The sagas of a store, as a relay needs them. Cheap to clone.
///
/// ```
/// # use std::sync::Arc;
/// # use pillarbox_core::{Event, Result};
/// # use pillarbox_engine::{Relay, sink::Handlers};
/// # use pillarbox_store_sqlite::{Outbox, SqliteStore};
/// # fn example(store: SqliteStore, handlers: Handlers) -> Result<Relay> {
/// let outbox = Outbox::new("mail").options(store.options().clone());
/// let sagas = store.sagas().on_end(move |tx, saga| {
///     let outbox = outbox.clone();
///     Box::pin(async move {
///         outbox.stage(tx, Event::json("saga.ended", saga)?).await?;
///         Ok(())
///     })
/// });
/// Relay::sagas(store, sagas, handlers).route("sagas").build()
/// # }
/// ```
#[derive(Clone)]
pub struct Sagas {
    store: SqliteStore,
    hooks: SagaHooks<Tx>,
}

impl fmt::Debug for Sagas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sagas").field("prefix", &self.store.statements.tables.prefix).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// The sagas of this store: what a relay needs to settle their steps.
    #[must_use]
    pub fn sagas(&self) -> Sagas {
        Sagas { store: self.clone(), hooks: SagaHooks::default() }
    }
}

impl Sagas {
    /// Sets what is called in the transaction in which a saga ends.
    #[must_use]
    pub fn on_end<F>(self, end: F) -> Self
    where
        F: for<'a> Fn(&'a mut Tx, &'a SagaRecord) -> SagaEnding<'a> + Send + Sync + 'static,
    {
        self.end(Arc::new(end))
    }

    /// The same for a type of its own.
    #[must_use]
    pub fn end(mut self, end: Arc<dyn SagaEnd<Tx>>) -> Self {
        self.hooks = self.hooks.end(end);
        self
    }

    /// Sets all callbacks and sinks at once.
    #[must_use]
    pub fn hooks(mut self, hooks: SagaHooks<Tx>) -> Self {
        self.hooks = hooks;
        self
    }

    /// Adds a sink of audit records.
    #[must_use]
    pub fn audit_sink(mut self, sink: Arc<dyn AuditSink<Tx>>) -> Self {
        self.hooks = self.hooks.sink(sink);
        self
    }
}
