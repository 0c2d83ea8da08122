//! The suite for consuming: the inbox in a file, under the engine's consumer, with the broker in memory.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::{InboxHarness, MemoryBrokerHarness, Ruin, StoreHarness};
use pillarbox_core::port::{Admin, Filter};
use pillarbox_core::{Entry, Event};
use pillarbox_engine::sink::HandlerError;
use pillarbox_store_sqlite::Inbox;
use sqlx::{Sqlite, Transaction};

use crate::harness::SqliteHarness;

struct Effects(SqliteHarness);

#[async_trait]
impl InboxHarness for Effects {
    type Inbox = Inbox;

    const NAME: &'static str = "sqlite inbox";

    async fn start() -> Self {
        let harness = SqliteHarness::start().await;
        harness.execute("create table own (id integer primary key); insert into own values (1)").await;
        Self(harness)
    }

    fn inbox(&self) -> Arc<Inbox> {
        Arc::new(self.0.inbox())
    }

    async fn apply(&self, tx: &mut Transaction<'static, Sqlite>, event: Event) -> Result<(), HandlerError> {
        let _ = self.0.outbox("effects").stage(tx, event).await?;
        Ok(())
    }

    async fn applied(&self) -> Vec<Entry> {
        self.0.store().list(Filter::default()).await.unwrap()
    }

    async fn violate(&self, tx: &mut Transaction<'static, Sqlite>) -> Result<(), HandlerError> {
        let violated = sqlx::query("insert into own values (1)").execute(&mut **tx).await.unwrap_err();
        Err(HandlerError::retry("unique_violation", violated.to_string()))
    }

    async fn ruin(&self, tx: &mut Transaction<'static, Sqlite>, how: Ruin) -> bool {
        SqliteHarness::ruin(tx, how).await
    }

    fn concurrent_writers(&self) -> bool {
        false
    }
}

pillarbox_conformance::consumer_conformance!(MemoryBrokerHarness, Effects);

#[tokio::test]
async fn what_a_handler_stages_is_stamped_after_what_it_reacts_to() {
    pillarbox_conformance::consumer::the_process_has_one_clock::<Effects>().await;
}
