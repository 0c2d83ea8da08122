//! The store as the role `pillarbox_relay` of `roles.sql` uses it, under the whole suite.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::{SagaHarness, StoreHarness, Tamper};
use pillarbox_core::Timestamp;
use pillarbox_core::port::{Presence, SagaHooks, Sagas};
use pillarbox_store_postgres::{Inbox, Outbox, PostgresStore};
use sqlx::{Postgres, Transaction};

use crate::harness::{Direct, at_the_end};
use crate::roles::Roles;

/// A migrated store of the superuser, and one of the relay's role on the same tables.
pub(crate) struct AsRelay {
    owner: Direct,
    roles: Roles,
    store: Arc<PostgresStore>,
}

impl Drop for AsRelay {
    fn drop(&mut self) {
        at_the_end(self.owner.sql(&self.roles.end()));
    }
}

#[async_trait]
impl StoreHarness for AsRelay {
    type Tx = Transaction<'static, Postgres>;
    type Outbox = Outbox;
    type Inbox = Inbox;
    type Store = PostgresStore;

    const NAME: &'static str = "postgres as the relay's role";

    async fn start() -> Self {
        let owner = Direct::start().await;
        let roles = Roles::grant(&owner).await;
        let store = Arc::new(roles.store("relay", owner.options.clone()).await);
        Self { owner, roles, store }
    }

    fn store(&self) -> Arc<PostgresStore> {
        Arc::clone(&self.store)
    }

    fn presence(&self) -> Option<Arc<dyn Presence>> {
        Some(self.store())
    }

    fn outbox(&self, route: &str) -> Outbox {
        self.owner.outbox(route)
    }

    fn inbox(&self) -> Inbox {
        self.store.inbox()
    }

    async fn now(&self) -> Timestamp {
        self.owner.now().await
    }

    async fn begin(&self) -> Self::Tx {
        self.store.pool().begin().await.unwrap()
    }

    async fn commit(&self, tx: Self::Tx) {
        self.owner.commit(tx).await;
    }

    async fn rollback(&self, tx: Self::Tx) {
        self.owner.rollback(tx).await;
    }

    async fn savepoint(&self, tx: &mut Self::Tx) {
        self.owner.savepoint(tx).await;
    }

    async fn rollback_to_savepoint(&self, tx: &mut Self::Tx) {
        self.owner.rollback_to_savepoint(tx).await;
    }

    async fn tamper(&self, tamper: Tamper) -> bool {
        // That takes another connection, which would be the owner's.
        if matches!(tamper, Tamper::AdvanceClock(_)) {
            return false;
        }
        self.owner.tamper(tamper).await
    }
}

impl SagaHarness for AsRelay {
    fn sagas(&self, hooks: SagaHooks<Transaction<'static, Postgres>>) -> Arc<dyn Sagas> {
        Arc::new(self.store.sagas().hooks(hooks))
    }
}
