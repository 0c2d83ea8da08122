//! Sagas: settling their steps, and what operators see of them.

mod admin;
mod read;
mod settle;
mod stage;
mod write;

use std::fmt;

use pillarbox_core::port::SagaHooks;
use pillarbox_core::saga_hooks;

use crate::commit::Tx;
use crate::store::MongoStore;

/// The sagas of a store, for use by a relay. Cheap to clone. If another transaction was in the way of one that moves
/// sagas, it runs again, with its callbacks: what these wrote in it is rolled back before.
///
/// ```
/// # use std::sync::Arc;
/// # use pillarbox_core::{Event, Result};
/// # use pillarbox_engine::{Relay, sink::Handlers};
/// # use pillarbox_store_mongodb::MongoStore;
/// # fn example(store: MongoStore, handlers: Handlers) -> Result<Relay> {
/// let outbox = store.outbox("mail");
/// let sagas = store.sagas().on_end(move |tx, saga| {
///     let outbox = outbox.clone();
///     Box::pin(async move { outbox.stage(tx, Event::json("saga.ended", saga)?).await.map(drop) })
/// });
/// Relay::sagas(store, sagas, handlers).route("sagas").build()
/// # }
/// ```
#[derive(Clone)]
pub struct Sagas {
    store: MongoStore,
    hooks: SagaHooks<Tx<'static>>,
}

impl fmt::Debug for Sagas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sagas").field("store", &self.store).finish_non_exhaustive()
    }
}

impl MongoStore {
    /// The sagas of this store. A relay needs them to settle the steps of sagas.
    #[must_use]
    pub fn sagas(&self) -> Sagas {
        Sagas { store: self.clone(), hooks: SagaHooks::default() }
    }
}

saga_hooks!(Sagas, Tx<'static>);
